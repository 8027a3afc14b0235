"""Who is at work on a table: registered before anything is written, taken away when all is done.

    register ─► write files ─► commit ─► remove         nothing is left
    register ─► write files ─► ✗ (killed)               the intent tells a vacuum where to look, and since when

There are so many slots, each a note of its own, so that a vacuum finds all of them without a listing (seed 004: the
transaction log folder). Versions that somebody at work has read are kept for him, until the intent is so old that he is
taken for dead; from then on he commits nothing either.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from lakekeeper.engine.clock import Clock
from lakekeeper.engine.events import Halted
from lakekeeper.engine.slots import claim, filled, slot_note
from lakekeeper.errors import AdapterError, Rejected
from lakekeeper.spi import Adapter, Notes

SLOTS = 64
VACUUMS = 8
"""Slots that only vacuums take: where the dead took all others, somebody has to be able to settle them."""
_REWRITE, VACUUM = "rewrite", "vacuum"


@dataclass(frozen=True, slots=True)
class Intent:
    """Somebody at work. ``read_version`` is kept for him; his files are in ``folders``, none older than ``at_ms``.

    ``ended``: he is done, but left files whose names nobody knows. ``parts`` are notes that list what a vacuum deletes.
    ``timeout_ms`` is what he goes by himself, whatever a vacuum was told.
    """

    run_id: str
    kind: str
    at_ms: int
    read_version: int | None = None
    folders: tuple[str, ...] = ()
    ended: bool = False
    parts: int = 0
    timeout_ms: int = 0

    def dies_ms(self, timeout_ms: int = 0) -> int:
        """When he gives up himself; by who waits for ``timeout_ms`` he is taken for dead then, never before."""
        return self.at_ms + max(timeout_ms, self.timeout_ms)

    def alive(self, timeout_ms: int, now_ms: int) -> bool:
        """Is he a rewrite or a delete that may yet write, and commit?"""
        return self.kind != VACUUM and not self.ended and now_ms < self.dies_ms(timeout_ms)

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def read_intent(text: str) -> Intent | None:
    """An intent out of its note; None for one that was half written or is nothing of ours."""
    try:
        plain = json.loads(text)
        return Intent(**{**plain, "folders": tuple(plain["folders"])})
    except (ValueError, TypeError, KeyError):
        return None


@dataclass(slots=True)
class Registration:
    """An intent that is registered under ``slot``. ``clean``: all files of the run are named by the log or gone."""

    notes: Notes
    slot: str
    intent: Intent
    clock: Clock
    clean: bool = True

    def require(self) -> None:
        """Raise Rejected where a vacuum may have taken this run for dead: its files may be gone."""
        self.require_time()
        if not self.stands():
            raise self._dead()

    def stands(self) -> bool:
        """Is it still there? A vacuum takes away what it takes for done with."""
        there = _intent_at(self.notes, self.slot)
        return there is not None and there.run_id == self.intent.run_id

    def require_time(self) -> None:
        """Before each write: what is written later than this, no vacuum would look for. Raises Rejected."""
        if self.clock.now_ms() >= self.intent.dies_ms():
            raise self._dead()

    def _dead(self) -> Rejected:
        return Rejected(
            f"run {self.intent.run_id} took longer than vacuum.intent-timeout-hours, or its registration is gone: "
            "a vacuum may have taken away what it wrote, so nothing was committed. Run again, or raise the timeout"
        )

    def note(self, **changed: Any) -> None:
        """Change what is registered."""
        self.intent = replace(self.intent, **changed)
        self.notes.replace(self.slot, self.intent.to_json())

    def close(self) -> None:
        """Take the intent away; leave it, as ended, where files may have been left."""
        with suppress(Exception):  # the work is done; what stays registered is settled by the next vacuum
            if not self.stands():
                return  # taken for dead: the slot may be somebody else's by now
            if self.clean:
                self.notes.remove(self.slot)
            else:
                self.note(ended=True)


def register(notes: Notes, table: str, intent: Intent, clock: Clock) -> Registration:
    """Register in the first free slot. Raises AdapterError where none is free or the storage does not answer."""
    text = intent.to_json()
    free = range(SLOTS) if intent.kind != VACUUM else (*range(SLOTS, SLOTS + VACUUMS), *range(SLOTS))
    place = claim(notes, map(_slot, free), text)
    ended = (
        [(there.at_ms, slot) for slot, there in registered(notes).items() if there.ended] if not place else []
    )
    if ended and intent.kind != VACUUM:
        # Nobody works under it any more; what that run left is an orphan from now on, and no run is locked out.
        place = min(ended)[1]
        notes.replace(place, text)
    if place:
        return Registration(notes, place, intent, clock)
    raise AdapterError(
        f"{table}: {SLOTS} runs are registered as at work on it, nothing was written. Some of them were killed, or "
        "failed and left files: run vacuum, which settles those that are older than vacuum.intent-timeout-hours"
    )


@contextmanager
def at_work(
    adapter: Adapter[Any],
    run_id: str,
    read_version: int | None,
    folders: Sequence[str],
    clock: Clock,
    timeout_ms: int,
) -> Iterator[Registration]:
    """Around whatever writes files: registered while it lasts, and after a crash."""
    intent = Intent(run_id, _REWRITE, clock.now_ms(), read_version, tuple(folders), timeout_ms=timeout_ms)
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


def registered(notes: Notes) -> Mapping[str, Intent]:
    """Slot → intent, of all who are registered. Raises AdapterError where the storage does not answer."""
    texts = filled(notes, map(_slot, range(SLOTS + VACUUMS)))
    return {place: intent for place, text in texts if (intent := read_intent(text)) is not None}


def unregister(notes: Notes, slot: str, intent: Intent) -> None:
    """Take an intent away that is done with, unless it has changed, or the slot is somebody else's by now."""
    if _intent_at(notes, slot) == intent:
        notes.remove(slot)


def list_of(run_id: str) -> str:
    """The stem of the notes that list what a vacuum is to delete; as many as its intent has ``parts``."""
    return f"vacuum/{run_id}/list"


def _intent_at(notes: Notes, slot: str) -> Intent | None:
    text = notes.read(slot)
    return read_intent(text) if text else None


def _slot(number: int) -> str:
    return slot_note("intents", number)
