"""Rows that were deleted from a table of the memory lake, and how they are restored."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from lakekeeper.core.model.block_changes import differing
from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.run_folders import run_folder
from lakekeeper.errors import Rejected, Unsupported
from lakekeeper.spi import Commit, Held, Prepared
from lakekeeper.testing.deletes import fresh
from lakekeeper.testing.values import Row
from lakekeeper.testing.versions import ROW_ID, DataFile, Schema

if TYPE_CHECKING:
    from lakekeeper.testing.memory import MemoryAdapter, Parts


class MemoryRestores:
    """``lakekeeper.spi.Restores[Parts]`` over the table of a :class:`MemoryAdapter`."""

    def __init__(self, adapter: MemoryAdapter) -> None:
        self._adapter = adapter
        self._store = adapter.store

    def descendant_of(self, version: int) -> int | None:
        """The version: a RESTORE adds one to the log."""
        return version

    def around(self, version: int, where: str, later: int) -> tuple[Snapshot, Snapshot]:
        """The version before the given one, if all of its files exist, and that one: the files that it changed."""
        self._refuse_returned(version)
        then = self._adapter.seen(self._store.readable(version - 1), where=where)
        after = self._adapter.seen(self._store.readable(version), where=where)
        return differing(then, after)

    def copy(self, hits: Held[Parts] | None, whole: Collection[str], then: Snapshot, run_id: str) -> Prepared:
        """The rows in new files, under ids of their own."""
        was, now = self._store.version(then.version), self._store.current
        lost = _lost(was.schema, now.schema)
        if lost:
            raise Unsupported(
                self._adapter.table, lost, "rows cannot be restored as they were; nothing was written"
            )
        dead = {path: [row["position"] for row in part] for path, part in _by_file(hits).items()}
        rows = [was.files[path].file.rows[i] for path, at in dead.items() for i in at]
        rows += [row for path in whole for row in was.files[path].live]
        self._store.touched.data_reads += [*dead, *whole]
        by_place: dict[str, list[Row]] = {}
        for row in rows:
            by_place.setdefault(now.partition(row), []).append({**row, ROW_ID: self._store.next_row()})
        run = run_folder(then.table_uuid, run_id)
        files = [self._store.write_file(now, part, run=run) for part in by_place.values()]
        return Prepared(
            {f.path: len(f.rows) for f in files}, tuple(f.path for f in files), (was.schema, files)
        )

    def keep(self, copies: Prepared) -> bool:
        """Whether the copies are still valid: all of their columns exist."""
        schema, _ = copies.native
        return not _lost(schema, self._store.current.schema)

    def commit(self, copies: Prepared, since: int, run_id: str) -> Commit:
        """One attempt to commit, with the faults and races of the adapter."""
        fault = self._adapter.attempt()
        with self._store.lock:
            later = self._store.versions[since + 1 :]
            if any(version.number in self._store.expired for version in later):
                raise Rejected(f"{self._adapter.table}: versions since {since} expired")
            done = next((version.number for version in later if version.run_id == run_id), None)
            if done is not None:
                return Commit(done, run_id, (), ())
            self._refuse_returned(since)
            files: list[DataFile] = copies.native[1]
            added = {file.path: fresh(file) for file in files}
            number = self._store.apply(
                "WRITE", lambda now: replace(now, files={**now.files, **added}), run_id
            )
        self._adapter.answer(fault)
        return Commit(number, run_id, (), tuple(added))

    def _refuse_returned(self, since: int) -> None:
        later = self._store.versions[since + 1 :]
        if any(each.operation == "RESTORE" for each in later):
            raise Unsupported(
                self._adapter.table,
                "a RESTORE after the drop",
                "its rows may be in the table; nothing was written",
            )


def _by_file(hits: Held[Parts] | None) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in (row for part in (hits.hits if hits else ()) for row in part):
        found.setdefault(row["file"], []).append(row)
    return found


def _lost(was: Schema, now: Schema) -> str:
    """A column whose values cannot be restored, and why; empty if there is none."""
    kinds = {column.field_id: column.kind for column in now.columns}
    for column in was.columns:
        name = ".".join(column.path)
        if column.field_id not in kinds:
            return f"column {name}, which was dropped"
        if kinds[column.field_id] != column.kind:
            return f"column {name}, whose type was changed"
    return ""
