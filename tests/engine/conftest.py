"""The table that tests of vacuums and of the trash begin with."""

from __future__ import annotations

import pytest

from lakekeeper.testing.lake import MemoryTable, Settings
from tests.engine.vacuums import DAY


@pytest.fixture(params=[True, False], ids=["linear", "expiring"])
def table(request: pytest.FixtureRequest) -> MemoryTable:
    """Five versions with rows of their own, a day apart; each replaces the files of the one before."""
    made = MemoryTable("db.t", {"k": "int"}, settings=Settings(linear=request.param))
    for day in range(5):
        made.later(DAY)
        made.overwrite([{"k": day * 10 + i} for i in range(3)])
    return made
