"""The trash of a table: files that a vacuum moved aside, and dropped partitions, until they expire.

    vacuum(trash=True)   file ─► _lakekeeper/trash/<run>/<path below the table>     restore: back again
    drop_partition       rows leave by a commit; the version before it is kept      restore: its rows are put in again

Meanwhile, versions stay in the metadata, on both formats: they can be read again once the files are back. Each entry
has a slot of its own, so that the trash is read without a listing. Others may write notes too, and tables may share a
folder: a table sees the entries that carry its own uuid.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import Any

from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.model.run_folders import is_name
from lakekeeper.core.text.formatting import counted, size
from lakekeeper.core.vacuum.retention import Versions
from lakekeeper.engine.state.leases import Intent
from lakekeeper.engine.state.note_slots import filled, part, slot_note
from lakekeeper.errors import MALFORMED, NotFound
from lakekeeper.spi import Adapter, Notes

SLOTS = 64
_MOST_PARTS = 5_000  # notes of 20,000 moves each
PENDING, DROPPED, RESTORING = "pending", "dropped", "restoring"
"""States of a dropped partition, see :mod:`lakekeeper.engine.trash.drop_partition`."""
KEPT = "kept"
"""The state of an entry that could not be emptied, in the result of :func:`lakekeeper.engine.trash.empty.empty`."""


@dataclass(frozen=True, slots=True)
class TrashEntry:
    """One thing in the trash. ``kind``: ``files`` (a vacuum's) or ``partition`` (rows that ``where`` means).

    ``version`` is the one that was current on the table ``table_uuid``; a partition's rows are read from it. ``parts``
    are notes of moves.

    Of a partition: its ``state``, the ``run_id`` of the delete, the version that it made (``dropped``), the number of
    ``rows`` of its last attempt (0: unknown; an upper bound if ``fewer`` is 1), and the version that was current when
    its restore began (``since``).
    """

    name: str
    kind: str
    at_ms: int
    version: int
    files: int = 0
    bytes: int = 0
    where: str = ""
    parts: int = 0
    table_uuid: str = ""
    state: str = ""
    run_id: str = ""
    dropped: int = 0
    rows: int = 0
    fewer: int = 0
    since: int = 0

    def expires_ms(self, keep_ms: int) -> int:
        """When it may be deleted for good, if entries are kept for ``keep_ms``."""
        return self.at_ms + keep_ms

    @property
    def put_at(self) -> str:
        """The minute in which it was put into the trash, in UTC."""
        return f"{datetime.fromtimestamp(self.at_ms / 1000, timezone.utc):%Y-%m-%d %H:%M}"

    @property
    def what(self) -> str:
        """What it holds, with its state unless that is the usual one."""
        state = f" ({self.state})" if self.state not in ("", DROPPED) else ""
        return f"partition {self.where}{state}" if self.kind == "partition" else f"files of a vacuum{state}"

    def __str__(self) -> str:
        amount = (
            f"{'up to ' if self.fewer else ''}{counted(self.rows, 'row')}"
            if self.kind == "partition"
            else f"{counted(self.files, 'file')}, {size(self.bytes)}"
        )
        return f"{self.name}  {self.put_at}  {self.what}  {amount}"


def entries(adapter: Adapter[Any]) -> dict[str, TrashEntry]:
    """Slot → entry of this table, oldest first."""
    storage = adapter.storage
    return {
        slot: entry
        for slot, entry in entries_of_all_tables(adapter.notes).items()
        if storage.same_table(entry.table_uuid, entry.version)
    }


def entries_of_all_tables(notes: Notes) -> dict[str, TrashEntry]:
    """Slot → entry of any table, oldest first; entries that no run of lakekeeper could have written are left out."""
    found = {}
    for place, text in filled(notes, slots()):
        if (entry := parsed(text)) is not None:
            found[place] = entry
    return dict(sorted(found.items(), key=lambda item: (item[1].at_ms, item[1].name)))


def find(adapter: Adapter[Any], name: str) -> tuple[str, TrashEntry]:
    """Slot and entry of that name, or of a prefix that matches one entry. Raises NotFound."""
    known = entries(adapter)
    fits = [(slot, entry) for slot, entry in known.items() if entry.name.startswith(name)]
    if len(fits) == 1 and name:
        return fits[0]
    if fits and name:
        names = ", ".join(entry.name for _, entry in fits)
        raise NotFound(adapter.table, f"'{name}' matches several entries of the trash: {names}")
    names = ", ".join(entry.name for entry in known.values())
    held = f"it holds {names}" if names else "it is empty"
    raise NotFound(adapter.table, f"the trash has no entry '{name}'; {held}")


def count_held(notes: Notes, keep_ms: int, now_ms: int) -> int:
    """The number of entries of any table that may not be deleted yet."""
    return sum(now_ms < entry.expires_ms(keep_ms) for entry in entries_of_all_tables(notes).values())


def held_versions(notes: Notes, versions: Versions, keep_ms: int, now_ms: int) -> dict[int, Reason]:
    """Versions from which dropped partitions are restored, until the trash expires; to hold one too many is safe.

    These are the one before each drop and the drop itself: a restore compares the two.
    For a drop whose outcome is not known yet, these are all versions since it began: it is based on one of them. For a
    restore, they are those since the drop: one of them may have its rows, and after a rollback to a version before the
    restore began, only the versions since the drop show whether one has.
    """
    held: dict[int, Reason] = {}
    times = {item.id: item.at_ms for item in versions.items}
    for entry in entries_of_all_tables(notes).values():
        if entry.kind != "partition" or now_ms >= entry.expires_ms(keep_ms):
            continue
        reason = Reason.of(Code.IN_TRASH, entry=entry.name)
        held[entry.version] = reason  # 0 is a version of Delta, but no drop makes it
        if entry.dropped:
            held[entry.dropped] = reason
        unsettled = {PENDING: entry.version, RESTORING: entry.dropped}.get(entry.state)
        if unsettled is not None:
            began = times.get(unsettled) or 0
            held |= {item.id: reason for item in versions.items if item.at_ms is None or item.at_ms >= began}
    return held


def being_filled(notes: Notes, intents: Mapping[str, Intent], now_ms: int) -> set[str]:
    """Names of the entries into which a vacuum may still move files; each was registered before its entry existed."""
    runs = {run.run_id for run in intents.values() if run.deletes(0, now_ms)}
    found = entries_of_all_tables(notes).values() if runs else ()
    return {entry.name for entry in found if entry.kind == "files" and entry.name in runs}


def change(notes: Notes, slot: str, entry: TrashEntry, changed: TrashEntry) -> None:
    """Record an entry's new state, unless its slot has changed: then another call has continued with it."""
    if parsed(notes.read(slot)) == entry:
        notes.replace(slot, json.dumps(asdict(changed)))


def forget(adapter: Adapter[Any], name: str) -> None:
    """Remove an entry that needs no file in the trash any more."""
    _forget(adapter.notes, *find(adapter, name))


def forget_at(notes: Notes, slot: str, entry: TrashEntry) -> None:
    """Remove an entry as :func:`forget` does, unless its slot has changed: then another call has done so."""
    there = parsed(notes.read(slot))
    if there is not None and there.name == entry.name:
        _forget(notes, slot, entry)


def _forget(notes: Notes, slot: str, entry: TrashEntry) -> None:
    # The entry first: without its list, it could be neither restored nor emptied.
    notes.remove(slot)
    remove_moves(notes, entry)
    if entry.dropped:
        notes.remove(_later_note(entry))


def remove_moves(notes: Notes, entry: TrashEntry) -> None:
    """Remove the list of an entry's moves."""
    for number in range(entry.parts):
        notes.remove(part(moves_note(entry.name), number))


def later_of(notes: Notes, entry: TrashEntry) -> int | None:
    """The last version that a vacuum has seen to be made on top of the drop of an entry, if any."""
    text = notes.read(_later_note(entry)) or ""
    return int(text) if text.isdecimal() else None


def note_later(notes: Notes, entry: TrashEntry, version: int) -> None:
    """Record what :func:`later_of` returns; in a note of its own, since a restore may be changing the entry."""
    notes.replace(_later_note(entry), str(version))


def _later_note(entry: TrashEntry) -> str:
    return f"trash/{entry.name}/later"


def parsed(text: str | None) -> TrashEntry | None:
    """The entry in a note; None for one that is missing or malformed."""
    with suppress(*MALFORMED):
        return _entry(json.loads(text or ""))
    return None


def _entry(plain: Mapping[str, Any]) -> TrashEntry:
    """An entry from plain JSON data. Raises an error of ``MALFORMED`` for anything else."""
    numbers = {name: int(plain[name]) for name in ("at_ms", "version", "files", "bytes", "parts")}
    numbers |= {name: int(plain.get(name, 0)) for name in ("dropped", "rows", "fewer", "since")}
    texts = {name: plain[name] for name in ("name", "kind", "where", "table_uuid")}
    texts |= {name: plain.get(name, "") for name in ("state", "run_id")}
    if not all(isinstance(text, str) for text in texts.values()) or not is_name(texts["name"]):
        raise ValueError(plain)
    if texts["kind"] not in ("files", "partition") or not 0 <= numbers["parts"] <= _MOST_PARTS:
        raise ValueError(plain)
    return TrashEntry(**{**texts, **numbers})  # checked just now, by their names


def slots() -> Iterator[str]:
    """The notes that can hold an entry each."""
    return (slot_note("trash", number) for number in range(SLOTS))


def moves_note(name: str) -> str:
    """The note of an entry's moves, which is written in parts."""
    return f"trash/{name}/moves"
