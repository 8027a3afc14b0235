"""Tables with files in the trash."""

from __future__ import annotations

from collections.abc import Sequence

from lakekeeper.core.config.options import resolve
from lakekeeper.core.vacuum.path_guard import Grounds, grounds_of
from lakekeeper.core.vacuum.vacuum_plan import Doomed, VacuumPlan
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.state.leases import register
from lakekeeper.engine.trash.put import TrashFolder
from lakekeeper.testing.lake import MemoryTable
from lakekeeper.testing.memory import MemoryAdapter
from lakekeeper.testing.storage import MemoryStorage
from tests.engine.scene import intent, written
from tests.engine.vacuums import DAY, run

EXT, AT_EXT = "mem:/ext", "mem:/ext/data/a.parquet"


class _Roots(MemoryStorage):
    """Storage of a table with files at ``mem:/ext`` too, where an operator may allow them."""

    allowed: tuple[str, ...] = ()

    @property
    def grounds(self) -> Grounds:
        own = super().grounds
        return grounds_of(own.roots[0], own.reserved, {"write.data.path": EXT}, self.allowed)

    def allowing(self, locations: Sequence[str]) -> _Roots:
        other = _Roots(self._table)
        other.allowed = tuple(locations)
        return other

    def _full(self, path: str) -> str:
        return path if path.startswith("mem:/") else f"{self.grounds.roots[0]}/{path}"


class WithRoots(MemoryAdapter):
    @property
    def storage(self) -> _Roots:
        return _Roots(self.store)


def moved_from_elsewhere(table: MemoryTable) -> tuple[WithRoots, str]:
    """A file outside the table's location, which a vacuum that was allowed it has moved to the trash; its entry."""
    adapter = WithRoots(table)
    table.disk[AT_EXT], table.made_at[AT_EXT] = next(iter(table.disk.values())), 0
    plan = VacuumPlan("db.t", table.uuid, 1, (Doomed(AT_EXT, "data", 10, 1),), {}, ())
    clock = Clock(lambda: table.now_ms, lambda _: None)
    folder = TrashFolder(adapter, adapter.storage.allowing([EXT]), "abcdef0123456789", resolve(), clock)
    folder.open(plan)
    assert folder.take(plan.files) == [AT_EXT]
    return adapter, folder.name


def with_trash(table: MemoryTable) -> str:
    """Moves old versions' files and those of a dead run to the trash; returns the entry's name."""
    clock, notes = Clock(lambda: table.now_ms), MemoryAdapter(table).notes
    register(notes, "t", intent(table, "dead-1"), clock)
    left = written(table, "dead-1")
    table.later(5 * DAY)
    name = run(table, age_ms=DAY, trash=True).trash
    assert left not in table.disk
    return name
