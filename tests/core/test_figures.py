"""What the default policy is chosen for, on small slices of the benchmark of policies (tests/bench/policies.py)."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from lakekeeper.core.options import resolve
from lakekeeper.core.policies import Policy
from lakekeeper.core.policies.adaptive import ADAPTIVE
from lakekeeper.core.policies.full import FULL
from lakekeeper.core.policies.peaks import PEAKS
from lakekeeper.core.policies.ranges import RANGES
from lakekeeper.core.simulate import SimulationReport, simulate
from lakekeeper.core.streams import named_stream
from tests.bench.rivals import Cubes

COMMITS = 120
OPTIMAL = 100  # commits: finding the optimum grows with their square
MOVING = ("wide", "late", "windows", "backfill", "jitter")
WHOLE = {"max-file-group-size-bytes": 1 << 50, "max-file-group-input-files": 1 << 20}


@cache
def played(who: str, stream: str) -> SimulationReport:
    policies: dict[str, Policy] = {"full": FULL, "cubes": Cubes()}
    setting = {} if who in policies else {"adaptive.setting": who}
    options = resolve(setting if who not in policies else WHOLE)
    arrivals = named_stream(stream, COMMITS)
    return simulate(replace(arrivals, wide=False), [policies.get(who, ADAPTIVE)], options)


def geometric(what: str, who: str, against: str) -> float:
    ratios = [getattr(played(who, s), what) / getattr(played(against, s), what) for s in MOVING]
    return float(np.exp(np.log(ratios).mean()))


@pytest.mark.parametrize("setting", ["economy", "balanced", "aggressive"])
def test_nobody_who_knows_the_future_is_much_better_on_wide_commits(setting: str) -> None:
    options = resolve({"adaptive.setting": setting})
    found = simulate(named_stream("wide", OPTIMAL), [ADAPTIVE], options, every=1)
    assert found.optimum_ratio is not None
    assert 1 <= found.optimum_ratio <= 1.11


@pytest.mark.parametrize("setting", ["economy", "balanced", "aggressive"])
def test_data_in_order_of_time_is_left_alone(setting: str) -> None:
    assert played(setting, "time").rewritten_bytes == 0


def test_a_fraction_of_the_bytes_of_a_full_sort_for_a_few_more_files() -> None:
    # The factor grows with the table: docs/benchmarks.md has the figures of 500 commits.
    assert geometric("write_amplification", "balanced", "full") < 0.40
    assert geometric("range_files", "balanced", "full") < 1.08


def test_commits_over_all_that_is_there_do_not_have_it_sorted_each_time() -> None:
    """On a real table they did: 9.5 bytes rewritten for each ingested, where a full sort rewrites 10.5."""
    arrivals = named_stream("late", 200)
    ours = simulate(arrivals, [ADAPTIVE], resolve())
    full = simulate(arrivals, [FULL], resolve(WHOLE))
    assert ours.write_amplification < full.write_amplification / 3
    assert ours.range_files < 1.12 * full.range_files


def test_half_the_bytes_of_cubes_for_as_few_files() -> None:
    assert geometric("write_amplification", "balanced", "cubes") < 0.55
    assert geometric("range_files", "balanced", "cubes") < 1.05


def test_late_rows_do_not_leave_deep_places_behind() -> None:
    assert played("balanced", "jitter").depth_p95 <= played("cubes", "jitter").depth_p95
    assert played("aggressive", "jitter").depth_p95 <= played("cubes", "jitter").depth_p95


@pytest.mark.parametrize("policy", [RANGES, PEAKS], ids=lambda policy: policy.name)
def test_no_level_starves_while_new_data_keeps_coming(policy: Policy) -> None:
    """When only the lowest level was merged in each call, depth grew with the table: 34 here, and 65 after 1,200."""
    found = simulate(replace(named_stream("wide", 600), wide=False), [policy], resolve())
    assert found.depth < 13


def test_what_is_paid_more_prunes_more() -> None:
    by_price = ("economy", "balanced", "aggressive")
    bytes_ = [sum(played(who, s).rewritten_bytes for s in MOVING) for who in by_price]
    files = [geometric("range_files", who, "full") for who in by_price]
    assert bytes_ == sorted(bytes_)
    assert files == sorted(files, reverse=True)
