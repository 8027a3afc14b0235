"""Sorted runs, and which of them Paimon's universal compaction would merge (``UniversalCompaction``).

    newest                                       oldest
    ┌──┐ ┌──┐ ┌───┐ ┌──────────┐ ┌────────────────────┐     each block of level 0 is a run,
    │L0│ │L0│ │L0 │ │    L3    │ │         L5         │     so is each higher level as a whole
    └──┘ └──┘ └───┘ └──────────┘ └────────────────────┘
    ╰──── a unit ────╯ ─► L2                                a unit is the newest runs, and becomes one run

The rules apply in order, and the first that names a unit wins: optimization interval, total size,
incremental size, size amplification, size ratio, run count, forced level 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lakekeeper.core.config.layout_options import UniversalOptions
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.units import Ints


@dataclass(frozen=True, slots=True)
class Unit:
    """The ``runs`` newest runs become one run of ``level``; ``why`` is the rule with its numbers."""

    runs: int
    level: int
    why: Reason


def highest_level(options: UniversalOptions, present: int) -> int:
    """Where a full compaction puts everything: at least the highest level that holds data.

    There is one level more than the trigger, as by default in Paimon.
    """
    return max(options.trigger, present)


def pick(level: Ints, size: Ints, options: UniversalOptions, since_full_ms: int | None) -> Unit | None:
    """The unit to merge of R runs, newest first, with their levels and sizes; None: nothing is due.

    ``since_full_ms`` is the time since the last full compaction, None if there was none. Levels above 0 ascend.
    """
    count = len(level)
    if not count:
        return None
    top = highest_level(options, int(level.max()))
    due = _early_full(level, size, options, top, since_full_ms)
    if due:
        return Unit(count, top, due.plus(Reason.of(Code.FULL_COMPACTION, runs=count)))
    if count >= options.trigger:
        newer, oldest = int(size[:-1].sum()), int(size[-1])
        if newer * 100 > options.max_amplification * oldest:
            why = Reason.of(
                Code.SIZE_AMPLIFICATION,
                newer_bytes=newer,
                oldest_bytes=oldest,
                limit=options.max_amplification,
            )
            return Unit(count, top, why.plus(Reason.of(Code.FULL_COMPACTION, runs=count)))
        found = _by_size_ratio(level, size, options, 1, force=False)
        if found:
            return _unit(level, top, found, _size_ratio(size, found, options))
    if count > options.trigger:
        found = _by_size_ratio(level, size, options, count - options.trigger + 1, force=False)
        return _unit(level, top, found, Reason.of(Code.RUN_COUNT, runs=count, limit=options.trigger))
    fresh = int((level == 0).sum()) if options.force_up_level_0 else 0
    if fresh:
        found = _by_size_ratio(level, size, options, fresh, force=True)
        return _unit(level, top, found, Reason.of(Code.LEVEL_0_FORCED, level_0=fresh, runs=count))
    return None


def _size_ratio(size: Ints, count: int, options: UniversalOptions) -> Reason:
    held: dict[str, int] = {"newest": count, "runs": len(size), "bytes": int(size[:count].sum())}
    if count == len(size):
        return Reason.of(Code.SIZE_RATIO_OF_ALL, ratio=options.size_ratio, **held)
    return Reason.of(Code.SIZE_RATIO, ratio=options.size_ratio, next_bytes=int(size[count]), **held)


def _early_full(
    level: Ints, size: Ints, options: UniversalOptions, top: int, since_full_ms: int | None
) -> Reason | None:
    """What makes a full compaction due before the other rules apply."""
    if len(level) == 1:
        return None
    interval = options.full_interval_ms
    if interval is not None and since_full_ms is None:
        return Reason.of(Code.NEVER_COMPACTED, interval_ms=interval)
    if interval is not None and since_full_ms is not None and since_full_ms > interval:
        return Reason.of(Code.COMPACTION_INTERVAL, since_ms=since_full_ms, interval_ms=interval)
    total = int(size.sum())
    if options.total_bytes is not None and total < options.total_bytes:
        return Reason.of(Code.TOTAL_SIZE, total_bytes=total, limit_bytes=options.total_bytes)
    newer = int(size[level != top].sum())
    if options.incremental_bytes is not None and newer > options.incremental_bytes:
        limit = options.incremental_bytes
        return Reason.of(Code.INCREMENTAL_SIZE, newer_bytes=newer, level=top, limit_bytes=limit)
    return None


def _by_size_ratio(level: Ints, size: Ints, options: UniversalOptions, count: int, *, force: bool) -> int:
    """The number of newest runs to merge: ``count``, and further ones while the next is no larger than all before it.

    Once there is more than one, runs of levels 0 and 1 are taken even if they are larger. 0 if there is only one,
    unless ``force`` is set.
    """
    before = np.cumsum(size)[:-1]
    # In doubles, because percents of a large table overflow integers.
    larger = before * (100.0 + options.size_ratio) < size[1:] * 100.0
    settled = level[1:] > 1
    if count == 1 and not force:
        settled[:1] = True  # nothing is triggered yet
    stops = np.flatnonzero((larger & settled)[count - 1 :])
    taken = count + int(stops[0]) if len(stops) else len(level)
    return taken if taken > 1 or force else 0


def _unit(level: Ints, top: int, count: int, why: Reason) -> Unit:
    """The ``count`` newest runs, to the level below the next run. That is above 0: no unit stops at levels 0 and 1."""
    if count == len(level):
        return Unit(count, top, why.plus(Reason.of(Code.FULL_COMPACTION, runs=count)))
    return Unit(count, int(level[count]) - 1, why)
