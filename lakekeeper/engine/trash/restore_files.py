"""Move the files of a trash entry back to their places."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from lakekeeper.engine.clock import Clock
from lakekeeper.engine.state import vacuum_cursor
from lakekeeper.engine.state.leases import VACUUM, Intent, list_of, register, registered, unlist
from lakekeeper.engine.state.note_slots import in_parts, write_parts
from lakekeeper.engine.trash.entries import TrashEntry, being_filled, find, forget_at
from lakekeeper.engine.trash.moves import Move, moves_of
from lakekeeper.errors import AdapterError
from lakekeeper.spi import Adapter


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
    moves = moves_of(adapter, storage, entry)
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
    vacuum_cursor.reset(adapter.notes)
    for place, intent in intents.items():
        if intent.run_id == entry.name:  # the vacuum ended early; its list is replaced by the hint
            unlist(adapter.notes, place, intent)
    forget_at(adapter.notes, slot, entry)
    moved = done.intersection(held)
    return replace(entry, files=len(moved), bytes=sum(move.bytes for move in moves if move.target in moved))


def _require_places(table: str, entry: TrashEntry, moves: Sequence[Move]) -> None:
    """Raise AdapterError if a file of an entry must not be moved to its place."""
    barred = [move for move in moves if move.refused]
    if barred:
        raise AdapterError(
            f"{table}: the trash entry '{entry.name}' cannot be restored: {len(barred):,} of its {len(moves):,} files "
            f"belong to places where this call must not write ({barred[0].source}: {barred[0].refused}). Nothing was "
            "moved, and the entry is kept. Allow these places with vacuum.allowed-locations, as for the vacuum that "
            "moved the files"
        )


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
