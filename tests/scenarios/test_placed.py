"""Predictions, scores, depth and information for keys along a curve: the effect of one more file, or of another key.

The blocks are built by hand, with the curve ranges that a rewrite stores beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from lakekeeper.core.config.options import resolve
from lakekeeper.core.layout.clustering_info import ClusteringInformation, mean_depth, measure
from lakekeeper.core.layout.rank_boundaries import curve_index
from lakekeeper.core.layout.snapshot_index import data_line, table_line
from lakekeeper.core.layout.space_filling_curve import CURVES
from lakekeeper.core.model.blocks import BlockSet, Snapshot, make_blocks
from lakekeeper.core.model.boundaries import MOST, Boundaries
from lakekeeper.core.model.keys import ClusterKey, KeyColumn
from lakekeeper.core.model.plan import Plan
from lakekeeper.core.planning.planner import make_plan
from lakekeeper.core.planning.policy import Env
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.merge.boundary_store import note_name
from lakekeeper.engine.merge.planning import look, plan_for
from lakekeeper.engine.merge.request import Request
from lakekeeper.errors import AdapterError
from lakekeeper.spi import Adapter
from tests.engine.scene import POLICIES
from tests.sampling import fewer

MB = 10**6
ROWS = 200  # of one block
CASES = settings(
    max_examples=fewer(15), deadline=None, derandomize=True, phases=(Phase.explicit, Phase.generate)
)
COLUMNS = {name: KeyColumn((name,), "int", str(i)) for i, name in enumerate("abc")}


def key_of(layout: str, names: str) -> ClusterKey:
    return ClusterKey(tuple(COLUMNS[name] for name in names), layout)


def boundaries_of(key: ClusterKey, step: int = 1) -> Boundaries:
    """Boundaries at each ``step``-th value: another step gives another id."""
    kinds = tuple(c.kind for c in key.columns)
    return Boundaries(key.key_id, 0, kinds, (tuple(range(0, MOST, step)),) * len(kinds))


@dataclass(frozen=True)
class Files:
    """Rows of columns ``a``, ``b`` and ``c`` in files, and the position of each file."""

    rows: tuple[np.ndarray[Any, Any], ...]
    partition: tuple[str, ...]
    size: tuple[int, ...]

    def plus(self, row: Sequence[int], partition: str) -> Files:
        """One more file of one row and one byte."""
        return Files((*self.rows, np.array([row])), (*self.partition, partition), (*self.size, 1))

    def blocks(self, key: ClusterKey, stored: Boundaries | None, under: ClusterKey | None) -> BlockSet:
        """Blocks with the bounds of ``key`` and the ranges stored by a rewrite with ``under``; a lone row has none."""
        at = ["abc".index(c.path[0]) for c in key.columns]
        columns: dict[str, Any] = {
            "path": [f"f{i}" for i in range(len(self.rows))],
            "partition": list(self.partition),
            "rows": [len(rows) for rows in self.rows],
            "bytes": list(self.size),
            "lo": [[int(rows[:, k].min()) for rows in self.rows] for k in at],
            "hi": [[int(rows[:, k].max()) for rows in self.rows] for k in at],
            "null_count": [[0] * len(self.rows) for _ in at],
            "exact": [[True] * len(self.rows) for _ in at],
        }
        if under is not None:
            made = [len(rows) > 1 for rows in self.rows]
            columns |= {
                "level": [int(m) for m in made],
                "key_id": [under.key_id if m else "" for m in made],
            }
        if stored is not None and under is not None:
            ends = [along(rows, under, stored) for rows in self.rows]
            columns |= {
                "curve_id": [stored.id if m else "" for m in made],
                "curve_lo": [e.min() if m else -1 for e, m in zip(ends, made, strict=True)],
                "curve_hi": [e.max() if m else -1 for e, m in zip(ends, made, strict=True)],
            }
        return make_blocks(columns, key)


def along(rows: np.ndarray[Any, Any], key: ClusterKey, boundaries: Boundaries) -> np.ndarray[Any, Any]:
    columns = [pa.array(rows[:, "abc".index(c.path[0])]) for c in key.columns]
    return curve_index(boundaries, key.layout, columns)


def sorted_runs(key: ClusterKey, runs: int, files: int, seed: int) -> Files:
    """Runs that are each sorted perfectly by the key and cut into files."""
    rng = np.random.default_rng(seed)
    made: list[np.ndarray[Any, Any]] = []
    for _ in range(runs):
        rows = rng.integers(0, MOST, (files * ROWS, 3))
        if key.curved:
            order = np.argsort(along(rows, key, boundaries_of(key)), kind="stable")
        else:
            order = np.lexsort([rows[:, "abc".index(c.path[0])] for c in reversed(key.columns)])
        made += np.array_split(rows[order], files)
    return Files(tuple(made), ("p=0",) * len(made), (100 * MB,) * len(made))


@dataclass
class Fixed:
    """The part of an adapter that a plan needs: one snapshot, and the notes beside the table."""

    snapshots: Snapshot
    kept: dict[str, str] = field(default_factory=dict)
    table: str = "t"

    @property
    def notes(self) -> Fixed:
        return self

    def read(self, name: str) -> str | None:
        return self.kept.get(name)

    def snapshot(self, columns: object, where: object) -> Snapshot:
        return self.snapshots

    def matching(self, snapshot: Snapshot, where: str) -> Snapshot:
        return snapshot


def adapter_of(blocks: BlockSet, key: ClusterKey, kept: Boundaries | None = None) -> Adapter[Any]:
    notes = {note_name(kept.key_id, 0): kept.to_json()} if kept is not None else {}
    return cast(Adapter[Any], Fixed(Snapshot("t", "memory", 7, "uuid", "0", key, blocks), notes))


def request_of(policy: str) -> Request:
    return Request("recluster", (POLICIES[policy],), resolve({"target-file-size-bytes": 100 * MB}))


def plan_of(adapter: Adapter[Any], policy: str = "full") -> tuple[ClusteringInformation, float, Plan]:
    snapshot, plan = plan_for(adapter, request_of(policy), Clock(now_ms=lambda: 0))
    return measure(look(adapter, request_of(policy))), mean_depth(snapshot), plan


@CASES
@given(
    layout=st.sampled_from(CURVES),
    names=st.sampled_from(["ab", "abc"]),
    runs=st.integers(1, 3),
    seed=st.integers(0, 10**6),
    at=st.tuples(*[st.integers(0, MOST - 1)] * 3),
)
def test_a_tiny_file_in_another_partition_changes_nothing(
    layout: str, names: str, runs: int, seed: int, at: tuple[int, int, int]
) -> None:
    key = key_of(layout, names)
    kept, files = boundaries_of(key), sorted_runs(key, runs, 32, seed)
    info, depth, plan = plan_of(adapter_of(files.blocks(key, kept, key), key, kept))
    more = files.plus(at, "p=1")
    info_more, depth_more, plan_more = plan_of(adapter_of(more.blocks(key, kept, key), key, kept))
    n = len(files.rows)
    assert info_more.max_depth == info.max_depth
    assert info_more.average_depth * (n + 1) == pytest.approx(info.average_depth * n + 1, rel=1e-3)
    assert depth_more * (n + 1) == pytest.approx(depth * n + 1, rel=1e-3)
    assert plan.prediction is not None
    assert plan_more.prediction is not None
    assert plan_more.prediction.share[:n] == pytest.approx(plan.prediction.share, rel=1e-3)
    of_others = {task.inputs: task.worth for task in plan_more.tasks}
    for task in plan.tasks:
        worth, same = task.worth, of_others[task.inputs]
        assert worth is not None
        assert same is not None
        assert same.before.files == pytest.approx(worth.before.files, rel=1e-3)
        assert same.after.files == pytest.approx(worth.after.files, rel=1e-3)
        assert same.score == pytest.approx(worth.score, rel=1e-3)


@CASES
@given(
    layout=st.sampled_from(CURVES),
    names=st.sampled_from(["ab", "abc"]),
    runs=st.integers(1, 3),
    seed=st.integers(0, 10**6),
    at=st.tuples(*[st.integers(0, MOST - 1)] * 3),
)
def test_a_tiny_file_among_the_others_is_opened_and_changes_nothing_else(
    layout: str, names: str, runs: int, seed: int, at: tuple[int, int, int]
) -> None:
    key = key_of(layout, names)
    kept, files = boundaries_of(key), sorted_runs(key, runs, 32, seed)
    info, depth, plan = plan_of(adapter_of(files.blocks(key, kept, key), key, kept))
    more = files.plus(at, "p=0")
    info_more, depth_more, plan_more = plan_of(adapter_of(more.blocks(key, kept, key), key, kept))
    assert info.max_depth <= info_more.max_depth <= info.max_depth + 1
    for before, after in ((info.average_depth, info_more.average_depth), (depth, depth_more)):
        assert before - 0.1 <= after <= before + 1.1
    n = len(files.rows)
    assert plan.prediction is not None
    assert plan_more.prediction is not None
    assert plan_more.prediction.share[:n] == pytest.approx(plan.prediction.share, rel=1e-3)
    opened = float(plan_more.prediction.share[n])
    assert 0 < opened <= 1
    now, later = plan.prediction.worth, plan_more.prediction.worth
    assert later.before.files == pytest.approx(now.before.files + opened, rel=1e-3)
    assert later.after.files == pytest.approx(now.after.files, rel=0.02)
    if runs > 1:  # a merge of one sorted run saves only that one file
        assert later.score == pytest.approx(now.score, abs=1.0)


def test_a_perfect_run_and_a_tiny_file() -> None:
    """The case that showed it: 256 files in one sorted run; one more byte raised 3.56 files per query to 13.3."""
    key = key_of("hilbert", "ab")
    kept, files = boundaries_of(key), sorted_runs(key, 1, 256, 0)
    opened = []
    for some in (files, files.plus((5, 900, 0), "p=0")):
        prediction = plan_of(adapter_of(some.blocks(key, kept, key), key, kept))[2].prediction
        assert prediction is not None
        opened.append(prediction.worth.before.files)
    assert opened[0] < 4
    assert opened[1] == pytest.approx(opened[0], abs=0.05)


STORED = [key_of("hilbert", "ab"), key_of("zorder", "ab"), key_of("hilbert", "bc"), key_of("hilbert", "abc")]
REQUESTS = [
    key_of("linear", "ab"), key_of("linear", "ba"), key_of("linear", "a"), key_of("linear", "c"),
    key_of("hilbert", "ab"), key_of("hilbert", "ba"), key_of("hilbert", "ac"), key_of("zorder", "ab"),
    key_of("zorder", "bc"),
]  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("policy", ["adaptive", "ranges", "full", "sizes"])
@pytest.mark.parametrize("wanted", REQUESTS, ids=str)
@pytest.mark.parametrize("under", STORED, ids=str)
def test_ranges_on_the_curve_of_another_key_are_ignored(
    under: ClusterKey, wanted: ClusterKey, policy: str
) -> None:
    """Ranges stored by a rewrite with another key are ignored."""
    files = sorted_runs(under, 2, 24, 3)
    if under.key_id == wanted.key_id:
        under = key_of("zorder", "abc")  # ranges of another key than the blocks'
    stored = boundaries_of(under)
    with_ranges = plan_of(adapter_of(files.blocks(wanted, stored, under), wanted), policy)
    without = plan_of(adapter_of(files.blocks(wanted, None, under), wanted), policy)
    assert with_ranges[:2] == without[:2]
    ours, theirs = with_ranges[2], without[2]
    assert ours.depth == theirs.depth
    assert [task.inputs for task in ours.tasks] == [task.inputs for task in theirs.tasks]
    assert [(a.reason, a.blocks) for a in ours.left] == [(b.reason, b.blocks) for b in theirs.left]
    assert ours.prediction is not None
    assert theirs.prediction is not None
    assert ours.prediction.worth == theirs.prediction.worth


@pytest.mark.parametrize("layout", CURVES)
def test_ranges_under_other_boundaries_of_the_same_key_are_ignored(layout: str) -> None:
    key = key_of(layout, "ab")
    files, ours, old = sorted_runs(key, 2, 24, 4), boundaries_of(key), boundaries_of(key, step=3)
    assert ours.id != old.id
    with_ranges = plan_of(adapter_of(files.blocks(key, old, key), key, ours))
    without = plan_of(adapter_of(files.blocks(key, None, key), key, ours))
    assert with_ranges[:2] == without[:2]
    counted = plan_of(adapter_of(files.blocks(key, ours, key), key, ours))
    assert counted[1] < without[1]


@pytest.mark.parametrize("layout", CURVES)
def test_ranges_of_the_key_itself_count(layout: str) -> None:
    key = key_of(layout, "ab")
    kept = boundaries_of(key)
    info, _, _ = plan_of(adapter_of(sorted_runs(key, 3, 24, 5).blocks(key, kept, key), key, kept))
    assert info.max_depth <= 2 * 3
    assert 3 <= info.average_depth < 4
    assert "box" not in info.notes


def test_blocks_without_a_position_cannot_be_planned() -> None:
    key = key_of("hilbert", "ab")
    raw = Snapshot("t", "memory", 7, "uuid", "0", key, sorted_runs(key, 1, 4, 6).blocks(key, None, key))
    for act in (table_line, measure, lambda s: make_plan(s, (POLICIES["full"],), resolve(), Env())):
        with pytest.raises(AdapterError, match="placed"):
            act(raw)


@CASES
@given(layout=st.sampled_from(CURVES), names=st.sampled_from(["ab", "abc"]), seed=st.integers(0, 10**6))
def test_bytes_are_spread_along_the_curve(layout: str, names: str, seed: int) -> None:
    """The share of a block is the part of all blocks inside its range, with each block spread evenly over its own."""
    key = key_of(layout, names)
    kept = boundaries_of(key)
    halves = sorted_runs(key, 1, 12, seed), sorted_runs(key, 1, 5, seed + 1)
    files = Files(halves[0].rows + halves[1].rows, ("p=0",) * 17, tuple(MB * (1 + i % 3) for i in range(17)))
    snapshot = look(adapter_of(files.blocks(key, kept, key), key, kept), request_of("full"))
    line = table_line(snapshot, null_region=False)
    lo, hi = snapshot.blocks.curve_lo.astype(float), snapshot.blocks.curve_hi.astype(float)
    inside = np.minimum(hi[:, None], hi) - np.maximum(lo[:, None], lo)  # overlap of each pair of blocks
    size = snapshot.blocks.bytes
    by_hand = (np.clip(inside, 0, None) * size / (hi - lo)).sum(axis=1) / size.sum()
    assert data_line(snapshot).share(line.lo, line.hi) == pytest.approx(by_hand, rel=1e-6)
