"""Vacuums of the memory lake, on a clock that never waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakekeeper.core.config.options import resolve
from lakekeeper.core.units import HOUR_MS
from lakekeeper.core.vacuum.vacuum_report import VacuumReport
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.vacuum.job import VacuumRequest, vacuum
from lakekeeper.errors import NotFound
from lakekeeper.testing.lake import MemoryTable
from lakekeeper.testing.memory import MemoryAdapter

DAY = 24 * HOUR_MS
WIDE = {"vacuum.max-share": 1}


def run(table: MemoryTable, *, options: Mapping[str, Any] | None = None, **wanted: Any) -> VacuumReport:
    resolved = resolve({**WIDE, **(options or {})}, {}, table.current.properties)
    clock = Clock(now_ms=lambda: table.now_ms, wait=lambda _: None)
    observer = wanted.pop("observer", None)
    return vacuum(MemoryAdapter(table), VacuumRequest(resolved, **wanted), observer=observer, clock=clock)


def readable(table: MemoryTable) -> list[int]:
    """Versions that can be read."""
    found = []
    for version in table.versions:
        try:
            table.rows(version.number)
        except NotFound:
            continue
        found.append(version.number)
    return found
