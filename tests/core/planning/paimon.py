"""Paimon's picker of universal compaction, transcribed line by line over plain numbers."""

from __future__ import annotations

from collections.abc import Sequence

from lakekeeper.core.config.layout_options import UniversalOptions

Run = tuple[int, int]  # level, size


class Paimon:
    """UniversalCompaction.java and EarlyFullCompaction.java, transcribed."""

    def __init__(self, options: UniversalOptions, since_full: int | None) -> None:
        self.options = options
        self.since_full = since_full

    def pick(self, runs: Sequence[Run]) -> tuple[int, int] | None:
        """(runs of the unit, output level)."""
        if not runs:
            return None
        top = max(self.options.trigger + 1, max(level for level, _ in runs) + 1) - 1
        if self._early_full(top, runs):
            return len(runs), top
        if len(runs) >= self.options.trigger:
            newer = sum(size for _, size in runs[:-1])
            if newer * 100 > self.options.max_amplification * runs[-1][1]:
                return len(runs), top
            unit = self._size_ratio(top, runs, 1, False)
            if unit:
                return unit
        if len(runs) > self.options.trigger:
            return self._size_ratio(top, runs, len(runs) - self.options.trigger + 1, False)
        if self.options.force_up_level_0:
            fresh = 0
            while fresh < len(runs) and runs[fresh][0] == 0:
                fresh += 1
            return self._size_ratio(top, runs, fresh, True) if fresh else None
        return None

    def _early_full(self, top: int, runs: Sequence[Run]) -> bool:
        options = self.options
        if len(runs) == 1:
            return False
        if options.full_interval_ms and (
            self.since_full is None or self.since_full > options.full_interval_ms
        ):
            return True
        if options.total_bytes and sum(size for _, size in runs) < options.total_bytes:
            return True
        incremental = sum(size for level, size in runs if level != top)
        return bool(options.incremental_bytes and incremental > options.incremental_bytes)

    def _size_ratio(self, top: int, runs: Sequence[Run], count: int, force: bool) -> tuple[int, int] | None:
        candidate = sum(size for _, size in runs[:count])
        triggered = force or count > 1
        for level, size in runs[count:]:
            if candidate * (100 + self.options.size_ratio) < size * 100 and (not triggered or level > 1):
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
