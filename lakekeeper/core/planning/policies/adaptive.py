"""``adaptive``: merges files once reading them apart has cost what merging them does. The default.

    snapshot ─► scale: who reads what, at what cost ─► blocks that overlap ─► nested sets ─► those that are due

It needs no levels: the size of the sorted run that a block is a piece of follows from the block's bytes and range, so
the policy works on any table, whichever writer made the blocks. Data that arrives in key order is never rewritten,
since it does not overlap, nor is data whose rewrite would help no query. The theory is in
:mod:`lakekeeper.core.planning.ski_rental`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lakekeeper.core.config.options import Options
from lakekeeper.core.cost.scoring import Scale, scale_of
from lakekeeper.core.cost.unfiltered_keys import key_instead
from lakekeeper.core.layout.levels import frozen
from lakekeeper.core.layout.snapshot_index import order_of, overlapping, table_line
from lakekeeper.core.model.blocks import Index, Snapshot
from lakekeeper.core.model.plan import Choice, Freeze, Merge, Skip
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.planning.merge_candidates import Found, find, large
from lakekeeper.core.planning.policy import Env, no_queries
from lakekeeper.core.planning.ski_rental import Field, field_of
from lakekeeper.core.units import DAY_MS, HOUR_MS

_WAITS_MS = (HOUR_MS, DAY_MS, 7 * DAY_MS, 30 * DAY_MS, 365 * DAY_MS)
"""Blocks that are not due yet are grouped by the time until they are."""
_PART = Reason.of(Code.PART_OF_MERGE)


@dataclass(frozen=True, slots=True)
class Adaptive:
    """The nested sets of runs that are due."""

    name: str = "adaptive"

    def choose(self, snapshot: Snapshot, candidates: Index, options: Options, env: Env) -> Sequence[Choice]:
        if snapshot.key is None:
            return [Skip(candidates, Reason.of(Code.NO_KEY))]
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
            choices.append(Freeze(np.flatnonzero(still), Reason.of(Code.CONSTANT)))
        if blind.any():
            choices.append(Skip(np.flatnonzero(blind), Reason.of(Code.NO_STATISTICS)))
        free = shown & ~still & ~blind
        if not free.any():
            return choices
        scale = scale_of(snapshot, options, env.now_ms, env.workload)
        if not scale.rate:
            return [*choices, Skip(np.flatnonzero(free), no_queries(env))]
        judged = free & (overlapping(snapshot) | large(blocks, options))
        order = order_of(snapshot)
        field = field_of(snapshot, order[judged[order]], scale, options, env.now_ms, env.parts)
        found = find(field)
        merges = _merges(snapshot, field, found, options, env)
        alone = np.flatnonzero(free & ~judged)
        return [*merges, *choices, *_left(snapshot, field, found, scale, env, alone)]


def _merges(snapshot: Snapshot, field: Field, found: Found, options: Options, env: Env) -> list[Merge]:
    if not found.count:
        return []
    weighed = found.weighed
    at, starts = field.at[found.members], found.edges[:-1]
    level = snapshot.blocks.level_under(snapshot.key)[at]
    out = np.minimum(np.maximum.reduceat(level, starts) + 1, options.planning.max_level)
    score = weighed.gain / weighed.work
    added = np.where(found.part & (env.now_ms > 0), field.added_ms(found.members, starts, env.now_ms), 0)
    described = zip(
        *(column.tolist() for column in (starts, found.edges[1:], out, score, added)),
        _reasons(field, found),
        strict=True,
    )
    return [
        Merge(at[a:b], o, s, why.plus(_PART) if t else why, added_ms=t) for a, b, o, s, t, why in described
    ]


def _reasons(field: Field, found: Found) -> list[Reason]:
    """Why each merge pays: it merges files that overlap, or splits one that is too large."""
    rent, work = (np.trunc(side).astype(np.int64) for side in (found.weighed.rent, found.weighed.work))
    files, large = np.diff(found.edges), field.bytes[found.members[found.edges[:-1]]] > field.max_bytes
    one, many = files == 1, files > 1
    paid = iter(
        Reason.each(
            Code.OVERLAP_PAID,
            files=files[many].tolist(),
            overlap_bytes=rent[many].tolist(),
            merge_bytes=work[many].tolist(),
        )
    )
    cut = iter(
        Reason.each(Code.LARGE_FILE_PAID, extra_bytes=rent[one].tolist(), cut_bytes=work[one].tolist())
    )
    limit = Reason.of(Code.ABOVE_GROUP_LIMIT)
    return [
        next(paid) if not alone else next(cut).plus(limit) if above else next(cut)
        for alone, above in zip(one.tolist(), large.tolist(), strict=True)
    ]


def _left(
    snapshot: Snapshot, field: Field, found: Found, scale: Scale, env: Env, alone: Index
) -> list[Choice]:
    """Why each candidate outside the merges is left, and when it would be due; those ``alone`` overlap no other."""
    free = np.ones(len(field), dtype=np.bool_)
    free[found.members] = False
    if not free.any() and not len(alone):
        return []
    instead = key_instead(snapshot, env.workload, env.now_ms)
    if instead:
        return [Skip(np.append(field.at[free], alone), instead)]
    wait_ms = 1000 * found.wait / scale.rate
    step = np.searchsorted(_WAITS_MS, wait_ms)
    hourly = round(scale.rate * 3600, 3)
    reasons = [
        *(Reason.of(Code.NOT_DUE, within_ms=within_ms, queries_per_hour=hourly) for within_ms in _WAITS_MS),
        Reason.of(Code.NOT_DUE_SOON, queries_per_hour=hourly),
    ]
    never = ~np.isfinite(wait_ms)
    masks = [free & (step == number) & ~never for number in range(len(reasons))]
    left: list[Choice] = [
        Skip(field.at[mine], why) for mine, why in zip(masks, reasons, strict=True) if mine.any()
    ]
    if (free & never).any() or len(alone):
        left.append(Skip(np.append(field.at[free & never], alone), Reason.of(Code.NO_GAIN)))
    return left


ADAPTIVE = Adaptive()
