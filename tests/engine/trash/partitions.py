"""A table of two days, one of which is dropped and restored."""

from __future__ import annotations

from typing import Any

from lakekeeper.core.config.options import resolve
from lakekeeper.core.model.report import DeleteReport, RestoreReport
from lakekeeper.core.units import HOUR_MS
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.trash.drop_partition import drop_rows
from lakekeeper.engine.trash.entries import TrashEntry, entries
from lakekeeper.engine.trash.restore import restore
from lakekeeper.spi import Observer
from lakekeeper.testing.lake import MemoryTable, Settings
from lakekeeper.testing.memory import MemoryAdapter
from lakekeeper.testing.runner import MemoryRunner
from lakekeeper.testing.values import fingerprint
from tests.engine.scene import Scene

DAY = 24 * HOUR_MS


class Crash(BaseException):
    """The process is killed."""


def crash(*_: Any) -> None:
    raise Crash


def two_days(settings: Settings | None = None) -> Scene:
    """Rows k of two days; one row of the first day was deleted before."""
    table = MemoryTable("db.t", {"day": "int", "k": "int"}, partition_by=["day"], settings=settings)
    for day in (1, 2):
        table.append([{"day": day, "k": 10 * day + i} for i in range(4)])
    table.delete("k = 13")
    return Scene(table)


def drop(
    scene: Scene, where: str = "day = 1", observer: Observer | None = None, **options: Any
) -> DeleteReport:
    return drop_rows(
        scene.adapter, scene.runner, where, resolve(options), observer=observer, clock=clock_of(scene)
    )


def back(scene: Scene, observer: Observer | None = None, **options: Any) -> RestoreReport:
    [entry] = bin_of(scene)
    adapter, runner = MemoryAdapter(scene.table), MemoryRunner()
    return restore(adapter, runner, entry.name, resolve(options), observer=observer, clock=clock_of(scene))


def clock_of(scene: Scene) -> Clock:
    return Clock(now_ms=lambda: scene.table.now_ms, wait=scene.pauses.append)


def bin_of(scene: Scene) -> list[TrashEntry]:
    return list(entries(scene.adapter).values())


def rows(scene: Scene) -> tuple[str, ...]:
    return fingerprint(scene.table.rows())
