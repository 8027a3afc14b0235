"""The table of the tests of vacuums and of the trash."""

from __future__ import annotations

import pytest

from lakekeeper.testing.lake import MemoryTable, Settings
from tests.engine.vacuums import DAY


@pytest.fixture(params=[True, False], ids=["linear", "expiring"])
def table(request: pytest.FixtureRequest) -> MemoryTable:
    """Five versions of one row each, a day apart; each replaces the files of the previous one."""
    made = MemoryTable("db.t", {"k": "int"}, settings=Settings(linear=request.param))
    for day in range(5):
        made.later(DAY)
        made.overwrite([{"k": day * 10 + i} for i in range(3)])
    return made
