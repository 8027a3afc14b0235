"""Put things into the trash: an entry in a free slot, and the files of a vacuum in the entry's folder."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from lakekeeper.core.config.options import Options
from lakekeeper.core.model.run_folders import folders_of_run
from lakekeeper.core.vacuum.path_guard import below, trash_folder, within
from lakekeeper.core.vacuum.vacuum_plan import Doomed, VacuumPlan
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.state.note_slots import claim, filled, in_parts, take_over, write_parts
from lakekeeper.engine.trash.empty import empty
from lakekeeper.engine.trash.entries import SLOTS, TrashEntry, moves_note, parsed, remove_moves, slots
from lakekeeper.errors import AdapterError, LakekeeperError
from lakekeeper.spi import Adapter
from lakekeeper.spi.storage import Storage


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
        write_parts(self.adapter.notes, moves_note(self.name), parts)
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
                remove_moves(self.adapter.notes, entry)
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
    if (slot := claim(adapter.notes, slots(), text)) is not None:
        return slot
    vacuum = options.vacuum
    with suppress(LakekeeperError):  # the error below says more about this call
        for _ in empty(adapter, vacuum.trash_retention_ms, entry.at_ms, vacuum.allowed_locations):
            pass
    if (slot := claim(adapter.notes, slots(), text)) is not None:
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
    for slot, text in filled(adapter.notes, slots()):
        entry = parsed(text)
        if entry is None or now_ms < entry.expires_ms(keep_ms):
            continue
        if not adapter.storage.same_table(entry.table_uuid, entry.version):
            found.append((entry.kind == "files", entry.at_ms, slot, text))
    return [(slot, text) for _, _, slot, text in sorted(found)]
