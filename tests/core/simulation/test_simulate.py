"""Simulations: figures checked by hand, and paper tables that behave like real ones."""

from __future__ import annotations

import numpy as np
import pytest

from lakekeeper.core.config.options import resolve
from lakekeeper.core.planning.planner import make_plan
from lakekeeper.core.planning.policies.full import FULL
from lakekeeper.core.planning.policies.peaks import PEAKS
from lakekeeper.core.planning.policies.ranges import RANGES
from lakekeeper.core.planning.policy import Env, Policy
from lakekeeper.core.simulation.commit_streams import STREAMS, named_stream
from lakekeeper.core.simulation.simulate import simulate
from lakekeeper.core.simulation.simulated_table import World
from tests.core.simulation.paper_runs import MIB, OPTIONS, run

# ------------------------------------------------------------------------------------------------ figures by hand


def test_a_full_sort_after_every_commit_rewrites_the_whole_table() -> None:
    report = run("wide", FULL, 4, every=1)
    assert report.write_amplification == (1 + 2 + 3 + 4) / 4
    assert (report.depth, report.depth_at_end, report.files_at_end) == (1.0, 1.0, 4)
    assert report.largest_task_bytes == 4 * 128 * MIB
    assert report.tasks == 4


def test_without_a_task_depth_is_that_of_all_written_files() -> None:
    report = run("wide", RANGES, 9)
    assert report.rewritten_bytes == 0
    assert report.depth == report.untouched_depth == pytest.approx(5.0, abs=0.1)
    assert report.point_bytes == pytest.approx(report.depth * 128 * MIB)


@pytest.mark.parametrize("policy", [RANGES, PEAKS], ids=lambda p: p.name)
def test_data_in_order_of_time_is_never_rewritten(policy: Policy) -> None:
    report = run("time", policy)
    assert (report.rewritten_bytes, report.tasks) == (0, 0)
    assert report.depth == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("name, calls", [("budget-bytes", 6), ("budget-bytes-per-day", 1)])
def test_the_rounds_of_a_call_and_the_calls_of_a_day_share_a_budget(name: str, calls: int) -> None:
    """Sixty commits within an hour, six calls."""
    given = {"max-file-group-input-files": 4, name: 2048 * MIB}
    report = simulate(named_stream("wide", 60), [RANGES], resolve(given), every=10, final=True)
    assert 0 < report.rewritten_bytes <= calls * 2048 * MIB


@pytest.mark.parametrize("stream", STREAMS)
def test_every_merge_keeps_bytes_and_rows(stream: str) -> None:
    arrivals = named_stream(stream, 60, files=2, file_bytes=70 * MIB)
    world = World.empty(arrivals)
    for commit in range(60):
        world.arrive(commit)
        if commit % 10 == 9:
            plan = make_plan(world.snapshot(), [RANGES], OPTIONS, Env())
            world.merge(plan.tasks, commit)
    assert int(world.rows.sum()) == 60 * 128
    assert int(world.bytes.sum()) == 60 * 2 * 70 * MIB
    assert arrivals.keys is not None
    assert np.array_equal(np.sort(np.concatenate(world.keys)), np.sort(arrivals.keys, axis=None))
    assert [k[0] for k in world.keys] == list(world.lo)
    assert [k[-1] for k in world.keys] == list(world.hi)
    assert world.bytes.max() <= 128 * MIB


# ------------------------------------------------------------------------------------------------------ the streams


# -------------------------------------------------------------------------------------------- a table's own history


# ------------------------------------------------------------------------------------------------------- the report


def test_the_same_arguments_give_the_same_report() -> None:
    one, other = (run("windows", RANGES, 60) for _ in range(2))
    assert one == other
    assert one.to_dict() == other.to_dict()
    assert one.to_dict()["course"]["commit"][-1] == 60
