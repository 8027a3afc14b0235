"""Which times are in the last 24 hours."""

from __future__ import annotations

import numpy as np
import pytest

from lakekeeper.core.scheduling.last_day import LastDay
from lakekeeper.core.units import CLOCKS_DIFFER_MS, DAY_MS

NOW = 400 * DAY_MS


@pytest.mark.parametrize(
    "at_ms, inside",
    [
        (NOW - DAY_MS, False),
        (NOW - DAY_MS + 1, True),
        (NOW, True),
        (NOW + CLOCKS_DIFFER_MS, True),
        (NOW + CLOCKS_DIFFER_MS + 1, False),
    ],
)
def test_a_time_counts_for_24_hours_and_if_it_is_a_little_ahead(at_ms: int, inside: bool) -> None:
    assert LastDay(NOW).has(at_ms) == inside
    assert LastDay(NOW).has(np.array([at_ms, NOW], np.int64)).tolist() == [inside, True]
