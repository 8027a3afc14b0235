"""Time zones by Java's names. The core takes a zone as a value, because looking one up reads the machine's database."""

from __future__ import annotations

import re
from datetime import timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_OFFSET = re.compile(r"(?:GMT|UTC)?([+-])(\d{1,2})(?::?(\d{2}))?")


def zone_of(name: str) -> tzinfo:
    """The zone of a name such as ``Europe/Rome`` or Java's ``GMT+02:00``; UTC if this machine does not know it."""
    if offset := _OFFSET.fullmatch(name):
        sign, hours, minutes = offset.groups()
        minutes_east = int(hours) * 60 + int(minutes or 0)
        if minutes_east < 24 * 60:
            return timezone(timedelta(minutes=minutes_east if sign == "+" else -minutes_east))
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # OSError: a folder of zones
        return timezone.utc
