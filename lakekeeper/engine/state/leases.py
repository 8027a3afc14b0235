"""Leases of active runs on a table: taken before a run writes, removed when it ends.

    register ─► write files ─► commit ─► remove         nothing is left
    register ─► write files ─► ✗ (killed)               the intent names the run, by which a vacuum finds what it left

There is a fixed number of slots, each a note of its own, so that a vacuum reads all of them without a listing
(StarRocks has a folder of transaction logs for this). A vacuum keeps the version that a live run has read until the
intent is so old that the run counts as dead; from then on, the run commits nothing either.

An undo names files again that no version keeps. So it and a vacuum each register first and then look for the other one,
and of the two, the one that registered later sees the other:

    vacuum   register ─► which versions do runs read now? ─► delete, registered all the while ─► remove
    undo     register ─► does a vacuum delete? ─► do the files exist? ─► commit ─► remove

Others may write notes too, and tables may share a folder. So an intent counts only for the table whose uuid it carries,
gives no paths of files, and is checked against the table.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from typing import Any

from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.run_folders import is_name, is_run_id, run_folder
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.events import Halted
from lakekeeper.engine.retries import SHORT_PAUSES, retried
from lakekeeper.engine.state.note_slots import claim, filled, part, slot_note, take_over
from lakekeeper.errors import MALFORMED, AdapterError, Rejected, reason
from lakekeeper.spi import Adapter, Notes

SLOTS = 64
VACUUMS = 8
"""Slots that only vacuums take: if dead runs fill all others, a vacuum needs one to settle them."""
_REWRITE, VACUUM = "rewrite", "vacuum"
_MOST = 2**53
_MOST_PARTS = 5_000  # notes of 20,000 paths each


@dataclass(frozen=True, slots=True)
class Intent:
    """A run on the table ``table_uuid``. Times are in ms since the epoch.

    read_version   kept for a rewrite or delete while it is alive; of a vacuum, the version that it examined
    ended          the run is over, but left files whose names are not recorded; of a vacuum: it deletes nothing more,
                   but its list remains
    parts          notes that list what a vacuum deletes
    timeout_ms     the timeout of the run itself, whatever timeout a vacuum uses
    renewed_ms     when the run last renewed its lease; 0 if it never did
    """

    run_id: str
    kind: str
    at_ms: int
    table_uuid: str
    read_version: int | None = None
    ended: bool = False
    parts: int = 0
    timeout_ms: int = 0
    renewed_ms: int = 0

    @property
    def folder(self) -> str:
        """The name of the folder that the run writes into. Raises ValueError for a vacuum's, which writes no file."""
        return run_folder(self.table_uuid, self.run_id)

    def dies_ms(self, timeout_ms: int = 0) -> int:
        """When the run gives up by itself; another one with ``timeout_ms`` takes it for dead then, never before."""
        return max(self.at_ms, self.renewed_ms) + max(timeout_ms, self.timeout_ms)

    def alive(self, timeout_ms: int, now_ms: int) -> bool:
        """Whether it is a rewrite or a delete that may still write and commit."""
        return self.kind != VACUUM and not self.ended and now_ms < self.dies_ms(timeout_ms)

    def deletes(self, timeout_ms: int, now_ms: int) -> bool:
        """Whether it is a vacuum that may still delete."""
        return self.kind == VACUUM and not self.ended and now_ms < self.dies_ms(timeout_ms)

    def to_json(self) -> str:
        return json.dumps({each.name: getattr(self, each.name) for each in fields(self)})


def read_intent(text: str) -> Intent | None:
    """Parse an intent; None for a note that is half written, or that no run of lakekeeper writes."""
    try:
        plain = json.loads(text)
        intent = Intent(
            run_id=plain["run_id"],
            kind=plain["kind"],
            at_ms=_number(plain["at_ms"]),
            table_uuid=plain["table_uuid"],
            read_version=None
            if plain["read_version"] is None
            else _number(plain["read_version"], signed=True),
            ended=plain["ended"] is True,
            parts=_number(plain["parts"], most=_MOST_PARTS),
            timeout_ms=_number(plain["timeout_ms"]),
            renewed_ms=_number(plain.get("renewed_ms", 0)),
        )
        fits = is_name(intent.run_id) if intent.kind == VACUUM else is_run_id(intent.run_id)
        known = intent.kind in (_REWRITE, VACUUM) and isinstance(intent.table_uuid, str)
    except MALFORMED:
        return None
    return intent if fits and known else None


def _number(value: Any, *, most: int = _MOST, signed: bool = False) -> int:
    """A whole number of an intent; Iceberg's versions may be any 64-bit number. Raises ValueError."""
    if type(value) is not int or not (-(2**63) <= value < 2**63 if signed else 0 <= value <= most):
        raise ValueError(value)
    return value


@dataclass(slots=True)
class Registration:
    """An intent of a run on ``table`` that is registered under ``slot``.

    ``clean``: all files of the run are named by the log or gone.
    """

    notes: Notes
    table: str
    slot: str
    intent: Intent
    clock: Clock
    clean: bool = True
    _writes: bool = field(default=False, repr=False, compare=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def require(self) -> None:
        """Raise Rejected if the files of this run may be gone: a vacuum may have taken it for dead, or the notes do not
        answer.
        """
        self._require_time()
        try:
            is_registered = self.is_registered()
        except Exception as error:
            raise Rejected(
                f"{self.table}: whether a vacuum has taken run {self.intent.run_id} for dead is unknown, so nothing "
                f"was committed ({reason(error)}). Run it again"
            ) from error
        if not is_registered:
            raise self._dead()

    def is_registered(self) -> bool:
        """Whether the registration is still there: a vacuum removes those that it has settled."""
        there = retried(lambda: _intent_at(self.notes, self.slot), self.clock)
        return there is not None and there.run_id == self.intent.run_id

    def renew(self) -> None:
        """Before each write: keep the registration alive, by a new note once half of its time has passed.

        ├── at_ms ──────── half ──────────┬── dies        a run that goes on renews here, and has the whole time again
        │                                 └── a storage that fails costs nothing yet: the next write renews

        The first call looks whether the note is still there, whatever the time: a run that has written nothing yet can
        register again. Raises Rejected where the time has passed or, later, a vacuum has removed the note: no vacuum
        would look for what is written now.
        """
        with self._lock:
            self._require_time()
            due = self.left_ms() <= self.intent.timeout_ms // 2
            if self._writes and not due:
                return
            try:
                is_registered = self.is_registered()
                if is_registered and due:
                    self.note(renewed_ms=self.clock.now_ms())
            except Exception:
                self._writes = True
                return  # the storage does not answer; there is time left
            if not is_registered:
                # What a vacuum has registered is the list that it deletes, which another vacuum has taken over.
                if self._writes or self.intent.kind == VACUUM:
                    raise self._dead()
                intent = replace(self.intent, renewed_ms=self.clock.now_ms())  # no text returns to a slot
                self.slot, self.intent = _slot_for(self.notes, self.table, intent, self.clock), intent
            self._writes = True

    def left_ms(self) -> int:
        """The time in which the run may still write and commit."""
        return self.intent.dies_ms() - self.clock.now_ms()

    def _require_time(self) -> None:
        if self.left_ms() <= 0:
            raise self._dead()

    def _dead(self) -> Rejected:
        if self.intent.kind == VACUUM:
            return Rejected(
                f"{self.table}: vacuum {self.intent.run_id} did not renew its registration within "
                "vacuum.intent-timeout-hours, or another vacuum has taken over its list: it deletes nothing more"
            )
        return Rejected(
            f"{self.table}: run {self.intent.run_id} did not renew its registration within "
            "vacuum.intent-timeout-hours, or the registration is gone: a vacuum may have deleted its files, so nothing "
            "was committed. Run it again, or raise vacuum.intent-timeout-hours"
        )

    def note(self, **changed: Any) -> None:
        """Change the registered intent."""
        intent = replace(self.intent, **changed)
        retried(lambda: self.notes.replace(self.slot, intent.to_json()), self.clock)
        self.intent = intent

    def close(self) -> None:
        """Remove the intent; leave it, as ended, where files may have been left."""
        with suppress(Exception):  # the work is done; the next vacuum settles what stays registered
            if not self.is_registered():
                return  # taken for dead: the slot may be another run's by now
            if self.clean:
                self.notes.remove(self.slot)
            else:
                self.note(ended=True)


def register(notes: Notes, table: str, intent: Intent, clock: Clock) -> Registration:
    """Register in the first free slot. Raises AdapterError if none is free or the storage does not respond."""
    return Registration(notes, table, _slot_for(notes, table, intent, clock), intent, clock)


def _slot_for(notes: Notes, table: str, intent: Intent, clock: Clock) -> str:
    """The slot that has the intent now: the first free one, else one that no run uses any more."""
    text = intent.to_json()
    free = range(SLOTS) if intent.kind != VACUUM else (*range(SLOTS, SLOTS + VACUUMS), *range(SLOTS))
    slots = [_slot(number) for number in free]

    def taken() -> str | None:
        # A write that succeeded although the call failed is found by its text.
        found = claim(notes, slots, text)
        if found is not None:
            return found
        old = given_up_slots(notes, slots, intent, clock.now_ms())
        return next((slot for slot, there in old if take_over(notes, slot, there, text)), None)

    place = retried(taken, clock, SHORT_PAUSES)
    if place is None:
        raise AdapterError(
            f"{table}: {SLOTS} runs are registered on it; nothing was written. Some were killed, or failed and "
            "left files: run vacuum, which cleans up after a run once vacuum.intent-timeout-hours and "
            "vacuum.orphan-grace-hours have passed since it last renewed its registration"
        )
    return place


def given_up_slots(notes: Notes, slots: list[str], intent: Intent, now_ms: int) -> list[tuple[str, str]]:
    """Slots that no run uses any more, each with its text, the least needed first; looked for if none is free.

    Slots of dead runs of another table are taken first, then those of ended runs, then those of dead ones, the oldest
    first; files that such a run of this table left are orphans from then on. An unreadable note is taken last.
    """
    rank: list[tuple[int, int, str, str]] = []
    for slot, text in filled(notes, slots):
        there = read_intent(text)
        if there is None:
            rank.append((3, 0, slot, text))
        elif (there.ended and there.kind != VACUUM) or now_ms >= there.dies_ms():
            foreign = there.table_uuid != intent.table_uuid
            # The lists of a vacuum of this table are the only trace of files that its metadata no longer names.
            if foreign or there.kind != VACUUM:
                rank.append((0 if foreign else 1 if there.ended else 2, there.at_ms, slot, text))
    return [(slot, text) for _, _, slot, text in sorted(rank)]


@contextmanager
def registered_run(
    adapter: Adapter[Any], run_id: str, read: Snapshot, clock: Clock, timeout_ms: int
) -> Iterator[Registration]:
    """A context for work that writes files: registered while it lasts, and after a crash. ``read`` is its snapshot."""
    intent = Intent(run_id, _REWRITE, clock.now_ms(), read.table_uuid, read.version, timeout_ms=timeout_ms)
    registration = register(adapter.notes, adapter.table, intent, clock)
    try:
        yield registration
    except Halted:
        raise  # as after a crash: the intent stays
    except BaseException:
        registration.clean = False
        registration.close()
        raise
    registration.close()
    if registration.clean:
        with suppress(Exception):  # the work is done; at worst a note or an empty folder remains
            adapter.storage.forget(intent.folder)


def registered(notes: Notes) -> Mapping[str, Intent]:
    """Slot → intent, of all registered runs of any table. Raises AdapterError if the storage does not respond."""
    texts = filled(notes, map(_slot, range(SLOTS + VACUUMS)))
    return {place: intent for place, text in texts if (intent := read_intent(text)) is not None}


def read_by_runs(intents: Mapping[str, Intent], timeout_ms: int, now_ms: int) -> dict[int, str]:
    """Version → run id, of the versions that live runs have read, whichever table registered them."""
    return {
        intent.read_version: intent.run_id
        for intent in intents.values()
        if intent.read_version is not None and intent.alive(timeout_ms, now_ms)
    }


def unregister(notes: Notes, slot: str, intent: Intent) -> None:
    """Remove a settled intent, unless it has changed or its slot now belongs to another run."""
    if _intent_at(notes, slot) == intent:
        notes.remove(slot)


def unlist(notes: Notes, slot: str, intent: Intent) -> None:
    """Remove the list of a vacuum, and its registration as :func:`unregister` does."""
    for number in range(intent.parts):
        notes.remove(part(list_of(intent.run_id), number))
    unregister(notes, slot, intent)


def list_of(run_id: str) -> str:
    """The stem of the notes that list the files that a vacuum will delete; their number is ``parts`` of its intent."""
    return f"vacuum/{run_id}/list"


def _intent_at(notes: Notes, slot: str) -> Intent | None:
    text = notes.read(slot)
    return read_intent(text) if text else None


def _slot(number: int) -> str:
    return slot_note("intents", number)
