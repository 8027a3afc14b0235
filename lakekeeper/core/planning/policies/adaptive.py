"""``adaptive``: merges files once reading them apart has cost what merging them does. The default.

    snapshot ─► scale: who reads what, at what cost ─► candidates along the key ─► nested sets ─► those that are due

It needs no levels: how large a sorted run a block is a piece of follows from its bytes and range, so that it works on
any table, no matter which writer made the blocks. Data that arrives in key order is never rewritten, since it does not
overlap, nor is data whose rewrite would help no query. The theory is in :mod:`lakekeeper.core.planning.ski_rental`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lakekeeper.core.config.options import Options
from lakekeeper.core.cost.scoring import Scale, scale_of
from lakekeeper.core.cost.unfiltered_keys import key_instead
from lakekeeper.core.layout.levels import frozen
from lakekeeper.core.layout.snapshot_index import order_of, table_line
from lakekeeper.core.model.blocks import Index, Snapshot
from lakekeeper.core.model.plan import Choice, Freeze, Merge, Skip
from lakekeeper.core.planning.merge_candidates import Found, find
from lakekeeper.core.planning.policy import Env
from lakekeeper.core.planning.ski_rental import Field, field_of
from lakekeeper.core.text.formatting import size

_WAITS = {
    3600.0: "an hour",
    86_400.0: "a day",
    7 * 86_400.0: "a week",
    30 * 86_400.0: "a month",
    365.25 * 86_400.0: "a year",
}
"""Seconds in words: blocks that are not due yet are grouped by the time until they are."""


@dataclass(frozen=True, slots=True)
class Adaptive:
    """The nested sets of runs that are due."""

    name: str = "adaptive"

    def choose(self, snapshot: Snapshot, candidates: Index, options: Options, env: Env) -> Sequence[Choice]:
        if snapshot.key is None:
            return [Skip(candidates, "the table has no cluster key")]
        if not len(candidates):
            return []
        blocks = snapshot.blocks
        line = table_line(snapshot, null_region=False)
        shown = np.zeros(len(blocks), dtype=np.bool_)
        shown[candidates] = True
        still = frozen(blocks, line, options) & shown
        blind = line.missing & (blocks.level_under(snapshot.key) > 0) & shown & ~still
        choices: list[Choice] = []
        if still.any():
            choices.append(Freeze(np.flatnonzero(still), "full and constant in the key (level -1)"))
        if blind.any():
            why = "merged before, and still without statistics: another merge would bring none either"
            choices.append(Skip(np.flatnonzero(blind), why))
        order = order_of(snapshot)
        at = order[(shown & ~still & ~blind)[order]]
        scale = scale_of(snapshot, options, env.now_ms, env.workload)
        if not len(at):
            return choices
        if not scale.rate:
            return [*choices, Skip(at, _no_queries(env))]
        field = field_of(snapshot, at, scale, options, env.now_ms, env.parts)
        found = find(field)
        merges = _merges(snapshot, field, found, options, env)
        return [*merges, *choices, *_left(snapshot, field, found, scale, env)]


def _merges(snapshot: Snapshot, field: Field, found: Found, options: Options, env: Env) -> list[Merge]:
    """Those that bring most for their work come first."""
    if not found.count:
        return []
    weighed = found.weighed
    at, starts = field.at[found.members], found.edges[:-1]
    level = snapshot.blocks.level_under(snapshot.key)[at]
    out = np.minimum(np.maximum.reduceat(level, starts) + 1, options.integer("max-level"))
    score = weighed.gain / weighed.work
    born = np.where(found.part & (env.now_ms > 0), field.born_ms(found.members, starts, env.now_ms), 0)
    described = zip(
        *(column.tolist() for column in (starts, found.edges[1:], out, score, born)),
        weighed.rent.tolist(),
        weighed.work.tolist(),
        strict=True,
    )
    merges = [
        Merge(at[a:b], o, s, _why(field, found.members[a:b], rent, work, part=bool(t)), born_ms=t)
        for a, b, o, s, t, rent, work in described
    ]
    return [merges[i] for i in np.argsort(-score, kind="stable").tolist()]


def _why(field: Field, at: Index, rent: float, work: float, *, part: bool) -> str:
    if len(at) == 1:
        whole = f"1 file of {size(float(field.bytes[at[0]]))}: reading it whole"
        then = (
            "cutting it"
            if field.bytes[at[0]] <= field.max_bytes
            else "cutting it, alone above the bound of a group,"
        )
    else:
        whole, then = f"{len(at):,} files overlap: reading them apart", "merging them"
    bound = "; one of several parts: the whole is above the bounds of a group" if part else ""
    return f"{whole} has cost {size(rent)} too much so far, {then} costs {size(work)}{bound}"


def _left(snapshot: Snapshot, field: Field, found: Found, scale: Scale, env: Env) -> list[Choice]:
    """Why each candidate that is in no merge is left, and what it would take."""
    free = np.ones(len(field), dtype=np.bool_)
    free[found.members] = False
    if not free.any():
        return []
    instead = key_instead(snapshot, env.workload, env.now_ms)
    if instead:
        return [Skip(field.at[free], instead)]
    wait = found.wait / scale.rate
    step = np.searchsorted(list(_WAITS), wait)
    left: list[Choice] = []
    for number, words in enumerate(_WAITS.values()):
        mine = free & (step == number)
        if mine.any():
            left.append(Skip(field.at[mine], f"overlaps, but merging does not pay yet: due within {words}"))
    late, never = free & (step == len(_WAITS)) & np.isfinite(wait), free & ~np.isfinite(wait)
    if late.any():
        left.append(
            Skip(field.at[late], "overlaps, but merging would not pay within a year at this rate of queries")
        )
    if never.any():
        left.append(Skip(field.at[never], "overlaps nothing that a merge would spare its readers"))
    return left


def _no_queries(env: Env) -> str:
    seen = "the workload has none" if env.workload is not None else "queries-per-hour is 0"
    return f"no queries ({seen}): no reader would gain by a merge"


ADAPTIVE = Adaptive()
