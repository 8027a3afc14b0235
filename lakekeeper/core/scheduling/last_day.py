"""The 24 hours in which work counts against a budget by the day."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lakekeeper.core.units import CLOCKS_DIFFER_MS, DAY_MS


@dataclass(frozen=True, slots=True)
class LastDay:
    """The 24 hours before ``now_ms``, and a little more for times by a clock that is ahead.

    Later times do not count: a clock that was wrong once would use the budget up until that time has come.
    """

    now_ms: int

    @property
    def since_ms(self) -> int:
        """Its start, exclusive."""
        return self.now_ms - DAY_MS

    @property
    def until_ms(self) -> int:
        """Its end, inclusive."""
        return self.now_ms + CLOCKS_DIFFER_MS

    def has(self, at_ms: Any) -> Any:
        """Whether a time is in it; of an array of times, a mask."""
        return (at_ms > self.since_ms) & (at_ms <= self.until_ms)
