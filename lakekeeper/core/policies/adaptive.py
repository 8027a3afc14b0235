"""``adaptive``: merges what has cost more scans since it was born than rewriting it would. The default.

It needs no levels: how large a run is follows from a block's bytes and range (see :mod:`lakekeeper.core.rent`), so that
it works on any table, whoever wrote the blocks, and never gets stuck at a highest level. Data that comes in the
order of the key is never rewritten: nothing overlaps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import pyarrow as pa

from lakekeeper.core.ages import ages
from lakekeeper.core.blocks import Bools, Index, Ints, Snapshot
from lakekeeper.core.levels import frozen, run_depth, run_floor
from lakekeeper.core.lines import data_line, order_of, place_of, table_line
from lakekeeper.core.mass import steps
from lakekeeper.core.options import Options
from lakekeeper.core.plan import Choice, Freeze, Merge, Skip
from lakekeeper.core.policies import Env
from lakekeeper.core.rent import Field, Found, find, weigh
from lakekeeper.core.sections import bounded_groups

SETTINGS = MappingProxyType({"economy": 1.0, "balanced": 6.25, "aggressive": 12.0})
"""What a scan of a file costs in rewrites of a file, for each commit that the table sees."""
GROWTH = 4
"""Of levels that are shown: each holds runs so many times as large as the one before."""


def price_of(options: Options, env: Env) -> float:
    """``adaptive.lambda`` where it is given, else what the workload costs, else that of ``adaptive.setting``."""
    given = options["adaptive.lambda"]
    if given != "":
        return float(given)
    if env.price is not None and options.origins["adaptive.setting"] == "default":
        return env.price
    return SETTINGS[str(options["adaptive.setting"])]


def level_of(run_size: float) -> int:
    """The level that a run of so many files would have in a tree of levels: ⌊log₄ R⌋."""
    return max(0, math.floor(math.log(max(run_size, 1e-9), GROWTH) + 1e-9))


@dataclass(frozen=True, slots=True)
class Adaptive:
    """Batches that have paid for themselves, the smallest runs first; then what has become too deep."""

    name: str = "adaptive"

    def choose(self, snapshot: Snapshot, candidates: Index, options: Options, env: Env) -> Sequence[Choice]:
        price = price_of(options, env)
        if snapshot.key is None:
            return [Skip(candidates, "the table has no cluster key")]
        if not len(candidates):
            return []
        blocks = snapshot.blocks
        line = table_line(snapshot, null_region=False)
        level = blocks.level_under(snapshot.key)
        still = frozen(blocks, line, options)
        blind = line.missing & (level > 0)
        shown = np.zeros(len(blocks), dtype=np.bool_)
        shown[candidates] = True
        order = order_of(snapshot)
        at = order[(shown & ~still & ~blind)[order]]
        field = _field(snapshot, at, level, options, env)
        found = find(field, price, options.integer("adaptive.max-depth"))
        merges, cut = _merges(snapshot, at, field, found, price, options)
        choices: list[Choice] = [*merges]
        if (shown & still).any():
            choices.append(Freeze(np.flatnonzero(shown & still), "full and constant in the key (level -1)"))
        if (shown & blind & ~still).any():
            why = "merged before, and still without statistics: another merge would bring none either"
            choices.append(Skip(np.flatnonzero(shown & blind & ~still), why))
        return choices + _left(at, found, cut, price)


def _field(snapshot: Snapshot, at: Index, level: Ints, options: Options, env: Env) -> Field:
    """The blocks ``at`` with everything that their price takes."""
    blocks, line = snapshot.blocks, table_line(snapshot, null_region=False)
    mine = line.at(at)
    data = data_line(snapshot)
    asked = env.workload.shares(snapshot, line) if env.workload is not None else None
    queries = asked or data
    target = options.integer("target-file-size-bytes")
    live = np.maximum(blocks.live_bytes, 1)
    place = place_of(snapshot)
    whole = np.bincount(place, live)[place[at]]
    live = live[at]
    inside = data.inside(mine.lo, mine.hi)
    mass = np.maximum(inside, live)
    share = data.part(inside) if queries is data else queries.share(mine.lo, mine.hi)
    single = steps(mine)
    share[single] *= 1 - np.minimum(live[single] / target, 1.0)
    return Field(
        line=mine,
        queries=queries,
        share=share,
        age=ages(blocks, snapshot.commits_ms, level > 0)[at],
        files=blocks.bytes[at] / target,
        run_size=live / target * (whole / mass),
        settled=level[at] > 0,
        alone=_alone(snapshot),
    )


def _alone(snapshot: Snapshot) -> int:
    """How deep a single sorted run can look, through bounds that are not its own along the line."""
    blocks = snapshot.blocks
    if snapshot.key is None or (len(blocks.lo) == 1 and all(bool(exact.all()) for exact in blocks.exact)):
        return 1
    if snapshot.key.curved:
        return math.ceil(float(run_floor(snapshot.key, blocks, place_of(snapshot)).max()))
    # What a truncated bound leaves open is one more column.
    return run_depth(len(blocks.lo) + any(not bool(exact.all()) for exact in blocks.exact))


def _merges(
    snapshot: Snapshot, at: Index, field: Field, found: Found, price: float, options: Options
) -> tuple[list[Merge], Bools]:
    """Bounded groups of the batches, the smallest runs first; which blocks lost theirs to a bound.

    Where a batch is cut, each part has to pay for itself.
    """
    lost = np.zeros(len(at), dtype=np.bool_)
    chosen = np.flatnonzero(found.of >= 0)
    if not len(chosen):
        return [], lost
    path, size = snapshot.blocks.path, snapshot.blocks.bytes[at[chosen]]
    groups, _ = bounded_groups(
        found.of[chosen],
        field.line.lo[chosen],
        field.line.hi[chosen],
        size,
        names=lambda among: path.take(pa.array(at[chosen[among]])),
        max_bytes=options.integer("max-file-group-size-bytes"),
        max_files=options.integer("max-file-group-input-files"),
    )
    lost[chosen] = True
    if not len(groups):
        return [], lost
    members = chosen[groups.members]
    count = np.diff(groups.edges)
    head = found.of[members[groups.edges[:-1]]]
    weighed = weigh(field, members, np.repeat(np.arange(len(groups)), count), found.peak[head])
    ratio = price * weighed.rent / np.maximum(weighed.cost, 1e-9)
    whole = np.bincount(found.of[chosen])[head] == count
    keep = weighed.worth & ((ratio >= 1) | whole | found.forced[head])
    mean = np.add.reduceat(field.run_size[members], groups.edges[:-1]) / count
    top = options.integer("max-level")
    level = np.maximum.reduceat(snapshot.blocks.level_under(snapshot.key)[at[members]], groups.edges[:-1])
    out = np.minimum(level + 1, top)
    first = np.minimum.reduceat(field.line.lo[members], groups.edges[:-1])
    order = np.lexsort((first, mean))
    order = order[keep[order]]
    lost[members[np.repeat(keep, count)]] = False
    described = zip(
        *(column[order].tolist() for column in (groups.edges[:-1], groups.edges[1:], out, ratio, mean)),
        *(
            column[order].tolist()
            for column in (weighed.rent, weighed.cost, found.peak[head], found.forced[head])
        ),
        strict=True,
    )
    every = at[members]
    return [
        Merge(every[a:b], o, r, _why(b - a, deep, run, rent, cost, price, forced=f))
        for a, b, o, r, run, rent, cost, deep, f in described
    ], lost


def _why(count: int, deep: int, run: float, rent: float, cost: float, price: float, *, forced: bool) -> str:
    size = f"{count} blocks of runs of {run:.3g} files (level {level_of(run)}), up to {deep} deep"
    if forced:
        return f"{size}: too deep to wait longer"
    return f"{size}: {rent:.3g} scans too many since they were born, times {price:g}, for {cost:.3g} files to rewrite"


def _left(at: Index, found: Found, cut: Bools, price: float) -> list[Choice]:
    """Why each block of the field that is in no merge is left."""
    free = (found.of < 0) | cut
    waiting = free & ~cut & (found.offer > 0)
    left: list[Choice] = []
    if cut.any():
        why = "bounded: with any overlapping neighbour the group would be too large, or its part does not pay yet"
        left.append(Skip(at[cut], why))
    if waiting.any():
        best = float(found.offer[waiting].max())
        why = f"its overlaps have not cost a rewrite yet: {_percent(best)} of it at most (lambda {price:g})"
        left.append(Skip(at[waiting], why))
    alone = free & ~cut & ~waiting
    if alone.any():
        left.append(
            Skip(at[alone], "no merge would spare a scan: what it overlaps is one sorted run, or nothing")
        )
    return left


def _percent(share: float) -> str:
    """Rounded down: what is under a rewrite never looks like one."""
    return f"{math.floor(share * 1000) / 10:g} %"


ADAPTIVE = Adaptive()
