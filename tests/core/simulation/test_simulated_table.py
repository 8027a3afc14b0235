"""Simulated tables: planned as real ones, and merged as real ones."""

from __future__ import annotations

import dataclasses
import random

import numpy as np
import pytest

from lakekeeper.core.config.options import Options, resolve
from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.planning.planner import make_plan
from lakekeeper.core.planning.policies.adaptive import ADAPTIVE
from lakekeeper.core.planning.policies.full import FULL
from lakekeeper.core.planning.policies.peaks import PEAKS
from lakekeeper.core.planning.policies.ranges import RANGES
from lakekeeper.core.planning.policies.sizes import SIZES
from lakekeeper.core.planning.policy import Env, Policy
from lakekeeper.core.simulation.commit_streams import STREAMS, named_stream
from lakekeeper.core.simulation.simulate import simulate
from lakekeeper.core.simulation.simulated_table import World
from lakekeeper.core.simulation.table_history import continued
from tests.core.simulation.paper_runs import OPTIONS, table


@pytest.mark.sampled
@pytest.mark.parametrize("stream", STREAMS)
def test_bounds_alone_give_the_figures_of_the_keys(stream: str) -> None:
    exact = named_stream(stream, 150)
    known = simulate(exact, [RANGES], OPTIONS, final=True)
    guessed = simulate(dataclasses.replace(exact, keys=None), [RANGES], OPTIONS, final=True)
    # A few rows far from all others: bounds say little about most rows.
    off = 0.3 if stream == "jitter" else 0.15
    assert guessed.write_amplification == pytest.approx(known.write_amplification, rel=off, abs=0.1)
    assert guessed.range_files == pytest.approx(known.range_files, rel=0.15)


@pytest.mark.sampled
@pytest.mark.parametrize("stream", STREAMS)
def test_files_are_as_wide_as_all_their_rows_and_not_as_the_sampled_keys(stream: str) -> None:
    """Simulating with 128 rows a file once gave other figures than real tables of the same stream."""
    few, all_ = named_stream(stream, 100), named_stream(stream, 100, keys=4096)
    assert few.keys is not None
    assert few.keys.shape == (100, 128)
    assert np.array_equal(few.lo, all_.lo)
    assert np.array_equal(few.hi, all_.hi)
    kept, whole = (simulate(a, [ADAPTIVE], OPTIONS) for a in (few, all_))
    assert kept.write_amplification == pytest.approx(whole.write_amplification, rel=0.15)
    assert kept.range_files == pytest.approx(whole.range_files, rel=0.05)


def _int_table(rng: random.Random) -> Snapshot:
    n = rng.randint(8, 40)
    lo = [rng.randint(0, 500) for _ in range(n)]
    hi = [a + rng.choice([0, 3, 40, 300]) for a in lo]
    level = [rng.choice([0, 0, 1, 2]) for _ in range(n - 2)] + [0, 0]
    return table(lo, hi, [60 * i for i in range(n)], level)


@pytest.mark.parametrize("policy", [RANGES, PEAKS, FULL, SIZES], ids=lambda p: p.name)
def test_a_paper_table_is_planned_as_the_real_one(policy: Policy) -> None:
    rng = random.Random(11)
    options: Options = resolve({"depth-threshold": 1.5})
    planned = 0
    for _ in range(40):
        real = _int_table(rng)
        arrivals = continued(real, 1)
        world = World.empty(arrivals)
        for commit in range(arrivals.present):
            world.arrive(commit)
        names = real.blocks.path.to_pylist()
        ends = list(zip(real.blocks.lo[0].to_pylist(), real.blocks.hi[0].to_pylist(), names, strict=True))
        expected = [
            sorted((lo, hi) for lo, hi, name in ends if name in task.inputs)
            for task in make_plan(real, [policy], options, Env()).tasks
        ]
        first, span = min(e[0] for e in ends), float(arrivals.hi.max() - arrivals.lo.min())
        scale = (max(e[1] for e in ends) - first) / (world.hi.max() - world.lo.min()) if span else 1.0
        plan = make_plan(world.snapshot(), [policy], options, Env())
        found = [
            sorted(
                (round(world.lo[int(p)] * scale) + first, round(world.hi[int(p)] * scale) + first)
                for p in task.inputs
            )
            for task in plan.tasks
        ]
        assert found == expected
        planned += len(found)
    assert planned > 20 or policy is SIZES
