"""A table's own commits as a stream."""

from __future__ import annotations

import dataclasses
import random
import sys

import numpy as np
import pytest

from lakekeeper.core.model.blocks import make_blocks
from lakekeeper.core.planning.policies.adaptive import ADAPTIVE
from lakekeeper.core.planning.policies.full import FULL
from lakekeeper.core.planning.policies.ranges import RANGES
from lakekeeper.core.simulation.commit_streams import Arrivals
from lakekeeper.core.simulation.simulate import simulate
from lakekeeper.core.simulation.table_history import continued, replayed
from lakekeeper.core.units import DAY_MS, HOUR_MS
from lakekeeper.errors import OptionError
from tests.core.paper import snapshot_of
from tests.core.simulation.paper_runs import KEY, MIB, OPTIONS, table


def test_blocks_are_replayed_in_commit_order() -> None:
    snapshot = table([5, 0, 0, 9], [8, 9, 9, 20], [40, 10, 10.5, 90], [0, 0, 0, 2])
    arrivals = replayed(snapshot)
    assert arrivals.edges.tolist() == [0, 2, 3], (
        "two files of one commit, then one; a merged file is not an ingest"
    )
    assert arrivals.lo.argsort(kind="stable").tolist() == [0, 1, 2]
    assert arrivals.bytes.tolist() == [128 * MIB] * 3


@pytest.mark.parametrize("drawn", [False, True], ids=["replayed", "continued"])
def test_commits_keep_their_times(drawn: bool) -> None:
    """Queries pay for overlap as time passes: between daily commits more merges become due than between hourly ones."""

    def stream(hours: int) -> Arrivals:
        snapshot = table(
            [i % 3 for i in range(30)], [900 + i for i in range(30)], [3600 * hours * i for i in range(30)]
        )
        return continued(snapshot, 30) if drawn else replayed(snapshot)

    daily = stream(24)
    assert {daily.time_of(i + 1) - daily.time_of(i) for i in range(daily.commits - 1)} == {DAY_MS}
    hourly, daily_report = (simulate(s, [ADAPTIVE], OPTIONS, every=1) for s in (stream(1), daily))
    assert daily_report.rewritten_bytes > 2 * hourly.rewritten_bytes
    assert daily_report.depth < hourly.depth


@pytest.mark.parametrize("drawn", [False, True], ids=["replayed", "continued"])
def test_files_of_unknown_age_are_as_old_as_the_oldest_known(drawn: bool) -> None:
    """Their snapshots have expired: they counted as of 1970, and the commits drawn came years apart."""

    def stream(unknown: int) -> Arrivals:
        snapshot = table([0] * 30, [900] * 30, [3600 * i for i in range(1, 31)])
        added = snapshot.blocks.added_at.copy()
        added[:unknown] = 0
        snapshot = dataclasses.replace(snapshot, blocks=dataclasses.replace(snapshot.blocks, added_at=added))
        return continued(snapshot, 30) if drawn else replayed(snapshot)

    known, expired = stream(0), stream(10)
    assert {expired.time_of(i + 1) - expired.time_of(i) for i in range(expired.commits - 1)} == {HOUR_MS}
    assert expired.time_of(0) == known.time_of(10)
    assert len(expired.lo) == len(known.lo), "no commit that is drawn has the ten files at once"


def test_a_key_that_advances_keeps_advancing() -> None:
    snapshot = table(
        [10 * i for i in range(60)], [10 * i + 9 for i in range(60)], [60 * i for i in range(60)]
    )
    arrivals = continued(snapshot, 30)
    assert (arrivals.commits, arrivals.present) == (90, 60)
    assert (np.diff(arrivals.lo) > 0).all()
    report = simulate(arrivals, [RANGES], OPTIONS, final=True)
    assert (report.commits, report.ingested_files, report.rewritten_bytes) == (30, 30, 0)
    assert report.depth == pytest.approx(1.0, abs=0.05)


def test_a_key_that_does_not_advance_stays_in_its_range() -> None:
    rng = random.Random(5)
    lo = [rng.randint(0, 50) for _ in range(60)]
    hi = [rng.randint(900, 999) for _ in range(60)]
    arrivals = continued(table(lo, hi, [60 * i for i in range(60)]), 40)
    drawn = slice(60, 100)
    assert set(arrivals.hi[drawn]) <= set(arrivals.hi[:60])
    assert simulate(arrivals, [RANGES], OPTIONS).write_amplification > 1


def test_partitions_stay_separate() -> None:
    first = table([0] * 4, [9] * 4, [60, 120, 180, 240])
    columns = {
        "path": [f"f{i}" for i in range(8)],
        "rows": [1000] * 8,
        "bytes": [MIB] * 8,
        "partition": ["a", "b"] * 4,
        "lo": [[0] * 8],
        "hi": [[9] * 8],
        "null_count": [[0] * 8],
        "exact": [[True] * 8],
        "added_at": [60_000 * (1 + i // 2) for i in range(8)],
    }
    both = dataclasses.replace(first, blocks=make_blocks(columns, KEY))
    report = simulate(replayed(both), [FULL], OPTIONS, every=4)
    assert (report.tasks, report.depth_at_end, report.commits) == (2, 1.0, 4)


@pytest.mark.parametrize("ends", [(-sys.float_info.max, sys.float_info.max), (-1e300, 1e300)])
def test_sentinels_at_the_ends_of_the_key_do_not_move_the_other_files_together(
    ends: tuple[float, float],
) -> None:
    def depth(first: float, last: float) -> float:
        rows = [(float(i), float(i + 5), MIB, float(i)) for i in range(98)]
        rows += [(first, first, MIB, 98.0), (last, last, MIB, 99.0)]
        return simulate(replayed(snapshot_of(rows, kind="float")), [RANGES], OPTIONS).untouched_depth

    assert depth(*ends) == pytest.approx(depth(-1.0, 200.0), rel=0.05)


def test_a_table_without_a_history_says_so() -> None:
    with pytest.raises(OptionError, match="expected the name of a stream"):
        replayed(table([0, 0], [9, 9], [10, 20], [0, 1]))
