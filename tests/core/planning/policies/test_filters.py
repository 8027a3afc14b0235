"""``filters``: which blocks are due, by the formula written out, and what a rewrite saves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakekeeper.core.config.options import resolve
from lakekeeper.core.cost.lookups import lookups_of
from lakekeeper.core.model.blocks import Snapshot, make_blocks
from lakekeeper.core.model.coefficients import DEFAULTS, MIB
from lakekeeper.core.model.keys import ClusterKey, KeyColumn
from lakekeeper.core.model.plan import Merge
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.planning.planner import make_plan
from lakekeeper.core.planning.policies.filters import Filters
from lakekeeper.core.planning.policy import Env
from lakekeeper.core.units import HOUR_MS
from lakekeeper.core.workload.workload import Scan, Span, Workload, collect

KEY = ClusterKey((KeyColumn(("k",), "int", "1"),))
NOW = 1_000_000 * HOUR_MS
POLICY = Filters(("note",))


def table(sizes: list[int], ages_h: list[float], *, key: ClusterKey | None = KEY) -> Snapshot:
    """Blocks one after another along the key, of these sizes and these ages in hours; a row for each KiB."""
    n = len(sizes)
    columns: dict[str, Any] = {
        "path": [f"f{i}" for i in range(n)],
        "rows": [size // 1024 for size in sizes],
        "bytes": sizes,
        "added_at": [NOW - int(age * HOUR_MS) for age in ages_h],
    }
    if key is not None:
        columns |= {"lo": [[10 * i for i in range(n)]], "hi": [[10 * i + 9 for i in range(n)]]}
        columns |= {"null_count": [[0] * n], "exact": [[True] * n]}
    return Snapshot("t", "memory", 1, "uuid", "schema", key, make_blocks(columns, key))


def asks(filters: dict[str, tuple[Span, ...]], per_hour: int, **more: Any) -> Workload:
    """A hundred hours of the same query."""
    start = NOW - 100 * HOUR_MS
    scan = [Scan(NOW - HOUR_MS, filters, weight=100.0 * per_hour, **more)]
    return collect("t", scan, source="test", start_ms=start, end_ms=NOW)


def equal(*values: str) -> dict[str, tuple[Span, ...]]:
    return {"note": tuple(Span(v, v) for v in values)}


def due(snapshot: Snapshot, workload: Workload | None, policy: Filters = POLICY) -> list[int]:
    return policy.due(snapshot, resolve(), Env(now_ms=NOW, workload=workload)).tolist()


@settings(deadline=None)
@given(
    sizes=st.lists(st.integers(1 * MIB, 600 * MIB), min_size=2, max_size=6),
    ages=st.lists(st.floats(0.1, 900), min_size=6, max_size=6),
    per_hour=st.integers(1, 50),
    values=st.integers(1, 3),
)
def test_a_block_is_due_once_lookups_have_paid(
    sizes: list[int], ages: list[float], per_hour: int, values: int
) -> None:
    snapshot = table(sizes, ages[: len(sizes)])
    workload = asks(equal(*"abc"[:values]), per_hour)
    rows, expected, near = [size // 1024 for size in sizes], [], []
    for i, (size, age) in enumerate(zip(sizes, ages, strict=False)):
        held = min(values * rows[i] / sum(rows), 1)
        filters = -(-size // (128 * MIB)) * MIB
        saving = max(0.2 * size * (1 - held) - filters, 0)
        paid = workload.rate(NOW) * int(age * HOUR_MS) / 1000 * saving
        work = DEFAULTS.rewrite * size + DEFAULTS.open_bytes
        near.append(abs(paid - 0.7 * work) < 1e-6 * work)
        if saving > 0 and paid >= 0.7 * work:
            expected.append(i)
    found = due(snapshot, workload)
    assert [i for i in found if not near[i]] == [i for i in expected if not near[i]]


def test_small_files_are_never_due() -> None:
    assert due(table([2 * MIB] * 500, [10_000.0] * 500), asks(equal("a"), 10_000)) == []


def test_only_lookups_count() -> None:
    old = table([128 * MIB] * 4, [1000.0] * 4)
    assert due(old, asks(equal("a"), 50)) == [0, 1, 2, 3]
    assert due(old, asks({"note": (Span("a", "b"),)}, 50)) == []
    assert due(old, asks({"note": (Span("a", None),)}, 50)) == []
    assert due(old, asks({"note": (Span(null=True),)}, 50)) == []
    assert due(old, asks({"k": (Span(1, 1),)}, 50)) == []
    assert due(old, asks(equal("a"), 50, understood=False)) == []
    assert due(old, None) == []


def test_a_lookup_opens_what_its_other_filters_leave() -> None:
    old = table([128 * MIB] * 4, [1000.0] * 4)
    assert due(old, asks(equal("a") | {"k": (Span(12, 25),)}, 50)) == [1, 2]


def test_files_that_spark_skipped_by_statistics_are_not_counted() -> None:
    old = table([128 * MIB] * 40, [5.0] * 40)
    found = lookups_of(old, asks(equal("a"), 50, files_read=2), ("note",), NOW)
    assert found is not None
    assert found.share.sum() == pytest.approx(2)
    assert len(due(old, asks(equal("a"), 50))) == 40
    assert due(old, asks(equal("a"), 50, files_read=2)) == []


def test_a_table_without_a_key() -> None:
    assert due(table([128 * MIB] * 4, [1000.0] * 4, key=None), asks(equal("a"), 50)) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "policy, workload, code",
    [
        (Filters(()), asks(equal("a"), 50), Code.NO_FILTERS),
        (POLICY, None, Code.NO_WORKLOAD),
        (POLICY, asks({"k": (Span(1, 1),)}, 50), Code.NO_LOOKUPS),
        (POLICY, asks(equal("a"), 1), Code.LOOKUPS_NOT_PAID),
        (Filters(("note",), frozenset()), asks(equal("a"), 5000), Code.HAS_FILTERS),
    ],
)
def test_why_files_are_left(policy: Filters, workload: Workload | None, code: Code) -> None:
    plan = make_plan(
        table([128 * MIB] * 4, [1.0] * 4), (policy,), resolve(), Env(now_ms=NOW, workload=workload)
    )
    assert not plan.tasks
    assert [item.reason.code for item in plan.left] == [code]


def test_neighbours_are_rewritten_together_and_keep_their_level() -> None:
    old = table([40 * MIB] * 6, [1000.0] * 6)
    lacking = frozenset({"f0", "f1", "f4", "f5"})
    found = Filters(("note",), lacking).choose(
        old, np.arange(6), resolve(), Env(now_ms=NOW, workload=asks(equal("a"), 50))
    )
    merges = [choice for choice in found if isinstance(choice, Merge)]
    assert sorted(merge.blocks.tolist() for merge in merges) == [[0, 1], [4, 5]]
    assert {merge.level for merge in merges} == {0}


def test_every_file_without_a_filter() -> None:
    plan = make_plan(
        table([2 * MIB] * 3, [0.0] * 3),
        (Filters(("note",), frozenset({"f1"}), every=True),),
        resolve(),
        Env(now_ms=NOW),
    )
    assert [task.inputs for task in plan.tasks] == [("f1",)]
    assert [item.reason.code for item in plan.left] == [Code.HAS_FILTERS]


def test_the_plan_says_what_a_rewrite_saves() -> None:
    from lakekeeper.core.cost.prediction import explained

    old = table([128 * MIB] * 4, [1000.0] * 4)
    workload = asks(equal("a"), 50)
    env = Env(now_ms=NOW, workload=workload)
    policy = Filters(("note",), frozenset({"f0", "f1", "f2", "f3"}))
    plan = make_plan(old, (policy,), resolve(), env)
    plan = policy.explained(explained(plan, old, resolve(), NOW, workload), old, resolve(), env)
    assert plan.prediction is not None
    worth = plan.prediction.worth
    assert worth.before.files == worth.after.files == pytest.approx(4)
    # A quarter of the lookups find their value in a file; the others read a filter of 1 MiB instead of its rows.
    assert worth.saved.cost == pytest.approx(4 * (0.2 * 128 * MIB * 0.75 - MIB))
    assert worth.gain_per_second == pytest.approx(workload.rate(NOW) * worth.saved.cost)
    assert worth.score > 0
    assert sum(task.worth.gain_per_second for task in plan.tasks if task.worth) == pytest.approx(
        worth.gain_per_second
    )


def test_the_example_of_the_documentation() -> None:
    old = table([128 * MIB] * 100, [1.0] * 100)
    for lookups, expected in ((18, 0), (19, 100)):
        assert len(due(old, _at_rate(asks(equal("a"), 1), lookups))) == expected


def _at_rate(workload: Workload, per_hour: float) -> Workload:
    """The workload with so many queries in the last hour, in which the files of the example were added."""
    scale = per_hour / 3600 / workload.rate(NOW)
    return replace(workload, scans=tuple(replace(s, weight=s.weight * scale) for s in workload.scans))
