"""Budgets in bytes for a call, a day and a task: only the first task, which always runs, may exceed one."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from lakekeeper.core.config.options import resolve
from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.planning.planner import make_plan
from lakekeeper.core.planning.policies.adaptive import ADAPTIVE
from lakekeeper.core.planning.policies.deletes import DELETES
from lakekeeper.core.planning.policies.ranges import RANGES
from lakekeeper.core.planning.policies.sizes import SIZES
from lakekeeper.core.planning.policy import Env, Policy
from lakekeeper.testing.draws import MIB, Shape
from lakekeeper.testing.strategies import snapshots
from tests.sampling import fewer

CROWDED = Shape(most=40, columns=1, partitions=3)
BYTES = st.integers(1, 4000).map(lambda n: n * MIB)


@settings(max_examples=fewer(150), derandomize=True, deadline=None)
@given(
    snapshots(CROWDED),
    st.sampled_from([(ADAPTIVE,), (RANGES, SIZES), (SIZES,), (DELETES, SIZES)]),
    st.tuples(BYTES, BYTES, st.one_of(st.just(0), BYTES), BYTES),
)
def test_no_budget_is_exceeded_by_more_than_the_first_task(
    snapshot: Snapshot, policies: tuple[Policy, ...], sizes: tuple[int, int, int, int]
) -> None:
    call, day, spent, group = sizes
    bounds = {"depth-threshold": 1, "max-file-group-size-bytes": group}
    free = make_plan(snapshot, policies, resolve(bounds), Env(spent_bytes=spent))
    options = resolve({**bounds, "budget-bytes": call, "budget-bytes-per-day": day})
    plan = make_plan(snapshot, policies, options, Env(spent_bytes=spent))
    tasks = [task.input_bytes for task in plan.tasks]
    # A giant file is cut alone.
    assert all(task.input_bytes <= group or len(task.inputs) == 1 for task in plan.tasks)
    assert [task.id for task in plan.tasks][:1] == [task.id for task in free.tasks][: spent < day]
    if len(tasks) > 1:
        assert sum(tasks) <= min(call, day - spent)
    # A budget may also be given as the reason for blocks that would not have been merged without it.
    merged = {path for task in free.tasks for path in task.inputs}
    held = {
        why
        for i in plan.left
        for why in (i.reason, *i.reason.also)
        if why.code in ("over_budget", "over_daily_budget") and merged.intersection(i.paths.to_pylist())
    }
    assert bool(held) == (len(plan.tasks) < len(free.tasks))
    if free.tasks and spent >= day:
        assert held == {Reason.of(Code.OVER_DAILY_BUDGET, spent_bytes=spent)}
