"""Queries of a simulation: the files that they would open."""

from __future__ import annotations

import numpy as np
import pytest

from lakekeeper.core.planning.policies.ranges import RANGES
from lakekeeper.core.simulation.commit_streams import named_stream
from lakekeeper.core.simulation.simulate import simulate
from tests.core.simulation.paper_runs import OPTIONS, run


def test_one_percent_of_sorted_data_is_one_file_and_its_share_of_the_next() -> None:
    report = run("time", RANGES, 200)
    expected = np.mean([1 + 0.01 * c for c in report.course.commit])
    assert report.range_files == pytest.approx(expected, rel=0.02)


def test_opened_files_are_counted_as_brute_force_counts_them() -> None:
    arrivals = named_stream("jitter", 40, seed=3)
    report = simulate(arrivals, [RANGES], OPTIONS, every=100)
    assert arrivals.keys is not None
    keys = np.sort(arrivals.keys, axis=None)
    points = keys[((np.arange(300) + 0.5) / 300 * len(keys)).astype(int)]
    depth = [int(((arrivals.lo <= p) & (arrivals.hi >= p)).sum()) for p in points]
    assert report.depth_at_end == pytest.approx(np.mean(depth))
    assert report.course.depth_p95[-1] == pytest.approx(np.quantile(depth, 0.95))
