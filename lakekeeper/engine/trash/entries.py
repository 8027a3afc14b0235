"""The trash of a table: files that a vacuum moved aside, and dropped partitions, until they expire.

    vacuum(trash=True)   file ─► _lakekeeper/trash/<run>/<path below the table>     restore: back again
    drop_partition       rows leave by a commit; the version before it is kept      restore: its rows are put in again

Meanwhile, versions stay in the metadata, on both formats: they can be read again once the files are back. Each entry
has a slot of its own, so that the trash is read without a listing.

Others may write notes too, and tables may share a folder: a table sees the entries that carry its own uuid, and a
move in a note counts only if it leads from a place of the table's files into the entry's own folder.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from typing import Any
from urllib.parse import unquote

from lakekeeper.core.config.options import Options
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.model.run_folders import folders_of_run, is_name
from lakekeeper.core.text.formatting import counted, size
from lakekeeper.core.vacuum.path_guard import below, refusal, trash_folder, within
from lakekeeper.core.vacuum.retention import Versions, require_allowed
from lakekeeper.core.vacuum.vacuum_plan import Doomed, VacuumPlan
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.state.leases import VACUUM, Intent, list_of, register, registered, unlist
from lakekeeper.engine.state.note_slots import (
    claim,
    filled,
    in_parts,
    part,
    slot_note,
    take_over,
    write_parts,
)
from lakekeeper.errors import MALFORMED, AdapterError, LakekeeperError, NotFound, RetentionError
from lakekeeper.spi import Adapter, Notes
from lakekeeper.spi.storage import Storage

SLOTS = 64
_MOST_PARTS = 5_000  # notes of 20,000 moves each
CURSOR = "vacuum/cursor.json"
"""The note of the version that the last vacuum went through."""
PENDING, DROPPED, RESTORING = "pending", "dropped", "restoring"
"""States of a dropped partition, see :mod:`lakekeeper.engine.trash.drop_partition`."""
KEPT = "kept"
"""The state of an entry that :func:`empty` could not empty, in its result only."""


@dataclass(frozen=True, slots=True)
class TrashEntry:
    """One thing in the trash. ``kind``: ``files`` (a vacuum's) or ``partition`` (rows that ``where`` means).

    ``version`` is the one that was current on the table ``table_uuid``; a partition's rows are read from it. ``parts``
    are notes of moves.

    Of a partition: its ``state``, the ``run_id`` of the delete, the version that it made (``dropped``), the number of
    ``rows`` of its last attempt, and the version that was current when its restore began (``since``).
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
            counted(self.rows, "row")
            if self.kind == "partition"
            else f"{counted(self.files, 'file')}, {size(self.bytes)}"
        )
        return f"{self.name}  {self.put_at}  {self.what}  {amount}"


@dataclass(frozen=True, slots=True)
class _Move:
    """One file that goes to the trash. ``orphan``: no version and no run's folder has it; only its age condemned it.

    ``refused`` is why the file must not be moved back; empty if it may be. An operator may have allowed the vacuum a
    place that a later call does not allow: the file is in the trash all the same.
    """

    source: str
    target: str
    bytes: int
    orphan: bool
    refused: str = ""


@dataclass(slots=True)
class TrashFolder:
    """The files that one vacuum moves to the trash; the moves are recorded before the first one."""

    adapter: Adapter[Any]
    storage: Storage
    name: str
    options: Options
    clock: Clock
    _targets: dict[str, str] = field(default_factory=dict)

    def open(self, plan: VacuumPlan) -> None:
        """Record the moves. Raises as :func:`put`, and AdapterError if the notes cannot be written."""
        roots = self.storage.grounds.roots
        home = trash_folder(roots[0], self.name)
        for file in plan.files:
            # Files of different roots may have the same names below them.
            root = next(number for number, root in enumerate(roots) if within(file.path, root))
            self._targets[file.path] = posixpath.join(
                home, str(root), below(file.path, roots[root : root + 1])
            )
        sizes = {file.path: file.bytes for file in plan.files}
        orphans = {
            file.path for file in plan.files if file.kind == "orphan" and not folders_of_run(file.path)
        }
        moves = [
            [source, target, sizes[source], source in orphans] for source, target in self._targets.items()
        ]
        parts = in_parts(moves)
        write_parts(self.adapter.notes, _moves_of(self.name), parts)
        entry = TrashEntry(
            self.name,
            "files",
            self.clock.now_ms(),
            plan.version,
            files=len(plan.files),
            bytes=plan.bytes,
            parts=len(parts),
            table_uuid=plan.table_uuid,
        )
        if _taken(self.adapter, entry, self.options) is None:
            # No slot names them. After an error they stay: the entry may have been written.
            with suppress(Exception):
                _remove_moves(self.adapter.notes, entry)
            raise _full(self.adapter)

    def take(self, files: Sequence[Doomed]) -> list[str]:
        """Move files to the trash; returns the sources that are in it now."""
        return self.storage.move({file.path: self._targets[file.path] for file in files})


def put(adapter: Adapter[Any], entry: TrashEntry, options: Options) -> str:
    """Write an entry to a free slot, and return the slot. If none is free, delete the expired entries first.

    Raises AdapterError if no slot becomes free.
    """
    slot = _taken(adapter, entry, options)
    if slot is None:
        raise _full(adapter)
    return slot


def _taken(adapter: Adapter[Any], entry: TrashEntry, options: Options) -> str | None:
    """The slot that has the entry now; None if none became free, so that the entry was certainly not written."""
    text = json.dumps(asdict(entry))
    if (slot := claim(adapter.notes, _slots(), text)) is not None:
        return slot
    vacuum = options.vacuum
    with suppress(LakekeeperError):  # the error below says more about this call
        for _ in empty(adapter, vacuum.trash_retention_ms, entry.at_ms, vacuum.allowed_locations):
            pass
    if (slot := claim(adapter.notes, _slots(), text)) is not None:
        return slot
    for slot, there in _of_former_tables(adapter, vacuum.trash_retention_ms, entry.at_ms):
        if take_over(adapter.notes, slot, there, text):
            return slot
    return None


def _full(adapter: Adapter[Any]) -> AdapterError:
    return AdapterError(
        f"{adapter.table}: the trash holds {SLOTS} entries, none of which may be deleted yet; nothing was deleted. "
        "Restore some, or delete them for good with empty_trash(all_entries=True); or call without the trash: "
        "vacuum(trash=False), drop_partition(force=True)"
    )


def _of_former_tables(adapter: Adapter[Any], keep_ms: int, now_ms: int) -> list[tuple[str, str]]:
    """Slots of expired entries of tables that this one has replaced, each with its text: first those without files.

    No call empties them any more.
    """
    found = []
    for slot, text in filled(adapter.notes, _slots()):
        entry = _parsed(text)
        if entry is None or now_ms < entry.expires_ms(keep_ms):
            continue
        if not adapter.storage.same_table(entry.table_uuid, entry.version):
            found.append((entry.kind == "files", entry.at_ms, slot, text))
    return [(slot, text) for _, _, slot, text in sorted(found)]


def change(notes: Notes, slot: str, entry: TrashEntry, changed: TrashEntry) -> None:
    """Record an entry's new state, unless its slot has changed: then another call has continued with it."""
    if _parsed(notes.read(slot)) == entry:
        notes.replace(slot, json.dumps(asdict(changed)))


def entries(adapter: Adapter[Any]) -> dict[str, TrashEntry]:
    """Slot → entry of this table, oldest first."""
    storage = adapter.storage
    return {
        slot: entry
        for slot, entry in _all_entries(adapter.notes).items()
        if storage.same_table(entry.table_uuid, entry.version)
    }


def _all_entries(notes: Notes) -> dict[str, TrashEntry]:
    """Slot → entry of any table, oldest first; entries that no run of lakekeeper could have written are left out."""
    found = {}
    for place, text in filled(notes, _slots()):
        if (entry := _parsed(text)) is not None:
            found[place] = entry
    return dict(sorted(found.items(), key=lambda item: (item[1].at_ms, item[1].name)))


def count_held(notes: Notes, keep_ms: int, now_ms: int) -> int:
    """The number of entries of any table that may not be deleted yet."""
    return sum(now_ms < entry.expires_ms(keep_ms) for entry in _all_entries(notes).values())


def held_versions(notes: Notes, versions: Versions, keep_ms: int, now_ms: int) -> dict[int, Reason]:
    """Versions from which dropped partitions are restored, until the trash expires; to hold one too many is safe.

    These are the one before each drop and the drop itself: a restore compares the two.
    For a drop whose outcome is not known yet, these are all versions since it began: it is based on one of them. For a
    restore, they are those since the drop: one of them may have its rows, and after a rollback to a version before the
    restore began, only the versions since the drop show whether one has.
    """
    held: dict[int, Reason] = {}
    times = {item.id: item.at_ms for item in versions.items}
    for entry in _all_entries(notes).values():
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


def entries_with(adapter: Adapter[Any], paths: Collection[str]) -> list[str]:
    """Names of the entries that hold files of these paths, as commits spell them; entries in doubt are left out.

    Files are found wherever they were: those of places that this call does not allow are not deleted either.
    """
    ends = tuple(
        f"/{spelling}" for path in paths for spelling in (path.lstrip("/"), unquote(path).lstrip("/"))
    )
    found = []
    for entry in entries(adapter).values():
        with suppress(AdapterError):
            moves = _moves(adapter, adapter.storage, entry) if entry.kind == "files" else []
            if any(f"/{move.source}".endswith(ends) for move in moves):
                found.append(entry.name)
    return found


def restore_files(adapter: Adapter[Any], name: str, now_ms: int, locations: Sequence[str] = ()) -> TrashEntry:
    """Move an entry's files back to their original paths; returns it with the files that were moved.

    Files that are back already stay. ``locations`` are the places outside the table's own that an operator allows.
    Raises NotFound, and AdapterError if some files are still in the trash, or a vacuum still moves files into it: the
    entry is then kept. If one file must not be moved to its place, none is: only the entry shows where they belong.
    """
    slot, entry = find(adapter, name)
    # Before the moves: a vacuum may end while they go on.
    intents = registered(adapter.notes)
    filling = entry.name in being_filled(adapter.notes, intents, now_ms)
    storage = adapter.storage.allowing(locations)
    moves = _moves(adapter, storage, entry)
    _require_places(adapter.table, entry, moves)
    back = {move.target: move.source for move in moves}
    _hint(adapter, entry, [move.source for move in moves if not move.orphan])
    held = [target for target, info in zip(back, storage.look([*back]), strict=True) if info is not None]
    done = set(storage.move(back)) if back else set()
    left = [target for target in back if target not in done]
    there = dict(zip(left, storage.look([back[target] for target in left]), strict=True))
    missing = [target for target in left if there[target] is None]
    if missing:
        raise AdapterError(
            f"{adapter.table}: {len(missing):,} of {len(back):,} files could not be moved back ({missing[0]}); the "
            "others are back, and the entry is kept. Run the restore again"
        )
    if filling:
        raise AdapterError(
            f"{adapter.table}: a vacuum may still move files into '{entry.name}'; the files that were in it are back, "
            "and the entry is kept. Run the restore again when the vacuum has ended, or once "
            "vacuum.intent-timeout-hours have passed if it was killed"
        )
    # They are garbage again, and the next vacuum must find them, whatever a vacuum in progress records at its end.
    _reset_cursor(adapter.notes)
    for place, intent in intents.items():
        if intent.run_id == entry.name:  # the vacuum ended early; its list is replaced by the hint
            unlist(adapter.notes, place, intent)
    _forget(adapter.notes, slot, entry)
    moved = done.intersection(held)
    return replace(entry, files=len(moved), bytes=sum(move.bytes for move in moves if move.target in moved))


def _require_places(table: str, entry: TrashEntry, moves: Sequence[_Move]) -> None:
    """Raise AdapterError if a file of an entry must not be moved to its place."""
    barred = [move for move in moves if move.refused]
    if barred:
        raise AdapterError(
            f"{table}: the trash entry '{entry.name}' cannot be restored: {len(barred):,} of its {len(moves):,} files "
            f"belong to places where this call must not write ({barred[0].source}: {barred[0].refused}). Nothing was "
            "moved, and the entry is kept. Allow these places with vacuum.allowed-locations, as for the vacuum that "
            "moved the files"
        )


def being_filled(notes: Notes, intents: Mapping[str, Intent], now_ms: int) -> set[str]:
    """Names of the entries into which a vacuum may still move files; each was registered before its entry existed."""
    runs = {run.run_id for run in intents.values() if run.deletes(0, now_ms)}
    found = _all_entries(notes).values() if runs else ()
    return {entry.name for entry in found if entry.kind == "files" and entry.name in runs}


def _reset_cursor(notes: Notes) -> None:
    """Let the next vacuum read the whole log. The backlog stays: only it lists files whose commits the log has lost."""
    with suppress(*MALFORMED):
        cursor = json.loads(notes.read(CURSOR) or "")
        if cursor["parts"]:
            notes.replace(CURSOR, json.dumps({**cursor, "through": None}))
            return
    notes.remove(CURSOR)


def _hint(adapter: Adapter[Any], entry: TrashEntry, paths: Sequence[str]) -> None:
    """List the restored files for the next vacuum: the log may have forgotten which of its commits removed them.

    Orphans are not among them, nor in the list of a vacuum that has ended early: their writer may yet commit them, so
    that only a search for orphans, which looks at their age, may delete them.
    """
    parts = in_parts(paths)
    run_id = f"{entry.name}-back"  # the vacuum that moved them may still be running, with a list of its own
    of_entry = (entry.at_ms, entry.table_uuid, entry.version)
    intent = Intent(run_id, VACUUM, *of_entry, ended=True, parts=len(parts))
    with suppress(AdapterError):  # no slot is free: the log then explains all that it has not forgotten
        register(adapter.notes, adapter.table, intent, Clock())
        write_parts(adapter.notes, list_of(run_id), parts)


def empty(
    adapter: Adapter[Any],
    keep_ms: int | None,
    now_ms: int,
    locations: Sequence[str] = (),
    *,
    dropped: bool = False,
) -> Iterator[TrashEntry]:
    """Delete entries older than ``keep_ms`` (None: all of them); yields each with what was deleted.

    An entry with a file that could not be deleted, or into which a vacuum may still move files, is returned with what
    was deleted of it and the state ``KEPT``, and is kept. ``locations`` as in :func:`restore_files`. Raises
    RetentionError where the table's files may belong to others and, after all other entries, for those with files that
    a live version reads or whose places are not allowed (unless ``dropped``: the table itself goes); AdapterError where
    the log or the storage does not answer.
    """
    storage = adapter.storage.allowing(locations)
    kept: dict[str, str] = {}
    due = {
        slot: entry
        for slot, entry in entries(adapter).items()
        if keep_ms is None or now_ms >= entry.expires_ms(keep_ms)
    }
    filling = being_filled(adapter.notes, registered(adapter.notes), now_ms) if due else set()
    for slot, entry in due.items():
        moves = _moves(adapter, storage, entry)
        doomed = [Doomed(move.target, "trash", move.bytes, entry.version) for move in moves]
        found = storage.look([file.path for file in doomed])
        there = [file for file, info in zip(doomed, found, strict=True) if info is not None and not info.link]
        named = set()
        if there:
            versions = storage.versions(None)
            require_allowed(adapter.table, versions)
            named = storage.named(versions, [file.path for file in there])
            left = {file.path for file in there}
            in_trash = [move for move in moves if move.target in left]
            if not dropped and (why := _why_kept(entry, storage, versions, in_trash)):
                kept[entry.name] = why  # whole: without its other files, it could not be restored
                continue
        gone = set(storage.delete([file for file in there if file.path not in named])) if there else set()
        size = sum(file.bytes for file in there if file.path in gone)
        emptied = len(gone) == len(there) and entry.name not in filling
        if emptied:
            _forget(adapter.notes, slot, entry)
        yield replace(entry, files=len(gone), bytes=size, state=entry.state if emptied else KEPT)
    if kept:
        raise RetentionError(f"{adapter.table}: entries of the trash were kept: {'; '.join(kept.values())}")


def _why_kept(entry: TrashEntry, storage: Storage, versions: Versions, moves: Sequence[_Move]) -> str:
    """Why an entry must be kept for these files, which are in the trash; empty if it may go."""
    barred = [move for move in moves if move.refused]
    if barred:
        return (
            f"'{entry.name}' has {counted(len(barred), 'file')} of places that this call does not allow "
            f"({barred[0].source}: {barred[0].refused}). Allow these places with vacuum.allowed-locations, as for the "
            "vacuum that moved the files"
        )
    missed = _missed(storage, versions, [move.source for move in moves])
    if not missed:
        return ""
    return (
        f"'{entry.name}' has {counted(len(missed), 'file')} without which the current version, a branch or a tag "
        f"cannot be read ({min(missed)}). Restore it: restore('{entry.name}') (on the command line: lakekeeper trash "
        "restore)"
    )


def _missed(storage: Storage, versions: Versions, sources: Sequence[str]) -> set[str]:
    """Those of ``sources`` that a live version reads and that are missing.

    No format checks the files of a version that a rollback, a branch or a tag makes live again.
    """
    live = sorted(storage.live(versions, sources))
    return {path for path, info in zip(live, storage.look(live), strict=True) if info is None}


def forget(adapter: Adapter[Any], name: str) -> None:
    """Remove an entry that needs no file in the trash any more."""
    _forget(adapter.notes, *find(adapter, name))


def forget_at(notes: Notes, slot: str, entry: TrashEntry) -> None:
    """Remove an entry as :func:`forget` does, unless its slot has changed: then another call has done so."""
    there = _parsed(notes.read(slot))
    if there is not None and there.name == entry.name:
        _forget(notes, slot, entry)


def _parsed(text: str | None) -> TrashEntry | None:
    """The entry in a note; None for one that is missing or malformed."""
    with suppress(*MALFORMED):
        return _entry(json.loads(text or ""))
    return None


def _entry(plain: Mapping[str, Any]) -> TrashEntry:
    """An entry from plain JSON data. Raises an error of ``MALFORMED`` for anything else."""
    numbers = {name: int(plain[name]) for name in ("at_ms", "version", "files", "bytes", "parts")}
    numbers |= {name: int(plain.get(name, 0)) for name in ("dropped", "rows", "since")}
    texts = {name: plain[name] for name in ("name", "kind", "where", "table_uuid")}
    texts |= {name: plain.get(name, "") for name in ("state", "run_id")}
    if not all(isinstance(text, str) for text in texts.values()) or not is_name(texts["name"]):
        raise ValueError(plain)
    if texts["kind"] not in ("files", "partition") or not 0 <= numbers["parts"] <= _MOST_PARTS:
        raise ValueError(plain)
    return TrashEntry(**{**texts, **numbers})  # checked just now, by their names


def _moves(adapter: Adapter[Any], storage: Storage, entry: TrashEntry) -> list[_Move]:
    """The moves that an entry's notes list into its own folder, which no forged note can lead out of."""
    grounds = storage.grounds
    home = trash_folder(grounds.roots[0], entry.name)
    moves: list[_Move] = []
    for number in range(entry.parts):
        text = adapter.notes.read(part(_moves_of(entry.name), number))
        try:
            listed = _listed(text)
        except MALFORMED as error:
            raise AdapterError(
                f"{adapter.table}: the trash entry '{entry.name}' can be neither restored nor emptied: the list of its "
                f"files is gone or damaged. Nothing was changed; the files are in {home}"
            ) from error
        moves += [
            replace(move, refused=refusal(move.source, grounds))
            for move in listed
            if within(move.target, home) and not refusal(move.target, grounds, "trash")
        ]
    return moves


def _listed(text: str | None) -> list[_Move]:
    """The moves in a note. Raises an error of ``MALFORMED`` for anything else."""
    plain = json.loads(text or "")
    if not isinstance(plain, list):
        raise TypeError(plain)
    return [
        _Move(str(source), str(target), int(size), any(orphan)) for source, target, size, *orphan in plain
    ]


def _forget(notes: Notes, slot: str, entry: TrashEntry) -> None:
    # The entry first: without its list, it could be neither restored nor emptied.
    notes.remove(slot)
    _remove_moves(notes, entry)


def _remove_moves(notes: Notes, entry: TrashEntry) -> None:
    for number in range(entry.parts):
        notes.remove(part(_moves_of(entry.name), number))


def _slots() -> Iterator[str]:
    return (slot_note("trash", number) for number in range(SLOTS))


def _moves_of(name: str) -> str:
    return f"trash/{name}/moves"
