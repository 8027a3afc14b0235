"""Advice on the cluster key: the key that fits the queries, weighed against the current one."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from lakekeeper.core.config.options import resolve
from lakekeeper.core.cost.key_advisor import Advice, advise
from lakekeeper.core.model.blocks import Snapshot, make_blocks
from lakekeeper.core.model.coefficients import MIB
from lakekeeper.core.model.keys import ClusterKey, KeyColumn
from lakekeeper.core.workload.workload import Scan, Span, Workload, collect
from lakekeeper.errors import OptionError

USER, DAY, STATUS = (KeyColumn((n,), "int", n) for n in ("user", "day", "status"))
BY_DAY = ClusterKey((DAY,))
FILES = 64


def by_day(*, status: bool = False) -> Snapshot:
    """64 files of 128 MiB in order of ``day``; every file holds all 1,000 users (and all five states)."""
    columns = (USER, DAY, STATUS) if status else (USER, DAY)
    bounds = {
        "user": ([0] * FILES, [999] * FILES),
        "day": (list(range(FILES)), list(range(FILES))),
        "status": ([0] * FILES, [4] * FILES),
    }
    key = ClusterKey(columns)
    blocks = make_blocks(
        {
            "path": [f"f{i}" for i in range(FILES)],
            "rows": [1_000_000] * FILES,
            "bytes": [128 * MIB] * FILES,
            "lo": [bounds[c.name][0] for c in columns],
            "hi": [bounds[c.name][1] for c in columns],
            "null_count": [[0] * FILES for _ in columns],
            "exact": [[True] * FILES for _ in columns],
        },
        key,
    )
    return Snapshot("db.t", "memory", 3, "uuid", "schema", key, blocks)


def workload_of(*shapes: dict[str, Any], times: int = 50) -> Workload:
    rng = random.Random(1)
    scans = []
    for i in range(times):
        for shape in shapes:
            filters = {}
            for column, width in shape.items():
                lo = rng.randrange({"user": 1000, "day": FILES, "status": 5}[column])
                filters[column] = (Span(lo, lo + width),)
            scans.append(Scan(i * 60_000, filters))
    return collect("db.t", scans, source="test")


def advice(workload: Workload, present: ClusterKey | None = BY_DAY, **more: Any) -> Advice:
    return advise(by_day(**more), present, workload, resolve(), 0, {})


def test_for_queries_by_user_a_table_clustered_by_day_should_cluster_by_user() -> None:
    found = advice(workload_of({"user": 0}))
    assert found.best is not None
    assert (found.best.columns, found.best.layout) == (("user",), "linear")
    assert found.now.files == pytest.approx(64.0)
    assert found.best.worth.after.files == pytest.approx(1.0, abs=0.1)
    assert found.best.worth.work == 5 * 64 * 128 * MIB + 64 * 4 * MIB


def test_for_queries_by_day_the_key_stays() -> None:
    found = advice(workload_of({"day": 3}))
    assert found.best is None
    present = next(one for one in found.candidates if one.present)
    # A day is a file now; after another sort, a range would end in the middle of one.
    assert present.worth.after.files == pytest.approx(found.now.files + 1, rel=0.1)
    assert "no other key" in str(found)


def test_for_queries_by_user_or_by_day_the_advice_is_a_curve() -> None:
    found = advice(workload_of({"user": 10}, {"day": 1}))
    assert found.best is not None
    assert found.best.layout == "hilbert"
    assert set(found.best.columns) == {"user", "day"}


def test_a_column_of_five_values_is_not_mistaken_for_a_narrow_one() -> None:
    found = advice(workload_of({"status": 0}), status=True)
    alone = next(one for one in found.candidates if one.columns == ("status",))
    assert alone.worth.after.files == pytest.approx(64 / 5, rel=0.15)


def test_two_columns_filtered_together_order_as_a_tuple_where_the_first_is_one_value() -> None:
    found = advice(workload_of({"status": 0, "user": 5}), status=True)
    assert found.best is not None
    assert found.best.columns == ("status", "user")
    assert found.best.worth.after.files == pytest.approx(1.1, abs=0.3)


def test_without_a_current_key_candidates_are_compared_with_the_table_as_it_is() -> None:
    found = advice(workload_of({"user": 0}), None)
    assert found.best is not None
    assert not any(one.present for one in found.candidates)


def test_an_empty_workload_is_refused() -> None:
    with pytest.raises(OptionError, match="workload"):
        advice(collect("db.t", [], source="logs/app"))


def test_scans_without_a_filter_pay_for_no_key() -> None:
    scans = [Scan(i, {}) for i in range(50)] + [Scan(50, {"user": (Span(1, 1),)})]
    assert advice(collect("db.t", scans, source="test")).best is None


def test_the_advice_goes_through_json_and_prints() -> None:
    found = advise(
        by_day(), BY_DAY, workload_of({"user": 0}, {"day": 1}), resolve(), 0, {"note": "it is a map"}
    )
    data = json.loads(found.to_json())
    assert data["best"]["columns"] == ["day", "user"]
    assert data["missing"] == {"note": "it is a map"}
    assert "recommended key: hilbert(day, user)" in str(found)
    assert "it is a map" in str(found)
    keys = [str(one) for one in found.candidates]
    assert len(set(keys)) == len(keys)
    assert [one.present for one in found.candidates].count(True) == 1


def test_the_same_question_has_the_same_answer() -> None:
    assert str(advice(workload_of({"user": 10}, {"day": 1}))) == str(
        advice(workload_of({"user": 10}, {"day": 1}))
    )
