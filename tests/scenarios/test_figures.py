"""The figures behind the default policy, on small slices of the policy benchmark (tests/bench/policies.py)."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from lakekeeper.core.config.options import resolve
from lakekeeper.core.planning.policies.adaptive import ADAPTIVE
from lakekeeper.core.planning.policies.full import FULL
from lakekeeper.core.planning.policies.peaks import PEAKS
from lakekeeper.core.planning.policies.ranges import RANGES
from lakekeeper.core.planning.policy import Policy
from lakekeeper.core.simulation.commit_streams import named_stream
from lakekeeper.core.simulation.simulate import SimulationReport, simulate
from tests.bench.offline_optimum import nearest_optimum
from tests.bench.rivals import Cubes

COMMITS = 120
OPTIMAL = 100  # commits: the time to find the optimum grows with their square
MOVING = ("wide", "late", "windows", "backfill", "jitter")
RATES = ("60", "600", "6000")
"""Queries per hour: 1, 10 and 100 between two commits."""
WHOLE = {"max-file-group-size-bytes": 1 << 50, "max-file-group-input-files": 1 << 20}


@cache
def played(who: str, stream: str) -> SimulationReport:
    policies: dict[str, Policy] = {"full": FULL, "cubes": Cubes()}
    options = resolve(WHOLE if who in policies else {"queries-per-hour": float(who)})
    arrivals = named_stream(stream, COMMITS)
    return simulate(arrivals, [policies.get(who, ADAPTIVE)], options)


def geometric(what: str, who: str, against: str) -> float:
    ratios = [getattr(played(who, s), what) / getattr(played(against, s), what) for s in MOVING]
    return float(np.exp(np.log(ratios).mean()))


@pytest.mark.parametrize("rate, most", [(60, 1.5), (600, 1.09), (6000, 1.02)])
def test_the_exact_optimum_is_little_better_on_wide_commits(rate: float, most: float) -> None:
    options = resolve({"queries-per-hour": rate})
    found = simulate(named_stream("wide", OPTIMAL), [ADAPTIVE], options, every=1)
    ratio, _ = nearest_optimum(found.write_amplification, found.depth, OPTIMAL)
    assert 1 <= ratio <= most


@pytest.mark.parametrize("rate", RATES)
def test_data_in_time_order_is_not_rewritten(rate: str) -> None:
    assert played(rate, "time").rewritten_bytes == 0


def test_a_fraction_of_the_bytes_of_a_full_sort_for_a_few_more_files() -> None:
    # The factor grows with the table: docs/benchmarks.md has the figures of 500 commits.
    assert geometric("write_amplification", "6000", "full") < 0.40
    assert geometric("range_files", "6000", "full") < 1.08


def test_commits_over_the_whole_key_do_not_sort_the_table_each_time() -> None:
    """On a real table they did: 9.5 bytes rewritten per byte ingested, where a full sort rewrites 10.5."""
    arrivals = named_stream("late", 200)
    ours = simulate(arrivals, [ADAPTIVE], resolve({"queries-per-hour": 6000}))
    full = simulate(arrivals, [FULL], resolve(WHOLE))
    assert ours.write_amplification < full.write_amplification / 3
    assert ours.range_files < 1.12 * full.range_files


def test_half_the_bytes_of_cubes_for_as_few_files() -> None:
    assert geometric("write_amplification", "6000", "cubes") < 0.55
    assert geometric("range_files", "6000", "cubes") < 1.05


def test_late_rows_leave_no_deep_ranges() -> None:
    assert played("6000", "jitter").depth_p95 <= 1.01 * played("cubes", "jitter").depth_p95


@pytest.mark.parametrize("policy", [RANGES, PEAKS], ids=lambda policy: policy.name)
def test_no_level_starves_while_new_data_keeps_coming(policy: Policy) -> None:
    """With only the lowest level merged in each call, depth grew with the table: 34 here, and 65 after 1,200."""
    found = simulate(named_stream("wide", 600), [policy], resolve())
    assert found.depth < 13


def test_more_queries_buy_more_rewriting_and_more_pruning() -> None:
    bytes_ = [sum(played(rate, s).rewritten_bytes for s in MOVING) for rate in RATES]
    files = [geometric("range_files", rate, "full") for rate in RATES]
    assert bytes_ == sorted(bytes_)
    assert files == sorted(files, reverse=True)


@pytest.mark.deep
@pytest.mark.parametrize("stream", [*MOVING, "time"])
def test_fewer_queries_never_cause_more_rewriting(stream: str) -> None:
    """Bytes rewritten in 2,000 commits, at rates from 100 queries between two commits down to none."""
    arrivals = named_stream(stream, 2_000)
    rewritten = [
        simulate(arrivals, [ADAPTIVE], resolve({"queries-per-hour": rate}), every=10).rewritten_bytes
        for rate in (6000, 600, 60, 6, 0)
    ]
    assert rewritten == sorted(rewritten, reverse=True)
    assert rewritten[-1] == 0
