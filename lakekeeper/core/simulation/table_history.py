"""A table's own history as a stream of commits, from the metadata of its live blocks.

The time at which a block was added identifies its commit, and is its time in the simulation. Blocks that were never
reclustered are those that writers added:

    replayed     these blocks again, commit by commit, into an empty table
    continued    the table as it is, then further commits like the recent ones, shifted if the key grows with time

           hi of all commits so far ┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄╮
                            |====|               ╰──► frontier: drawn commits keep their distance to it
                    |====|     |=|
            |====|
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakekeeper.core.layout.levels import partition_group
from lakekeeper.core.layout.ranks import Intervals
from lakekeeper.core.layout.snapshot_index import table_line
from lakekeeper.core.model.blocks import Bools, Index, Snapshot
from lakekeeper.core.simulation.commit_streams import Arrivals, Uniform
from lakekeeper.core.units import Floats, Ints
from lakekeeper.errors import OptionError

SAME_COMMIT_MS = 1000
"""Blocks added with a shorter pause between them count as one commit."""
_RECENT = 50
_KEPT_APART = 0.9  # share of the distinct bounds that floats must keep apart
_MOVES = 0.05  # share of a commit's width: a frontier that moves less in all recent commits counts as fixed


@dataclass(frozen=True, slots=True, eq=False)
class _Past:
    """The blocks on a line of floats, sorted by commit; ``fresh`` are those that writers added.

    ``dated`` are those of known age, and ``times`` those of the commits, in ms.
    """

    order: Index
    commit: Ints
    fresh: Bools
    dated: Bools
    lo: Floats
    hi: Floats
    place: Ints
    places: tuple[tuple[str, int], ...]
    times: Ints

    @property
    def commits(self) -> int:
        return int(self.commit.max(initial=-1)) + 1


def replayed(snapshot: Snapshot) -> Arrivals:
    """The blocks that were never reclustered, as arrivals; OptionError if they are from fewer than two commits."""
    past = _past(snapshot)
    at = past.order[past.fresh[past.order]]
    kept, commit = np.unique(past.commit[at], return_inverse=True)
    name = f"the commits of {snapshot.table}"
    return _arrivals(snapshot, past, at, commit, name, (past.lo[at], past.hi[at]), past.times[kept])


def continued(snapshot: Snapshot, commits: int, *, seed: int = 0) -> Arrivals:
    """The table as it is, then ``commits`` drawn from its recent ones; OptionError if there are fewer than two.

    Past commits count as ``present``. No commit adds a new partition. Commits come as often as the recent ones did.
    """
    past = _past(snapshot)
    ingested = past.fresh & past.dated
    recent = np.unique(past.commit[ingested])[-_RECENT:]
    reach = np.full(past.commits, -np.inf)
    np.maximum.at(reach, past.commit, past.hi)
    frontier = np.maximum.accumulate(reach)
    speed = _speed(past, ingested, recent, frontier)
    drawn = recent[(Uniform(seed)(commits) * len(recent)).astype(np.int64)]
    members = {int(c): np.flatnonzero(ingested & (past.commit == c)) for c in recent}
    new = np.concatenate([members[int(c)] for c in drawn])
    counts = [len(members[int(c)]) for c in drawn]
    shift = np.repeat(frontier[-1] + speed * np.arange(1, commits + 1) - frontier[drawn], counts)
    if speed == 0:
        shift[:] = 0.0
    at = np.concatenate([past.order, new])
    lo, hi = past.lo[at], past.hi[at]
    lo[len(past.order) :] += shift
    hi[len(past.order) :] += shift
    commit = np.concatenate([past.commit[past.order], past.commits + np.repeat(np.arange(commits), counts)])
    name = f"{snapshot.table} as it is, plus {commits:,} commits like its last {len(recent)}"
    pace = max((past.times[recent[-1]] - past.times[recent[0]]) // (len(recent) - 1), 1)
    times = np.append(past.times, past.times[-1] + pace * np.arange(1, commits + 1))
    return _arrivals(snapshot, past, at, commit, name, (lo, hi), times, present=past.commits)


def _speed(past: _Past, ingested: Bools, recent: Ints, frontier: Floats) -> float:
    """How far the frontier moves with each commit; 0.0 where that is little against what a commit covers."""
    low = np.full(past.commits, np.inf)
    high = np.full(past.commits, -np.inf)
    np.minimum.at(low, past.commit[ingested], past.lo[ingested])
    np.maximum.at(high, past.commit[ingested], past.hi[ingested])
    moved = float(frontier[recent[-1]] - frontier[recent[0]])
    width = float(np.median(high[recent] - low[recent]))
    return moved / (int(recent[-1]) - int(recent[0])) if moved > _MOVES * width else 0.0


def _past(snapshot: Snapshot) -> _Past:
    if snapshot.key is None:
        raise OptionError("columns", None, f"a cluster key to simulate with, since {snapshot.table} has none")
    blocks = snapshot.blocks
    fresh = blocks.level_under(snapshot.key) == 0
    # Files of unknown age, as after an expiry of their snapshots, are as old as the oldest known one.
    dated = blocks.added_at > 0
    added = np.where(dated, blocks.added_at, blocks.added_at[dated].min() if dated.any() else 0)
    times = np.sort(added[fresh])
    starts = times[np.diff(times, prepend=-SAME_COMMIT_MS * 2) >= SAME_COMMIT_MS]
    if len(starts) < 2:
        raise OptionError(
            "stream",
            None,
            f"the name of a stream, since {snapshot.table} has too few commits to replay: files of {len(starts)} were "
            "never reclustered, of at least 2 needed",
        )
    # Blocks that are older than the first commit belong to it; those of a merge, to the commit before the merge.
    commit = np.maximum(np.searchsorted(starts, added, side="right") - 1, 0)
    lo, hi = _line(snapshot)
    pairs = np.stack([blocks.partition, blocks.spec], axis=1)
    distinct, place = np.unique(pairs, axis=0, return_inverse=True)
    places = tuple((blocks.partitions[int(p)], int(s)) for p, s in distinct)
    order = np.lexsort((hi, lo, commit))
    return _Past(order, commit, fresh, dated, lo, hi, place.reshape(-1), places, starts)


def _arrivals(
    snapshot: Snapshot,
    past: _Past,
    at: Index,
    commit: Ints,
    name: str,
    bounds: tuple[Floats, Floats],
    times: Ints,
    *,
    present: int = 0,
) -> Arrivals:
    """Blocks ``at`` in order of ``commit``; each partition has its own stretch of the line."""
    blocks = snapshot.blocks
    lo, hi = bounds
    first = float(lo.min())
    span = (float(hi.max()) - first) or 1.0
    place = past.place[at]
    count = int(commit[-1]) + 1
    return Arrivals(
        name=name,
        edges=np.searchsorted(commit, np.arange(count + 1)),
        lo=(lo - first) / span + 2.0 * place,
        hi=(hi - first) / span + 2.0 * place,
        rows=np.maximum(blocks.rows[at], 1),
        bytes=np.maximum(blocks.bytes[at], 1),
        place=place,
        places=past.places,
        level=blocks.level_under(snapshot.key)[at],
        present=present,
        at_ms=times,
    )


def _line(snapshot: Snapshot) -> tuple[Floats, Floats]:
    """Bounds as floats: the values of one column of numbers or times if a line keeps them apart, else their ranks.

    A block without statistics covers everything in its partition; one of NULLs only is at the beginning.
    """
    intervals = table_line(snapshot)
    if snapshot.key is None:
        raise AssertionError("checked by the caller")
    if len(snapshot.key.columns) == 1:
        lo, hi = (_numbers(bound[0]) for bound in (snapshot.blocks.lo, snapshot.blocks.hi))
        known = ~np.isnan(lo) & ~np.isnan(hi)
        if known.any() and np.isfinite(lo[known]).all() and np.isfinite(hi[known]).all():
            low, high = float(lo[known].min()), float(hi[known].max())
            lo = np.where(known, lo, low)
            hi = np.where(known, hi, np.where(intervals.missing, high, low))
            if _distinguishes(np.concatenate([lo, hi]), low, high):
                return lo, hi
    return _ranks(snapshot, intervals)


def _distinguishes(bounds: Floats, low: float, high: float) -> bool:
    """Whether bounds that differ still do so once they are scaled to 0…1: not beside sentinels such as ±1e300."""
    if not np.isfinite(high - low):
        return False
    distinct = np.unique(bounds)
    return len(np.unique((distinct - low) / ((high - low) or 1.0))) > _KEPT_APART * len(distinct)


def _ranks(snapshot: Snapshot, intervals: Intervals) -> tuple[Floats, Floats]:
    group = partition_group(snapshot.blocks)
    first = np.full(int(group.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, group, intervals.lo)
    lo, hi = intervals.lo - first[group], intervals.hi - first[group]
    return lo.astype(np.float64), hi.astype(np.float64)


def _numbers(bounds: pa.Array) -> Floats:
    """Bounds as floats, NaN where there is none or where the type is not numeric."""
    kind = bounds.type
    if pa.types.is_date32(kind):
        bounds = bounds.cast(pa.int32())
    elif pa.types.is_timestamp(kind):
        bounds = bounds.cast(pa.int64())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        return np.full(len(bounds), np.nan)
    # Safe casts reject values that a double cannot hold exactly; here the nearest is good enough.
    return np.asarray(bounds.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)
