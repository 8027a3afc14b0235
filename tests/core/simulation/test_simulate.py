"""Simulations: figures that can be worked out by hand, and paper tables that behave like real ones."""

from __future__ import annotations

import dataclasses
import random

import numpy as np
import pytest

from lakekeeper.core.config.options import Options, resolve
from lakekeeper.core.model.blocks import Snapshot, make_blocks
from lakekeeper.core.model.keys import ClusterKey, KeyColumn
from lakekeeper.core.planning.planner import make_plan
from lakekeeper.core.planning.policies.adaptive import ADAPTIVE
from lakekeeper.core.planning.policies.full import FULL
from lakekeeper.core.planning.policies.peaks import PEAKS
from lakekeeper.core.planning.policies.ranges import RANGES
from lakekeeper.core.planning.policies.sizes import SIZES
from lakekeeper.core.planning.policy import Env, Policy
from lakekeeper.core.simulation.commit_streams import STREAMS, Uniform, named_stream
from lakekeeper.core.simulation.simulate import SimulationReport, simulate
from lakekeeper.core.simulation.simulated_table import World
from lakekeeper.core.simulation.table_history import continued, replayed
from lakekeeper.errors import OptionError

MIB = 1 << 20
KEY = ClusterKey((KeyColumn(("k",), "int", "1"),))
OPTIONS = resolve()


def run(
    stream: str, policy: Policy, commits: int = 100, *, final: bool = True, every: int = 10
) -> SimulationReport:
    return simulate(named_stream(stream, commits), [policy], OPTIONS, every=every, final=final)


def table(
    lo: list[int], hi: list[int], at_s: list[float], level: list[int] | None = None, partition: str = ""
) -> Snapshot:
    """Blocks of 128 MiB at these seconds."""
    n = len(lo)
    levels = level or [0] * n
    columns = {
        "path": [f"f{i}" for i in range(n)],
        "rows": [1000] * n,
        "bytes": [128 * MIB] * n,
        "partition": [partition] * n,
        "level": levels,
        "key_id": [KEY.key_id if one else "" for one in levels],
        "lo": [lo],
        "hi": [hi],
        "null_count": [[0] * n],
        "exact": [[True] * n],
        "added_at": [int(t * 1000) + 1_700_000_000_000 for t in at_s],
    }
    return Snapshot("db.t", "memory", 3, "uuid", "0", KEY, make_blocks(columns, KEY))


# ------------------------------------------------------------------------------------------------ figures by hand


def test_a_full_sort_after_every_commit_rewrites_all_that_is_there() -> None:
    report = run("wide", FULL, 4, every=1)
    assert report.write_amplification == (1 + 2 + 3 + 4) / 4
    assert (report.depth, report.depth_at_end, report.files_at_end) == (1.0, 1.0, 4)
    assert report.largest_task_bytes == 4 * 128 * MIB
    assert report.tasks == 4


def test_without_a_task_depth_is_that_of_all_that_was_written() -> None:
    report = run("wide", RANGES, 9)
    assert report.rewritten_bytes == 0
    assert report.depth == report.untouched_depth == pytest.approx(5.0, abs=0.1)
    assert report.point_bytes == pytest.approx(report.depth * 128 * MIB)


@pytest.mark.parametrize("policy", [RANGES, PEAKS], ids=lambda p: p.name)
def test_data_in_order_of_time_is_never_rewritten(policy: Policy) -> None:
    report = run("time", policy)
    assert (report.rewritten_bytes, report.tasks) == (0, 0)
    assert report.depth == pytest.approx(1.0, abs=0.01)


def test_one_percent_of_sorted_data_is_one_file_and_its_share_of_the_next() -> None:
    report = run("time", RANGES, 200)
    expected = np.mean([1 + 0.01 * c for c in report.course.commit])
    assert report.range_files == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("stream", STREAMS)
def test_bytes_and_rows_are_kept_by_every_merge(stream: str) -> None:
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


def test_opened_files_are_counted_as_brute_force_counts_them() -> None:
    arrivals = named_stream("jitter", 40, seed=3)
    report = simulate(arrivals, [RANGES], OPTIONS, every=100)
    assert arrivals.keys is not None
    keys = np.sort(arrivals.keys, axis=None)
    points = keys[((np.arange(300) + 0.5) / 300 * len(keys)).astype(int)]
    depth = [int(((arrivals.lo <= p) & (arrivals.hi >= p)).sum()) for p in points]
    assert report.depth_at_end == pytest.approx(np.mean(depth))
    assert report.course.depth_p95[-1] == pytest.approx(np.quantile(depth, 0.95))


@pytest.mark.parametrize("stream", STREAMS)
def test_bounds_alone_tell_what_the_keys_would(stream: str) -> None:
    exact = named_stream(stream, 150)
    known = simulate(exact, [RANGES], OPTIONS, final=True)
    guessed = simulate(dataclasses.replace(exact, keys=None), [RANGES], OPTIONS, final=True)
    off = (
        0.3 if stream == "jitter" else 0.15
    )  # a few rows far from all others: bounds tell little of where most lie
    assert guessed.write_amplification == pytest.approx(known.write_amplification, rel=off, abs=0.1)
    assert guessed.range_files == pytest.approx(known.range_files, rel=0.15)


@pytest.mark.parametrize("stream", STREAMS)
def test_files_are_as_wide_as_their_rows_and_not_as_the_keys_that_are_kept(stream: str) -> None:
    """What was simulated of 128 rows a file was not what real tables of the same stream then did."""
    few, all_ = named_stream(stream, 100), named_stream(stream, 100, keys=4096)
    assert few.keys is not None
    assert few.keys.shape == (100, 128)
    assert np.array_equal(few.lo, all_.lo)
    assert np.array_equal(few.hi, all_.hi)
    kept, whole = (simulate(a, [ADAPTIVE], OPTIONS) for a in (few, all_))
    assert kept.write_amplification == pytest.approx(whole.write_amplification, rel=0.15)
    assert kept.range_files == pytest.approx(whole.range_files, rel=0.05)


# ------------------------------------------------------------------------------------------------------ the streams


def _splitmix(state: int) -> int:
    z = (state + 0x9E3779B97F4A7C15) % 2**64
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % 2**64
    return z ^ (z >> 31)


def test_numbers_are_even_and_the_same_on_every_machine() -> None:
    drawn = Uniform(7)(100_000)
    assert _splitmix(1234567) == 6457827717110365317, "the published test vector"
    assert drawn[:2].tolist() == [
        (_splitmix((7 << 40) + i * 0x9E3779B97F4A7C15) >> 11) / 2**53 for i in (0, 1)
    ]
    assert drawn.mean() == pytest.approx(0.5, abs=0.005)
    assert np.histogram(drawn, 20)[0].min() > 4700
    assert np.corrcoef(drawn[1:], drawn[:-1])[0, 1] == pytest.approx(0, abs=0.01)
    assert abs(Uniform(7)(50) - Uniform(8)(50)).min() > 0


def test_the_streams_are_what_they_are_called() -> None:
    commits = 400
    spread = {}
    for name in STREAMS:
        keys = named_stream(name, commits).keys
        assert keys is not None
        assert keys.min() >= 0
        spread[name] = keys
    step = np.arange(commits)[:, None] / commits
    assert np.median(np.ptp(spread["wide"], axis=1)) > 0.97
    assert 0.03 < (spread["late"] < step).mean() < 0.06
    assert (spread["jitter"] < step).mean() == pytest.approx(1 - 0.21, abs=0.1)
    assert (spread["time"][1:, 0] > spread["time"][:-1, -1]).all()
    assert np.median(np.ptp(spread["windows"], axis=1)) < 0.2
    assert (np.median(spread["backfill"], axis=1) < step[:, 0]).mean() == pytest.approx(0.1, abs=0.02)


@pytest.mark.parametrize(
    "stream, commits, seed, names",
    [("wid", 10, 0, "did you mean 'wide'"), ("wide", 0, 0, "1 to 100,000"), ("wide", 10, -1, "seed")],
)
def test_what_can_not_be_streamed_is_named(stream: str, commits: int, seed: int, names: str) -> None:
    with pytest.raises(OptionError, match=names):
        named_stream(stream, commits, seed=seed)


# -------------------------------------------------------------------------------------------- a table's own history


def test_blocks_are_played_in_the_order_in_which_they_came() -> None:
    snapshot = table([5, 0, 0, 9], [8, 9, 9, 20], [40, 10, 10.5, 90], [0, 0, 0, 2])
    arrivals = replayed(snapshot)
    assert arrivals.edges.tolist() == [0, 2, 3], (
        "two files of one commit, then one; the merged one is no ingest"
    )
    assert arrivals.lo.argsort(kind="stable").tolist() == [0, 1, 2]
    assert arrivals.bytes.tolist() == [128 * MIB] * 3


def test_a_key_that_moves_on_moves_on() -> None:
    snapshot = table(
        [10 * i for i in range(60)], [10 * i + 9 for i in range(60)], [60 * i for i in range(60)]
    )
    arrivals = continued(snapshot, 30)
    assert (arrivals.commits, arrivals.present) == (90, 60)
    assert (np.diff(arrivals.lo) > 0).all()
    report = simulate(arrivals, [RANGES], OPTIONS, final=True)
    assert (report.commits, report.ingested_files, report.rewritten_bytes) == (30, 30, 0)
    assert report.depth == pytest.approx(1.0, abs=0.05)


def test_a_key_that_stands_still_stands_still() -> None:
    rng = random.Random(5)
    lo = [rng.randint(0, 50) for _ in range(60)]
    hi = [rng.randint(900, 999) for _ in range(60)]
    arrivals = continued(table(lo, hi, [60 * i for i in range(60)]), 40)
    drawn = slice(60, 100)
    assert set(arrivals.hi[drawn]) <= set(arrivals.hi[:60])
    assert simulate(arrivals, [RANGES], OPTIONS).write_amplification > 1


def test_partitions_stay_apart() -> None:
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


def test_a_table_without_a_history_says_so() -> None:
    with pytest.raises(OptionError, match="name a stream instead"):
        replayed(table([0, 0], [9, 9], [10, 20], [0, 1]))


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


# ------------------------------------------------------------------------------------------------------- the report


def test_the_same_arguments_give_the_same_report() -> None:
    one, other = (run("windows", RANGES, 60) for _ in range(2))
    assert one == other
    assert one.to_dict() == other.to_dict()
    assert one.to_dict()["course"]["commit"][-1] == 60


def test_the_report_reads_as_a_page() -> None:
    report = run("wide", RANGES, 50)
    page = str(report)
    for words in (
        "stream wide",
        "ranges after each 10",
        "bytes per byte ingested",
    ):
        assert words in page
    assert "<pre" in report._repr_html_()
    assert max(map(len, page.splitlines())) <= 120
