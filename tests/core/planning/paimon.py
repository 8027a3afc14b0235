"""Paimon's picker of universal compaction, transcribed line by line over plain numbers."""

from __future__ import annotations

from collections.abc import Sequence

from lakekeeper.core.planning.sorted_runs import Rules

Run = tuple[int, int]  # level, size


class Paimon:
    """UniversalCompaction.java and EarlyFullCompaction.java, transcribed."""

    def __init__(self, rules: Rules, since_full: int | None) -> None:
        self.rules = rules
        self.since_full = since_full

    def pick(self, runs: Sequence[Run]) -> tuple[int, int] | None:
        """(runs of the unit, output level)."""
        if not runs:
            return None
        top = max(self.rules.levels, max(level for level, _ in runs) + 1) - 1
        if self._early_full(top, runs):
            return len(runs), top
        if len(runs) >= self.rules.trigger:
            newer = sum(size for _, size in runs[:-1])
            if newer * 100 > self.rules.amplification * runs[-1][1]:
                return len(runs), top
            unit = self._size_ratio(top, runs, 1, False)
            if unit:
                return unit
        if len(runs) > self.rules.trigger:
            return self._size_ratio(top, runs, len(runs) - self.rules.trigger + 1, False)
        if self.rules.force_level_0:
            fresh = 0
            while fresh < len(runs) and runs[fresh][0] == 0:
                fresh += 1
            return self._size_ratio(top, runs, fresh, True) if fresh else None
        return None

    def _early_full(self, top: int, runs: Sequence[Run]) -> bool:
        rules = self.rules
        if len(runs) == 1:
            return False
        if rules.interval_ms and (self.since_full is None or self.since_full > rules.interval_ms):
            return True
        if rules.total_bytes and sum(size for _, size in runs) < rules.total_bytes:
            return True
        incremental = sum(size for level, size in runs if level != top)
        return bool(rules.incremental_bytes and incremental > rules.incremental_bytes)

    def _size_ratio(self, top: int, runs: Sequence[Run], count: int, force: bool) -> tuple[int, int] | None:
        candidate = sum(size for _, size in runs[:count])
        triggered = force or count > 1
        for level, size in runs[count:]:
            if candidate * (100 + self.rules.ratio) < size * 100 and (not triggered or level > 1):
                break
            candidate += size
            count += 1
            triggered = True
        return self._unit(top, runs, count) if triggered else None

    @staticmethod
    def _unit(top: int, runs: Sequence[Run], count: int) -> tuple[int, int]:
        out = top if count == len(runs) else max(0, runs[count][0] - 1)
        if out == 0:
            for level, _ in runs[count:]:
                count += 1
                if level != 0:
                    out = level
                    break
        return count, top if count == len(runs) else out
