"""The worth of a merge: the formulas written out for single cases, and properties that hold for all."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

import numpy as np
import pytest

from lakekeeper.core.config.options import resolve
from lakekeeper.core.cost.read_model import Groups
from lakekeeper.core.cost.scoring import costs, scale_of
from lakekeeper.core.model.benefit import (
    WEEK_S,
)
from lakekeeper.core.model.blocks import Snapshot, make_blocks
from lakekeeper.core.model.coefficients import DEFAULTS, MIB
from lakekeeper.core.model.keys import ClusterKey, KeyColumn
from lakekeeper.core.workload.workload import Scan, Span, collect

KEY = ClusterKey((KeyColumn(("k",), "int", "1"),))
HOUR_MS = 3_600_000


def as_snapshot(boxes: list[tuple[int, int]], size: int = 128 * MIB, **more: Any) -> Snapshot:
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
    queries = lookups(*range(10, 90))
    scale = scale_of(as_snapshot([(0, 99), (0, 99)]), resolve(), 0, queries)
    found = scale.worth(Groups(np.arange(2), np.array([0, 2]), np.array([2.0])), np.array([256.0 * MIB]))[0]
    one = 4 * MIB + 0.2 * 128 * MIB
    assert astuple(found.before) == pytest.approx((2.0, 256.0 * MIB, 2 * one))
    assert found.after.files == pytest.approx(1.0, abs=0.02)  # sorted: each value is in one of the two
    assert found.work == 5 * 256 * MIB + 2 * 4 * MIB
    assert found.gain_per_second == pytest.approx(queries.rate(0) * (found.before.cost - found.after.cost))
    assert found.seconds_saved == pytest.approx(found.gain_per_second / 200e6)
    assert found.score == pytest.approx(
        100 * found.gain_per_second * WEEK_S / (found.gain_per_second * WEEK_S + found.work)
    )


def test_packing_small_files_that_do_not_overlap_pays_for_queries_that_read_them_all() -> None:
    snapshot = as_snapshot([(10 * i, 10 * i + 9) for i in range(10)], size=1 * MIB)
    unfiltered = collect("t", [Scan(i, {}) for i in range(100)], source="test")
    scale = scale_of(snapshot, resolve(), 0, unfiltered)
    found = scale.worth(Groups(np.arange(10), np.array([0, 10]), np.array([1.0])), np.array([10.0 * MIB]))[0]
    assert (found.before.files, found.after.files) == pytest.approx((10.0, 1.0))
    assert found.saved.cost == pytest.approx(9 * 4 * MIB)
    assert found.saved.bytes == pytest.approx(0)


def test_merging_large_files_that_do_not_overlap_gains_nothing() -> None:
    snapshot = as_snapshot([(0, 9), (10, 19)])
    scale = scale_of(snapshot, resolve(), 0, lookups(*range(20)))
    found = scale.worth(Groups(np.arange(2), np.array([0, 2]), np.array([2.0])), np.array([256.0 * MIB]))[0]
    assert (found.score, found.pays_back_seconds) == (0.0, None)


def test_deleted_rows_and_their_files_are_part_of_the_cost() -> None:
    snapshot = as_snapshot([(0, 9)] * 2, deleted_rows=[0, 500], delete_bytes=[0, 1000], delete_id=["", "d"])
    plain, masked = costs(snapshot.blocks, DEFAULTS).tolist()
    assert masked - plain == pytest.approx(4 * MIB + 0.2 * 1000 + 64 * 500)


def test_the_whole_table_is_the_sum_of_its_parts() -> None:
    snapshot = as_snapshot([(0, 99)] * 4 + [(100, 199)] * 2)
    scale = scale_of(snapshot, resolve(), 0, lookups(*range(0, 200, 3)))
    groups = Groups(np.arange(6), np.array([0, 4, 6]), np.array([4.0, 2.0]))
    parts = scale.worth(groups, np.array([512.0, 256.0]) * MIB)
    whole = scale.everything(parts)
    assert whole.before.files == pytest.approx(sum(p.before.files for p in parts))
    assert whole.after.files == pytest.approx(sum(p.after.files for p in parts))
    assert whole.work == sum(p.work for p in parts)
