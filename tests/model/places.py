"""Several tables in one folder: none loses a file to another, and no foreign file is deleted.

    place   data/f1  data/<run of A>/f2  data/f3  notes.txt  _lakekeeper/…
    A       named ─────────────┘                                   one set of notes, shared by all
    B       created after A was dropped: the same folder, another uuid

Tables are dropped, created again, registered again from the catalog's trash, and renamed; runs die; strangers leave
files and forge notes. Every version within the retention reads as before, also of dropped tables.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any

from lakekeeper.core.config.options import resolve
from lakekeeper.core.planning.policies.full import FULL
from lakekeeper.core.units import HOUR_MS
from lakekeeper.core.vacuum.vacuum_report import VacuumReport
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.delete.row_delete import delete_rows
from lakekeeper.engine.merge.job import maintain
from lakekeeper.engine.merge.request import Request
from lakekeeper.engine.state import leases
from lakekeeper.engine.state.leases import Intent
from lakekeeper.engine.trash.drop_partition import drop_rows
from lakekeeper.engine.trash.entries import entries
from lakekeeper.engine.trash.restore import restore
from lakekeeper.engine.vacuum.job import VacuumRequest, vacuum
from lakekeeper.errors import LakekeeperError
from lakekeeper.testing.lake import MemoryTable, Settings
from lakekeeper.testing.memory import MemoryAdapter
from lakekeeper.testing.runner import MemoryRunner
from tests.model.oracle import Violation
from tests.model.program import Names

HOURS = 168
_OPTIONS = {"vacuum.max-share": 1, "max-rows-per-file": 6}
_ROOT = "db.place"
STRANGE = ("notes.txt", "docs/readme.md", "export.csv")


class Killed(BaseException):
    """The process is killed: no cleanup runs."""


class PlacedTable(MemoryTable):
    """A table in a folder that it shares; a dropped table keeps every version that was within the retention."""

    def __init__(self, place: Place, settings: Settings) -> None:
        super().__init__(_ROOT, {"k": "int", "day": "int"}, partition_by=["day"], settings=settings)
        self.place = place
        self.uuid = f"00000000-0000-0000-0000-{next(place.uuids):012d}"
        self.disk, self.made_at, self.notes = place.disk, place.made_at, place.notes
        self._numbers = place.numbers
        self.dropped_ms: int | None = None
        self.versions = [replace(self.versions[0], at_ms=place.now_ms)]

    @property
    def now_ms(self) -> int:
        """The time of the place."""
        return self.place.now_ms

    def _now(self, _version: Any) -> int:
        self.place.now_ms += 1000
        return self.place.now_ms


class Place:
    """A folder, its tables in a catalog, and its tables that were dropped without their files."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.now_ms = 1_000_000_000_000
        self.disk: dict[str, Any] = {}
        self.made_at: dict[str, int] = {}
        self.notes: dict[str, str] = {}
        self.numbers = {"row": 0, "file": 0, "delete": 0, "column": 0}
        self.uuids = itertools.count(1)
        self.calls = itertools.count(1)
        self.runs: list[str] = []
        self.tables: list[PlacedTable] = []
        self.dropped: list[PlacedTable] = []

    # -- what users and the catalog do ----------------------------------------------------------------------------

    def create(self) -> None:
        """A table of some rows, in this folder."""
        self.tables.append(PlacedTable(self, self.settings))
        self.append(len(self.tables) - 1)

    def drop(self, at: int) -> None:
        """The catalog drops it; its files remain, to be registered again."""
        table = self.tables.pop(at)
        table.dropped_ms = self.now_ms
        self.dropped.append(table)

    def register(self, at: int) -> None:
        """Register a dropped table again."""
        table = self.dropped.pop(at)
        table.dropped_ms = None
        self.tables.append(table)

    def swap_names(self) -> None:
        """A blue/green swap: the tables exchange names, and no file moves."""
        self.tables.reverse()

    def append(self, at: int) -> None:
        """Six rows of two days."""
        table = self.tables[at]
        first = self.numbers["row"]
        table.append([{"k": first + n, "day": n % 2} for n in range(6)])

    def overwrite(self, at: int) -> None:
        """Replace all rows."""
        self.tables[at].overwrite([{"k": -self.numbers["row"], "day": 0}])

    # -- what strangers do ----------------------------------------------------------------------------------------

    def leave(self, name: str) -> None:
        """A file that no writer of the format would write."""
        known = next(iter(self.disk.values()))
        self.disk[name] = replace(known, path=name)
        self.made_at[name] = self.now_ms - 10_000 * HOUR_MS

    def forge(self, kind: str, table: int, pick: int) -> None:
        """A note that no run wrote, about any file and any table."""
        uuids = [t.uuid for t in (*self.tables, *self.dropped)]
        uuid = uuids[table % len(uuids)]
        run = self.runs[pick % len(self.runs)] if self.runs else "0123456789abcdef-1"
        at_ms = self.now_ms - (0 if pick % 3 else 1000 * HOUR_MS)
        if kind == "cursor":
            plain: Any = {"through": pick % 9, "uuid": uuid}
            self.notes["vacuum/cursor.json"] = json.dumps(plain)
        elif kind == "list":
            listed = [f"mem:/{_ROOT}/{path}" for path in sorted(self.disk)]
            self.notes[f"vacuum/{run[:16]}/list-0000.json"] = json.dumps(listed)
            self._intent(
                leases.SLOTS, Intent(run[:16], "vacuum", at_ms, uuid, 0, parts=1, timeout_ms=HOUR_MS)
            )
        else:
            self._intent(pick % 3, Intent(run, "rewrite", at_ms, uuid, 0, timeout_ms=HOUR_MS))

    def _intent(self, slot: int, intent: Intent) -> None:
        self.notes[f"intents/{slot:02d}.json"] = json.dumps(asdict(intent))

    # -- what the engine does -------------------------------------------------------------------------------------

    def run(self, at: int, verb: str, dies: str) -> None:
        """A call on a table, whose process dies at the phase ``dies`` if it reaches that phase."""
        adapter, runner, clock = MemoryAdapter(self.tables[at]), MemoryRunner(), self._clock()
        options = resolve(_OPTIONS)

        def observe(phase: str, info: Mapping[str, Any]) -> None:
            if phase == dies:
                raise Killed

        calls: Mapping[str, Callable[[], object]] = {
            "rewrite": lambda: maintain(
                adapter, runner, Request("recluster", (FULL,), options), observer=observe, clock=clock
            ),
            "delete": lambda: delete_rows(
                adapter, runner, "k % 5 = 1", options, observer=observe, clock=clock
            ),
            "drop": lambda: drop_rows(adapter, runner, "day = 1", options, observer=observe, clock=clock),
            "restore": lambda: [
                restore(adapter, runner, entry.name, options, observer=observe, clock=clock)
                for entry in entries(adapter).values()
            ],
        }
        table = self.tables[at]
        before = sorted(row["k"] for row in table.rows())
        with suppress(LakekeeperError, Killed):
            calls[verb]()
        now = sorted(row["k"] for row in table.rows())
        if (verb == "rewrite" and now != before) or len(set(now)) != len(now):
            raise Violation(f"table {table.uuid}: a {verb} lost or doubled rows")
        self.runs += [v.run_id for v in table.versions if v.run_id and v.run_id not in self.runs]

    def vacuum(self, at: int, *, orphans: bool) -> VacuumReport | None:
        """Vacuum with the default retention; None if it was refused."""
        request = VacuumRequest(resolve(_OPTIONS), orphans=orphans)
        try:
            return vacuum(MemoryAdapter(self.tables[at]), request, clock=self._clock())
        except LakekeeperError:
            return None

    def _clock(self) -> Clock:
        """A clock that advances while a call waits; the call's id is its number."""
        Names.current = f"{next(self.calls):016x}"
        return Clock(now_ms=lambda: self.now_ms, wait=self._wait)

    def _wait(self, seconds: float) -> None:
        self.now_ms += 1 + round(1000 * seconds)

    # -- what must hold -------------------------------------------------------------------------------------------

    def meet(self) -> None:
        """Each table of the catalog sees the others and the remains of dropped ones, as in the formats' metadata."""
        for table in self.tables:
            others = (*self.tables, *self.dropped)
            table.foreign_tables = tuple(other.uuid for other in others if other is not table)

    def check(self, strange: Sequence[str]) -> None:
        """Raises Violation. Files do not change: a version reads as before while its files exist."""
        for table in (*self.tables, *self.dropped):
            ends = [v.at_ms for v in table.versions[1:]] + [self.now_ms]
            for version, until in zip(table.versions, ends, strict=True):
                due = until < (table.dropped_ms or self.now_ms) - HOURS * HOUR_MS
                if version is not table.current and (due or version.number in table.expired):
                    continue
                gone = [
                    path for path, entry in version.files.items() if self.disk.get(path) is not entry.file
                ]
                if gone:
                    raise Violation(f"table {table.uuid}: {gone[0]} of version {version.number} was deleted")
        lost = [name for name in strange if name not in self.disk]
        if lost:
            raise Violation(f"{lost[0]}, which no writer of the format wrote, was deleted")
