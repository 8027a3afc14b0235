"""Delete entries of the trash, and the files in them, for good."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from lakekeeper.core.text.formatting import counted
from lakekeeper.core.vacuum.retention import Versions, require_allowed
from lakekeeper.core.vacuum.vacuum_plan import Doomed
from lakekeeper.engine.state.leases import registered
from lakekeeper.engine.trash.entries import KEPT, TrashEntry, being_filled, entries, forget_at
from lakekeeper.engine.trash.moves import Move, moves_of
from lakekeeper.errors import RetentionError
from lakekeeper.spi import Adapter
from lakekeeper.spi.storage import Storage


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
    was deleted of it and the state ``KEPT``, and is kept. ``locations`` are the places outside the table's own that an
    operator allows. Raises RetentionError where the table's files may belong to others and, after all other entries,
    for those with files that a live version reads or whose places are not allowed (unless ``dropped``: the table
    itself goes); AdapterError where the log or the storage does not answer.
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
        moves = moves_of(adapter, storage, entry)
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
            forget_at(adapter.notes, slot, entry)
        yield replace(entry, files=len(gone), bytes=size, state=entry.state if emptied else KEPT)
    if kept:
        raise RetentionError(f"{adapter.table}: entries of the trash were kept: {'; '.join(kept.values())}")


def _why_kept(entry: TrashEntry, storage: Storage, versions: Versions, moves: Sequence[Move]) -> str:
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
