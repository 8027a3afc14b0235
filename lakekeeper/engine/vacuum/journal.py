"""Notes that a vacuum writes: proof, list and cursor. They are small, and safety never depends on them.

    vacuum/cursor.json            the version up to which all garbage was deleted
    vacuum/backlog-0000.json      what was dropped and waits for its retention, of a log that forgets it
    vacuum/<run>/proof.json       what was examined and what will go; before the first delete
    vacuum/<run>/list-0000.json   the paths, 20,000 in each; until all are gone. Then, those that another table uses
    vacuum/<run>/done.json        what was really gone
    vacuum/records.json           the newest vacuums that have ended; the proof and the result of older ones are removed
    intents/<slot>.json           this vacuum, until it is done

Without a cursor, the whole log is read again; without a list, files that a crash left stay until a search for orphans.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, field

from lakekeeper.core.model.run_folders import is_name
from lakekeeper.core.vacuum.retention import Versions
from lakekeeper.core.vacuum.vacuum_plan import (
    NO_BACKLOG,
    Backlog,
    VacuumPlan,
    Waiting,
    proof,
)
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.retries import SHORT_PAUSES, retried
from lakekeeper.engine.state.leases import VACUUM, Intent, Registration, list_of, register, unlist
from lakekeeper.engine.state.note_slots import in_parts, part, write_parts
from lakekeeper.engine.state.vacuum_cursor import CURSOR
from lakekeeper.engine.trash.entries import being_filled
from lakekeeper.engine.vacuum.deleter import Removed
from lakekeeper.errors import MALFORMED, AdapterError
from lakekeeper.spi import Notes
from lakekeeper.spi.storage import Storage

_BACKLOG = "vacuum/backlog"
_NEWEST = "vacuum/records.json"
_RECORDS = 64
"""Vacuums whose proof and result stay."""
_MOST_PARTS = 10_000


@dataclass(frozen=True, slots=True)
class _Cursor:
    """The version up to which the last vacuum deleted all garbage (None: unknown), and the extent of its backlog."""

    through: int | None = None
    table_uuid: str = ""
    seen: int = -1
    parts: int = 0


@dataclass(slots=True)
class Records:
    """The records of one vacuum, which counts as dead ``timeout_ms`` after it was registered."""

    notes: Notes
    run_id: str
    clock: Clock
    timeout_ms: int
    _cursor: _Cursor = _Cursor()
    _registration: Registration | None = None
    _heir: bool = False
    _deputy_of: Intent | None = None
    _over: list[str] = field(default_factory=list)

    def versions(
        self, storage: Storage, hints: Collection[str], reaches_back: Callable[[Versions], bool]
    ) -> Versions:
        """Versions since the last vacuum; all of them if its cursor belongs to another table that was in this place.

        No version that is left out needs a file that the notes name as dead: if one before the cursor stays (the last
        vacuum kept less, or the note is not ours), all versions are read too.
        """
        cursor = self._cursor = self._read_cursor()
        versions = storage.versions(cursor.through)
        if cursor.through is None or not versions.items:
            return versions
        noted = bool(hints or cursor.parts)
        ours = cursor.table_uuid == versions.table_uuid and (not noted or reaches_back(versions))
        return versions if ours else storage.versions(None)

    def _read_cursor(self) -> _Cursor:
        """The note of the last vacuum that finished; an empty one if there is no valid note."""
        text = self.notes.read(CURSOR)
        try:
            plain = json.loads(text) if text else {}
            if not plain:
                return _Cursor()
            parts, seen = (int(plain.get(name, least)) for name, least in (("parts", 0), ("seen", -1)))
            through = None if plain["through"] is None else int(plain["through"])
            return _Cursor(through, str(plain["uuid"]), seen, min(max(parts, 0), _MOST_PARTS))
        except MALFORMED:
            return _Cursor()

    def backlog(self, versions: Versions) -> Backlog:
        """The backlog of the last vacuum, unless another table was here then. Malformed entries are skipped."""
        cursor = self._cursor
        if cursor.table_uuid != versions.table_uuid:
            return NO_BACKLOG
        found: list[Waiting] = []
        for number in range(cursor.parts):
            text = self.notes.read(part(_BACKLOG, number))
            with suppress(*MALFORMED):
                for path, kind, version, at_ms, partition, *feed in json.loads(text or "[]"):
                    known = str(path), str(kind), int(version), int(at_ms), str(partition)
                    found.append(Waiting(*known, feed=any(feed)))
        return Backlog(tuple(found), cursor.seen)

    def hints(self, intents: Mapping[str, Intent]) -> frozenset[str]:
        """Paths that earlier vacuums of this table listed and may not have deleted."""
        found: set[str] = set()
        for intent in intents.values():
            if intent.kind == VACUUM:
                found.update(*(paths for paths in self._listed(intent) if paths is not None))
        return frozenset(found)

    def _listed(self, intent: Intent) -> Iterator[list[str] | None]:
        """The parts of a vacuum's list; None for a missing or malformed one: nothing has expired yet."""
        for number in range(intent.parts):
            yield _paths(self.notes.read(part(list_of(intent.run_id), number)))

    def before(self, plan: VacuumPlan) -> None:
        """Write the list and the proof. Raises AdapterError if that fails: nothing may be deleted then."""
        parts = in_parts([file.path for file in plan.files])
        registration = self._listing(plan, parts)
        while not registration.is_registered():  # another vacuum took us for dead and removed our list
            registration = self._listing(plan, parts)
        text = proof(plan, self.run_id, self.clock.now_ms())
        place = f"vacuum/{self.run_id}/proof.json"
        retried(lambda: self.notes.replace(place, text), self.clock, SHORT_PAUSES)
        if retried(lambda: self.notes.read(place), self.clock, SHORT_PAUSES) != text:
            raise AdapterError(
                f"{plan.table}: the list of files to delete could not be recorded; nothing was deleted"
            )

    def _listing(self, plan: VacuumPlan, parts: Sequence[Sequence[str]]) -> Registration:
        """Register a list with these further parts, then write it.

        The registration of an earlier attempt may be gone: another vacuum has deleted all that it listed.
        """
        own = self._registration
        if own is not None and own.is_registered():
            first = own.intent.parts
            own.note(parts=first + len(parts))
        else:
            first = 0
            intent = Intent(
                self.run_id,
                VACUUM,
                self.clock.now_ms(),
                plan.table_uuid,
                plan.version,
                parts=len(parts),
                timeout_ms=self.timeout_ms,
            )
            # Kept before the list is written: should that fail, the registration has to be marked as ended.
            own = self._registration = register(self.notes, plan.table, intent, self.clock)
        retried(lambda: write_parts(self.notes, list_of(self.run_id), parts, first), self.clock, SHORT_PAUSES)
        return own

    def after(self, plan: VacuumPlan, removed: Removed) -> None:
        """Record what was actually deleted; a failure to write the record changes nothing."""
        record = {
            "run_id": self.run_id,
            "at_ms": self.clock.now_ms(),
            "planned": len(plan.files),
            "gone": removed.files,
            "bytes": removed.bytes,
            "failed": removed.failed,
        }
        with suppress(AdapterError):
            self.notes.replace(f"vacuum/{self.run_id}/done.json", json.dumps(record))

    def withdrawn(self) -> None:
        """Nothing was expired and nothing will be deleted: remove the list, unless another list was replaced by it."""
        if self._registration is not None and not self._heir:
            self.forget(self._registration.slot, self._registration.intent)

    def renew(self) -> None:
        """Before each batch: remain registered, as long as it takes. Raises Rejected if another vacuum took over."""
        if self._registration is not None:
            self._registration.renew()

    def stopped(self) -> None:
        """Nothing more is deleted; the list remains for the next vacuum, which checks each file in it.

        A vacuum whose list we took over may still delete, and is registered no more: we remain registered in its place,
        as long as it would have been.
        """
        self._mark_ended()
        _keep_newest(self.notes, self._over)
        self._over.clear()

    def _mark_ended(self) -> None:
        own, other = self._registration, self._deputy_of
        if own is None:
            return
        with suppress(Exception):  # an undo then waits until the registration has timed out
            if not own.is_registered():
                return
            if other is None:
                own.note(ended=True)
            else:
                own.note(at_ms=other.at_ms, renewed_ms=other.renewed_ms, timeout_ms=other.timeout_ms)

    def finished(
        self,
        plan: VacuumPlan,
        intents: Mapping[str, Intent],
        settled: Mapping[str, Intent],
        dealt_with: frozenset[str] = frozenset(),
        deferred: frozenset[str] = frozenset(),
    ) -> None:
        """All dead files but the ``deferred`` ones are gone: remove settled intents and our own; move the cursor."""
        with suppress(AdapterError):  # the next vacuum settles what stays, at the same cost
            self._remember(plan, intents, dealt_with, deferred)
            if plan.through is not None or plan.backlog.files:
                self._move_on(plan)
            for slot, intent in intents.items():
                if slot in settled:
                    self.forget(slot, intent)
            if self._registration is not None:
                self.forget(self._registration.slot, self._registration.intent)
                self._registration = None
        self.stopped()

    def _remember(
        self,
        plan: VacuumPlan,
        intents: Mapping[str, Intent],
        dealt_with: frozenset[str],
        deferred: frozenset[str],
    ) -> None:
        """Leave one list of the dead files that stay for now, for later vacuums: the log may not name them again."""
        lists = {
            slot: [*self._listed(intent)]
            for slot, intent in intents.items()
            if intent.kind == VACUUM and intent.run_id != self.run_id
        }
        known = {path for parts in lists.values() for paths in parts for path in paths or ()}
        if known == deferred or not deferred:
            return
        parts, now_ms = in_parts(sorted(deferred)), self.clock.now_ms()
        intent = Intent(
            f"{self.run_id}-deferred",
            VACUUM,
            now_ms,
            plan.table_uuid,
            plan.version,
            ended=True,
            parts=len(parts),
            timeout_ms=self.timeout_ms,
        )
        register(self.notes, plan.table, intent, self.clock)
        write_parts(self.notes, list_of(intent.run_id), parts)
        covered = dealt_with | deferred
        for slot, listed in lists.items():
            gone = all(paths is not None and covered.issuperset(paths) for paths in listed)
            if gone and not intents[slot].deletes(self.timeout_ms, now_ms):
                self.forget(slot, intents[slot])

    def _move_on(self, plan: VacuumPlan) -> None:
        """The backlog before the cursor: died in between, the old cursor says that less was seen, which is safe."""
        before, backlog = self._cursor.parts, plan.backlog
        parts = in_parts([astuple(file) for file in backlog.files])
        write_parts(self.notes, _BACKLOG, parts)
        plain = {"through": plan.through, "uuid": plan.table_uuid}
        if parts:
            plain |= {"parts": len(parts), "seen": backlog.seen}
        self.notes.replace(CURSOR, json.dumps(plain))
        for number in range(len(parts), before):
            self.notes.remove(part(_BACKLOG, number))

    def took_over(
        self,
        intents: Mapping[str, Intent],
        dealt_with: frozenset[str],
        timeout_ms: int | None,
        deferred: frozenset[str] = frozenset(),
    ) -> None:
        """Remove lists of earlier vacuums: those whose files are gone or in our own list, and those of dead ones.

        ``timeout_ms`` None: no run counts as dead. A list with a ``deferred`` file stays.

        This happens before the first delete, so that vacuums that fail repeatedly do not take all slots. A list with a
        file that is still named may belong to a running vacuum, which has yet to expire the versions that name the
        file. A vacuum that may still move files into the trash stays registered: only so long is its entry kept.
        """
        now_ms = self.clock.now_ms()
        with suppress(AdapterError):
            fills = retried(lambda: being_filled(self.notes, intents, now_ms), self.clock, SHORT_PAUSES)
            for slot, intent in intents.items():
                if intent.kind != VACUUM or intent.run_id in {self.run_id, *fills}:
                    continue
                dead = timeout_ms is not None and now_ms >= intent.dies_ms(timeout_ms)
                lists = [*self._listed(intent)]
                if dead:
                    goes = not any(deferred.intersection(paths or ()) for paths in lists)
                else:
                    goes = all(paths is not None and dealt_with.issuperset(paths) for paths in lists)
                if goes:
                    self._heir = True
                    self._replace(intent, now_ms)
                    self.forget(slot, intent)

    def _replace(self, other: Intent, now_ms: int) -> None:
        longest = self._deputy_of.dies_ms() if self._deputy_of else 0
        if other.deletes(self.timeout_ms, now_ms) and other.dies_ms() > longest:
            self._deputy_of = other

    def forget(self, slot: str, intent: Intent) -> None:
        unlist(self.notes, slot, intent)
        # A name with a hyphen is that of a list without a vacuum of its own.
        if intent.kind == VACUUM and "-" not in intent.run_id:
            self._over.append(intent.run_id)


def _keep_newest(notes: Notes, over: Sequence[str]) -> None:
    """Add vacuums that are registered no more to the list of records, and remove the oldest records beyond it.

    A failure costs nothing but space: a list that could not be written is as it was, and the next vacuum removes what
    was not removed now.
    """
    if not over:
        return
    with suppress(Exception):
        runs = [*_runs(notes.read(_NEWEST)), *over]
        runs = list(dict.fromkeys(reversed(runs)))[::-1]  # the last time counts
        while len(runs) > _RECORDS and _removed(notes, runs[0]):
            del runs[0]
        notes.replace(_NEWEST, json.dumps({"runs": runs}))


def _removed(notes: Notes, run_id: str) -> bool:
    with suppress(Exception):
        for name in ("proof", "done"):
            notes.remove(f"vacuum/{run_id}/{name}.json")
        return True
    return False


def _runs(text: str | None) -> list[str]:
    """The ids in the list of records; an invalid one, which no run has written, is left out."""
    with suppress(*MALFORMED):
        return [run_id for run_id in json.loads(text or "")["runs"] if is_name(run_id)]
    return []


def _paths(text: str | None) -> list[str] | None:
    """The paths in a part of a list; None if it is missing, half written, or no list of texts."""
    with suppress(*MALFORMED):
        plain = json.loads(text or "")
        if isinstance(plain, list) and all(isinstance(path, str) for path in plain):
            return plain
    return None
