"""What a merge is worth: the formulas written out for single cases, and what must hold for all."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lakekeeper.core.config.options import resolve
from lakekeeper.core.cost.read_model import Groups
from lakekeeper.core.cost.scoring import costs, scale_of
from lakekeeper.core.model.benefit import (
    WEEK_S,
    Load,
    Worth,
    score_of,
    worth,
)
from lakekeeper.core.model.blocks import Snapshot, make_blocks
from lakekeeper.core.model.coefficients import DEFAULTS, MIB, Coefficients, Measured
from lakekeeper.core.model.keys import ClusterKey, KeyColumn
from lakekeeper.core.workload.workload import Scan, Span, collect

KEY = ClusterKey((KeyColumn(("k",), "int", "1"),))
HOUR_MS = 3_600_000


def picture(boxes: list[tuple[int, int]], size: int = 128 * MIB, **more: Any) -> Snapshot:
    n = len(boxes)
    lo, hi = zip(*boxes, strict=True)
    columns = {
        "path": [f"f{i}" for i in range(n)],
        "rows": [1000] * n,
        "bytes": [size] * n,
        "lo": [list(lo)],
        "hi": [list(hi)],
    }
    columns |= {"null_count": [[0] * n], "exact": [[True] * n], **more}
    return Snapshot("t", "memory", 1, "uuid", "schema", KEY, make_blocks(columns, KEY))


def lookups(*values: int, per_hour: int = 60) -> Any:
    scans = [Scan(i * HOUR_MS // per_hour, {"k": (Span(v, v),)}) for i, v in enumerate(values)]
    return collect("t", scans, source="test", start_ms=0, end_ms=len(values) * HOUR_MS // per_hour)


def test_a_merge_of_two_full_files_that_all_queries_read() -> None:
    asked = lookups(*range(10, 90))
    scale = scale_of(picture([(0, 99), (0, 99)]), resolve(), 0, asked)
    found = scale.worth(Groups(np.arange(2), np.array([0, 2]), np.array([2.0])), np.array([256.0 * MIB]))[0]
    one = 4 * MIB + 0.2 * 128 * MIB
    assert astuple(found.before) == pytest.approx((2.0, 256.0 * MIB, 2 * one))
    assert found.after.files == pytest.approx(1.0, abs=0.02)  # sorted: a value lies in one of the two
    assert found.work == 5 * 256 * MIB + 2 * 4 * MIB
    assert found.gain_per_second == pytest.approx(asked.rate(0) * (found.before.cost - found.after.cost))
    assert found.seconds_saved == pytest.approx(found.gain_per_second / 200e6)
    assert found.score == pytest.approx(
        100 * found.gain_per_second * WEEK_S / (found.gain_per_second * WEEK_S + found.work)
    )


def test_packing_small_files_that_do_not_overlap_pays_for_those_who_read_them_all() -> None:
    snapshot = picture([(10 * i, 10 * i + 9) for i in range(10)], size=1 * MIB)
    everyone = collect("t", [Scan(i, {}) for i in range(100)], source="test")
    scale = scale_of(snapshot, resolve(), 0, everyone)
    found = scale.worth(Groups(np.arange(10), np.array([0, 10]), np.array([1.0])), np.array([10.0 * MIB]))[0]
    assert (found.before.files, found.after.files) == pytest.approx((10.0, 1.0))
    assert found.saved.cost == pytest.approx(9 * 4 * MIB)
    assert found.saved.bytes == pytest.approx(0)


def test_merging_what_does_not_overlap_and_is_large_brings_nothing() -> None:
    snapshot = picture([(0, 9), (10, 19)])
    scale = scale_of(snapshot, resolve(), 0, lookups(*range(20)))
    found = scale.worth(Groups(np.arange(2), np.array([0, 2]), np.array([2.0])), np.array([256.0 * MIB]))[0]
    assert (found.score, found.pays_back_seconds) == (0.0, None)


def test_deleted_rows_and_their_files_are_part_of_the_cost() -> None:
    snapshot = picture([(0, 9)] * 2, deleted_rows=[0, 500], delete_bytes=[0, 1000], delete_id=["", "d"])
    plain, masked = costs(snapshot.blocks, DEFAULTS).tolist()
    assert masked - plain == pytest.approx(4 * MIB + 0.2 * 1000 + 64 * 500)


def test_the_whole_table_is_the_sum_of_its_parts() -> None:
    snapshot = picture([(0, 99)] * 4 + [(100, 199)] * 2)
    scale = scale_of(snapshot, resolve(), 0, lookups(*range(0, 200, 3)))
    groups = Groups(np.arange(6), np.array([0, 4, 6]), np.array([4.0, 2.0]))
    parts = scale.worth(groups, np.array([512.0, 256.0]) * MIB)
    whole = scale.everything(parts)
    assert whole.before.files == pytest.approx(sum(p.before.files for p in parts))
    assert whole.after.files == pytest.approx(sum(p.after.files for p in parts))
    assert whole.work == sum(p.work for p in parts)


@settings(max_examples=100, derandomize=True, deadline=None)
@given(st.floats(0, 1e12), st.floats(1, 1e15), st.floats(1.01, 100))
@example(323896650646.0102, 1.0, 15.6875)  # 100 and more than that, in doubles
@example(5e-324, 1e15, 2.0)
def test_a_score_grows_with_the_gain_and_falls_with_the_work(gain: float, work: float, more: float) -> None:
    score = score_of(gain, work)
    assert 0 <= score <= 100
    assert score_of(gain * more, work) >= score >= score_of(gain, work * more)


def test_what_pays_back_in_a_week_scores_fifty() -> None:
    assert score_of(10.0, 10.0 * WEEK_S) == 50.0


def test_a_worth_comes_back_from_its_data() -> None:
    one = worth(Load(3.0, 30.0, 300.0), Load(1.0, 10.0, 100.0), 1000.0, 0.1, DEFAULTS)
    assert Worth.from_dict(one.to_dict()) == one
    assert one.pays_back_seconds == 50.0


TRUE = Coefficients(open_bytes=8.0 * MIB, rewrite=9.0, deleted_row=200.0, core_speed=50e6)


def _measured(noise: float = 0.0) -> list[Measured]:
    rng = np.random.default_rng(3)
    found = []
    for _ in range(40):
        one = Measured(
            files=int(rng.integers(1, 400)),
            bytes=int(rng.integers(1, 4000)) * MIB,
            core_seconds=0.0,
            deleted_rows=int(rng.integers(0, 10**7)),
        )
        found.append(_timed(one, rng.normal(1, noise)))
    for _ in range(10):
        one = Measured(int(rng.integers(2, 60)), int(rng.integers(100, 4000)) * MIB, 0.0, rewritten=True)
        found.append(_timed(one, rng.normal(1, noise)))
    return found


def _timed(one: Measured, factor: float) -> Measured:
    return Measured(one.files, one.bytes, TRUE.seconds(one) * factor, one.deleted_rows, one.rewritten)


def test_coefficients_are_found_again_from_what_they_made() -> None:
    found = DEFAULTS.fitted(_measured())
    for name in ("open_bytes", "rewrite", "deleted_row", "core_speed"):
        assert getattr(found, name) == pytest.approx(getattr(TRUE, name), rel=0.01)
    assert (found.error, found.measured) == (0.0, 50)


def test_the_error_of_a_fit_is_that_of_the_measurements() -> None:
    found = DEFAULTS.fitted(_measured(noise=0.1))
    assert 0.03 < (found.error or 0.0) < 0.15
    assert found.core_speed == pytest.approx(TRUE.core_speed, rel=0.15)


def test_too_few_measurements_change_nothing_but_tell_the_error() -> None:
    found = DEFAULTS.fitted(_measured()[:2])
    assert (found.core_speed, found.open_bytes) == (DEFAULTS.core_speed, DEFAULTS.open_bytes)
    assert (found.error or 0.0) > 0.5


def test_nothing_measured_is_no_fit() -> None:
    assert DEFAULTS.fitted([]) is DEFAULTS


def test_scans_that_all_read_alike_tell_nothing_of_opening() -> None:
    same = [Measured(4, 100 * MIB, 1.0) for _ in range(30)]
    assert DEFAULTS.fitted(same).open_bytes == DEFAULTS.open_bytes
