"""Quiet hours against a plain walk over the minutes of a week, in zones with and without daylight saving time."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakekeeper.core.scheduling.quiet_hours import DAYS, parse_quiet_hours, quiet_now

MONDAY = datetime(2026, 1, 5)  # noqa: DTZ001 - the time on a wall
minutes = st.integers(0, 1439)


def clock(minute: int) -> str:
    return f"{minute // 60:02d}:{minute % 60:02d}"


@given(minutes, minutes, st.integers(0, 6), st.integers(0, 6), st.integers(0, 7 * 1440 - 1))
def test_a_window_covers_the_minutes_that_a_walk_over_the_week_finds(
    start: int, end: int, first: int, last: int, at: int
) -> None:
    window = parse_quiet_hours(f"{DAYS[first]}-{DAYS[last]} {clock(start)}-{clock(end)}")
    length = end - start if start < end else end - start + 1440
    days = [(first + n) % 7 for n in range((last - first) % 7 + 1)]
    covered = any((at - day * 1440 - start) % (7 * 1440) < length for day in days)
    assert window.covers(MONDAY + timedelta(minutes=at)) == covered


@pytest.mark.parametrize(
    "text, inside, outside",
    [
        ("22:00-06:00", "2026-01-07T23:30", "2026-01-07T06:00"),
        ("Sat 22:00-06:00", "2026-01-11T05:59", "2026-01-10T05:59"),
        ("Mon-Fri 08:00-18:30 Europe/Berlin", "2026-07-01T06:00", "2026-07-01T05:59"),
        ("Mon-Fri 08:00-18:30 Europe/Berlin", "2026-01-07T07:00", "2026-01-07T06:59"),
        ("Sun 00:00-24:00 America/New_York", "2026-01-11T05:00", "2026-01-12T05:00"),
        ("fri 9:00-9:30", "2026-01-09T09:29", "2026-01-09T09:30"),
    ],
)
def test_days_hours_and_zones(text: str, inside: str, outside: str) -> None:
    window = parse_quiet_hours(text)
    for when, expected in ((inside, window), (outside, None)):
        at = datetime.fromisoformat(when).replace(tzinfo=timezone.utc)
        local = at.astimezone(ZoneInfo(window.zone))
        assert quiet_now([window], {window.zone: local}.__getitem__) == expected, when


@pytest.mark.parametrize(
    "text",
    ["", "8-9", "08:00", "08:00-24:01", "08:60-09:00", "24:00-06:00", "Tag 08:00-09:00", "Mon-08:00-09:00"],
)
def test_a_malformed_window_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_quiet_hours(text)
