"""The files of a trash entry: which file was moved where, in notes of the entry's own.

Others may write notes too: a list with a move that does not lead into the entry's own folder counts as damaged, and a
move back leads only to a place of the table's files. The paths are those of the time of the vacuum. The table's folder
may have another name since then, or another spelling:

    listed    file:/lake/t/_lakekeeper/trash/<entry>/…  ◄── file:/lake/t/x
    now       file:/lake/u/_lakekeeper/trash/<entry>/…  ──► file:/lake/u/x
"""

from __future__ import annotations

import json
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

from lakekeeper.core.vacuum.path_guard import Grounds, below, refusal, trash_folder, within
from lakekeeper.engine.state.note_slots import part
from lakekeeper.engine.trash.entries import TrashEntry, entries, moves_note
from lakekeeper.errors import MALFORMED, AdapterError
from lakekeeper.spi import Adapter
from lakekeeper.spi.storage import Storage


@dataclass(frozen=True, slots=True)
class Move:
    """One file that goes to the trash. ``orphan``: no version and no run's folder has it; only its age condemned it.

    ``refused`` is why the file must not be moved back; empty if it may be. An operator may have allowed the vacuum a
    place that a later call does not allow: the file is in the trash all the same.
    """

    source: str
    target: str
    bytes: int
    orphan: bool
    refused: str = ""


def moves_of(adapter: Adapter[Any], storage: Storage, entry: TrashEntry) -> list[Move]:
    """The moves that an entry's notes list. Raises AdapterError if a list is gone or damaged."""
    grounds = storage.grounds
    moves: list[Move] = []
    for number in range(entry.parts):
        text = adapter.notes.read(part(moves_note(entry.name), number))
        try:
            listed = [_here(move, entry.name, grounds) for move in _listed(text)]
        except MALFORMED as error:
            raise AdapterError(
                f"{adapter.table}: the trash entry '{entry.name}' can be neither restored nor emptied: the list of its "
                "files is gone or damaged. Nothing was changed; the files are in "
                f"{trash_folder(grounds.roots[0], entry.name)}"
            ) from error
        moves += [replace(move, refused=refusal(move.source, grounds)) for move in listed]
    return moves


def _here(move: Move, entry: str, grounds: Grounds) -> Move:
    """A listed move, in the folder that the table has now. Raises ValueError if it does not lead into the entry."""
    root = grounds.roots[0]
    before, _, name = move.target.partition(f"{trash_folder('', entry)}/")
    target = f"{trash_folder(root, entry)}/{name}"
    if not before or not name or refusal(target, grounds, "trash"):
        raise ValueError(move.target)
    if before == root or not within(move.source, before):
        return replace(move, target=target)
    return replace(move, target=target, source=f"{root}/{below(move.source, [before])}")


def _listed(text: str | None) -> list[Move]:
    """The moves in a note. Raises an error of ``MALFORMED`` for anything else."""
    plain = json.loads(text or "")
    if not isinstance(plain, list):
        raise TypeError(plain)
    return [Move(str(source), str(target), int(size), any(orphan)) for source, target, size, *orphan in plain]


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
            moves = moves_of(adapter, adapter.storage, entry) if entry.kind == "files" else []
            if any(f"/{move.source}".endswith(ends) for move in moves):
                found.append(entry.name)
    return found
