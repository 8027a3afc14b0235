"""Sorted runs, and which of them Paimon's universal compaction would merge (``UniversalCompaction``).

    newest                                       oldest
    ┌──┐ ┌──┐ ┌───┐ ┌──────────┐ ┌────────────────────┐     each block of level 0 is a run,
    │L0│ │L0│ │L0 │ │    L3    │ │         L5         │     so is each higher level as a whole
    └──┘ └──┘ └───┘ └──────────┘ └────────────────────┘
    ╰──── a unit ────╯ ─► L2                                a unit is the newest runs, and becomes one run

The rules are asked in order, and the first that names a unit wins: optimization interval, total size,
incremental size, size amplification, size ratio, run count, forced level 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lakekeeper.core.config.options import Options
from lakekeeper.core.units import Ints


@dataclass(frozen=True, slots=True)
class Rules:
    """The thresholds. Sizes in bytes, times in ms, shares in percent; 0 switches an interval or a size off."""

    trigger: int = 5
    levels: int = 6
    ratio: int = 1
    amplification: int = 200
    interval_ms: int = 0
    total_bytes: int = 0
    incremental_bytes: int = 0
    force_level_0: bool = False


@dataclass(frozen=True, slots=True)
class Unit:
    """The ``runs`` newest runs become one run of ``level``; ``why`` names the rule with its numbers."""

    runs: int
    level: int
    why: str


def rules_of(options: Options) -> Rules:
    """The thresholds that the options ``universal.*`` set."""
    trigger = options.integer("universal.num-sorted-run.compaction-trigger")
    given = str(options["universal.num-levels"])
    return Rules(
        trigger=trigger,
        levels=int(given) if given else trigger + 1,
        ratio=options.integer("universal.compaction.size-ratio"),
        amplification=options.integer("universal.compaction.max-size-amplification-percent"),
        interval_ms=options.integer("universal.compaction.optimization-interval-ms"),
        total_bytes=options.integer("universal.compaction.total-size-threshold-bytes"),
        incremental_bytes=options.integer("universal.compaction.incremental-size-threshold-bytes"),
        force_level_0=bool(options["universal.compaction.force-level-0"]),
    )


def highest_level(rules: Rules, present: int) -> int:
    """Where a full compaction puts everything: at least where data lies already."""
    return max(rules.levels - 1, present)


def pick(level: Ints, size: Ints, rules: Rules, since_full_ms: int | None) -> Unit | None:
    """The unit to merge of R runs, newest first, with their levels and sizes; None: nothing is due.

    ``since_full_ms`` is the time since the last full compaction, None if there was none. Levels above 0 ascend.
    """
    count = len(level)
    if not count:
        return None
    top = highest_level(rules, int(level.max()))
    due = _early_full(level, size, rules, top, since_full_ms)
    if due:
        return Unit(count, top, f"{due}, full compaction of {count} sorted runs")
    if count >= rules.trigger:
        newer, oldest = int(size[:-1].sum()), int(size[-1])
        if newer * 100 > rules.amplification * oldest:
            why = (
                f"size amplification: {newer:,} bytes in newer sorted runs, {oldest:,} in the oldest, above "
            )
            return Unit(count, top, f"{why}{rules.amplification} %, full compaction of {count} sorted runs")
        found = _by_size_ratio(level, size, rules, 1, force=False)
        if found:
            why = f"size ratio {rules.ratio} %: {_newest(size, found)}"
            return _unit(level, top, found, why)
    if count > rules.trigger:
        found = _by_size_ratio(level, size, rules, count - rules.trigger + 1, force=False)
        return _unit(level, top, found, f"run count: {count} sorted runs, above {rules.trigger}")
    fresh = int((level == 0).sum()) if rules.force_level_0 else 0
    if fresh:
        found = _by_size_ratio(level, size, rules, fresh, force=True)
        return _unit(level, top, found, f"forced level 0: {fresh} of {count} sorted runs are of level 0")
    return None


def _newest(size: Ints, count: int) -> str:
    held = f"the {count} newest of {len(size)} sorted runs hold {int(size[:count].sum()):,} bytes"
    return held if count == len(size) else f"{held}, the next {int(size[count]):,}"


def _early_full(level: Ints, size: Ints, rules: Rules, top: int, since_full_ms: int | None) -> str:
    """What makes a full compaction due before the others are asked; empty if nothing does."""
    if len(level) == 1:
        return ""
    if rules.interval_ms:
        if since_full_ms is None:
            return "optimization interval: there was no full compaction"
        if since_full_ms > rules.interval_ms:
            return f"optimization interval: {since_full_ms:,} ms since the last, above {rules.interval_ms:,}"
    total = int(size.sum())
    if total < rules.total_bytes:
        return f"total size {total:,} bytes, below {rules.total_bytes:,}"
    newer = int(size[level != top].sum())
    if rules.incremental_bytes and newer > rules.incremental_bytes:
        return f"incremental size {newer:,} bytes below level {top}, above {rules.incremental_bytes:,}"
    return ""


def _by_size_ratio(level: Ints, size: Ints, rules: Rules, count: int, *, force: bool) -> int:
    """How many of the newest runs, beginning with ``count``: as long as the next is not larger than all before it.

    Once more than one is taken, runs of levels 0 and 1 are taken even if they are. 0 if it stays at one, unforced.
    """
    before = np.cumsum(size)[:-1]
    larger = (
        before * (100.0 + rules.ratio) < size[1:] * 100.0
    )  # in doubles: percents of a large table overflow
    settled = level[1:] > 1
    if count == 1 and not force:
        settled[:1] = True  # nothing is triggered yet
    stops = np.flatnonzero((larger & settled)[count - 1 :])
    taken = count + int(stops[0]) if len(stops) else len(level)
    return taken if taken > 1 or force else 0


def _unit(level: Ints, top: int, count: int, why: str) -> Unit:
    """The ``count`` newest runs, to the level below the next run. That is above 0: no unit stops at levels 0 and 1."""
    if count == len(level):
        return Unit(count, top, f"{why}, full compaction of {count} sorted runs")
    return Unit(count, int(level[count]) - 1, why)
