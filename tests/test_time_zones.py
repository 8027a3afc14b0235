from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from lakekeeper.time_zones import zone_of


@pytest.mark.parametrize(
    "name, offset",
    [
        ("UTC", timedelta()),
        ("Europe/Rome", timedelta(hours=2)),
        ("GMT+02:00", timedelta(hours=2)),
        ("GMT-03:30", -timedelta(hours=3, minutes=30)),
        ("+05:30", timedelta(hours=5, minutes=30)),
        ("UTC-8", -timedelta(hours=8)),
        ("GMT+99:00", timedelta()),
        ("Atlantis/Capital", timedelta()),
        ("America", timedelta()),
        ("../../etc/passwd", timedelta()),
        ("", timedelta()),
    ],
)
def test_a_zone_by_the_name_that_java_gives_it(name: str, offset: timedelta) -> None:
    assert datetime(2026, 7, 1, tzinfo=zone_of(name)).utcoffset() == offset
