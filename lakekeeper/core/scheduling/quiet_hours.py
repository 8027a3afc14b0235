"""Hours in which automatic runs start nothing: ``Mon-Fri 08:00-18:30 Europe/Berlin``, ``22:00-06:00``.

Days, then hours of local time, then the time zone (UTC without one). Hours that end at or before their
start end on the next day, and belong to the day on which they start: ``Sat 22:00-06:00`` ends on Sunday morning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
EXAMPLES = "22:00-06:00, Mon-Fri 08:00-18:30 Europe/Berlin"
_DAY_MINUTES = 24 * 60
_TEXT = re.compile(
    r"(?:(?P<first>[A-Za-z]{3})(?:-(?P<last>[A-Za-z]{3}))?\s+)?"
    r"(?P<start>\d{1,2}:\d{2})-(?P<end>\d{1,2}:\d{2})(?:\s+(?P<zone>[A-Za-z][\w+\-/]*))?"
)


@dataclass(frozen=True, slots=True)
class QuietHours:
    """One window: days of the week (0 is Monday), minutes after midnight, and the zone that they are in."""

    days: frozenset[int]
    start: int
    end: int
    zone: str
    text: str

    def covers(self, local: datetime) -> bool:
        """Whether a local time in this zone is within the window."""
        minute = local.hour * 60 + local.minute
        today, yesterday = local.weekday(), (local.weekday() - 1) % 7
        if self.start < self.end:
            return today in self.days and self.start <= minute < self.end
        return (today in self.days and minute >= self.start) or (yesterday in self.days and minute < self.end)


def parse_quiet_hours(text: str) -> QuietHours:
    """Parse one window; raises ValueError. The caller checks whether the zone exists."""
    match = _TEXT.fullmatch(text.strip())
    if match is None:
        raise ValueError(text)
    days = frozenset(range(7))
    if match["first"]:
        first = _day(match["first"])
        last = _day(match["last"]) if match["last"] else first
        days = frozenset((first + n) % 7 for n in range((last - first) % 7 + 1))
    return QuietHours(
        days, _start(match["start"]), _minute(match["end"]), match["zone"] or "UTC", text.strip()
    )


def quiet_now(windows: Sequence[QuietHours], local: Callable[[str], datetime]) -> QuietHours | None:
    """The first window that covers the time; ``local`` returns the local time in a zone."""
    return next((window for window in windows if window.covers(local(window.zone))), None)


def _day(name: str) -> int:
    return DAYS.index(name.capitalize())


def _start(text: str) -> int:
    minute = _minute(text)
    if text.startswith("24"):  # of which day? 24:00 is the end of an interval, 00:00 the start
        raise ValueError(text)
    return minute


def _minute(text: str) -> int:
    hours, minutes = map(int, text.split(":"))
    total = hours * 60 + minutes
    if total > _DAY_MINUTES or minutes > 59:
        raise ValueError(text)
    return total % _DAY_MINUTES
