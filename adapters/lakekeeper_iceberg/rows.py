"""``IcebergRows``: row-level operations of one table: finds deleted rows, their new positions, and deletes rows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame

from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.run_folders import run_folder
from lakekeeper.core.planning.changes import Changes
from lakekeeper.core.planning.rewrites import Rewrite
from lakekeeper.errors import Conflict, NotFound, reason
from lakekeeper.spi import Commit, Followed, Held, Lost, Places, Prepared, Remains, Tidied, Traces
from lakekeeper_iceberg import delete_files, row_delete, staging
from lakekeeper_iceberg.block_refresh import LISTED, Listed
from lakekeeper_iceberg.commit import change_rows, preparing, winner_of, won_by
from lakekeeper_iceberg.commit_attempts import Attempts
from lakekeeper_iceberg.delete_files import Choice
from lakekeeper_iceberg.lost_rows import Scans
from lakekeeper_iceberg.native import Iceberg
from lakekeeper_iceberg.planning import Planner, files_that_all_match, scan_that_may_match
from lakekeeper_iceberg.position_deletes import format_version
from lakekeeper_iceberg.replay import Replays
from lakekeeper_iceberg.row_delete import Preparation

_CHOICE = "delete files"  # name in a snapshot's memo: what to do with its delete files


@dataclass(slots=True)
class IcebergRows:
    """Implements ``spi.RowDeletes``.

    ``table()`` returns the current table object, ``winners`` the commits since a snapshot (without reading file
    changes), ``attempts`` the recorded commit attempts of a run, and ``lock`` the lock that commits to the table with a
    given uuid hold.
    """

    jvm: Iceberg
    name: str
    planner: Planner
    replays: Replays
    table: Callable[[], Any]
    winners: Callable[[Snapshot], Changes]
    attempts: Callable[[str], Attempts]
    lock: Callable[[str], AbstractContextManager[Any]]
    _found: dict[int, tuple[DataFrame, Scans]] = field(default_factory=dict)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def compared(
        self, rewrite: Rewrite, snapshot: Snapshot, changes: Changes, files: Sequence[str]
    ) -> Followed | None:
        return self.replays.compared(rewrite, changes, files)

    def remains(
        self, rewrite: Rewrite, snapshot: Snapshot, changes: Changes, files: Sequence[str]
    ) -> Remains[DataFrame] | None:
        return self.replays.remains(rewrite, changes, files)

    def lost(
        self, rewrite: Rewrite, snapshot: Snapshot, changes: Changes, followed: Followed | None = None
    ) -> Lost:
        return self.replays.lost(rewrite, snapshot, changes, followed)

    def places(self, lost: Lost) -> Places | None:
        return self.replays.places(lost)

    def traces(self, lost: Lost) -> Traces[DataFrame]:
        return self.replays.traces(lost)

    def mask(self, lost: Lost, hits: DataFrame | Places) -> Rewrite:
        return self.replays.mask(lost, hits)

    def covered(self, snapshot: Snapshot, where: str, paths: Collection[str] | None = None) -> frozenset[str]:
        wanted = snapshot.blocks.path.to_pylist() if paths is None else list(paths)
        if not wanted or snapshot.version is None:
            return frozenset()
        few = self.planner.matched(snapshot.version, where, snapshot.schema_id)
        return files_that_all_match(self.jvm, self.table_at(snapshot), where, wanted, few)

    def find(self, snapshot: Snapshot, where: str, paths: Collection[str] | None = None) -> DataFrame:
        scans = Scans(self.jvm, self.table_at(snapshot), self.name)
        try:
            found = self._find(scans, snapshot, where, paths)
        except BaseException:
            scans.free()
            raise
        with self._guard:
            self._found[id(found)] = found, scans
        return found

    def release(self, found: DataFrame) -> None:
        with self._guard:
            _, scans = self._found.pop(id(found), (found, None))
        if scans is not None:
            scans.free()

    def _find(self, scans: Scans, snapshot: Snapshot, where: str, paths: Collection[str] | None) -> DataFrame:
        wanted = snapshot.blocks.path.to_pylist() if paths is None else list(paths)
        tasks: list[Any] = []
        if wanted and snapshot.version is not None:
            index = self.planner.matched(snapshot.version, where, snapshot.schema_id)
            if index is None:
                index = self.jvm.chosen(scan_that_may_match(self.jvm, scans.table, where), wanted)
            tasks = [task for path in wanted if (task := index.get(path)) is not None]
        return scans.of(tasks).rows.where(where).selectExpr("_file AS file", "_pos AS position")

    def prepare(
        self, hits: Held[DataFrame] | None, whole: Collection[str], snapshot: Snapshot, run_id: str
    ) -> Prepared:
        table = self.table_at(snapshot)
        run = run_folder(snapshot.table_uuid, run_id)
        return Preparation(self.jvm, self.name, table, self.planner, snapshot, run).prepare(hits, whole)

    def keep(self, prepared: Prepared, paths: Collection[str], snapshot: Snapshot) -> Prepared:
        return row_delete.keep(prepared, paths, format_version(self.table()))

    def delete(self, prepared: Sequence[Prepared], snapshot: Snapshot, run_id: str, where: str) -> Commit:
        if snapshot.version is None or not any(each.rows for each in prepared):
            return Commit(-1 if snapshot.version is None else snapshot.version, run_id, (), ())
        with preparing(self.name):
            seen = self.winners(snapshot)
            if seen.obstacle:
                raise Conflict(f"{self.name}: {seen.obstacle}", winner_of(seen))
            table, searched = self.table_at(snapshot), snapshot.version
            change = row_delete.change_of(self.jvm, self.name, table, prepared, searched, run_id, where)
        with self.lock(snapshot.table_uuid):
            try:
                attempts = self.attempts(run_folder(snapshot.table_uuid, run_id))
                done = change_rows(self.jvm, self.table(), self.name, change, attempts)
            except Conflict as error:
                raise won_by(error, lambda: self.winners(snapshot)) from error
        removed = tuple(str(file.location()) for file in change.removed)
        added = tuple(dict.fromkeys(path for each in prepared for path in each.written))
        return Commit(done.version, run_id, removed, added, done.removed_delete_files)

    def discard(self, prepared: Sequence[Prepared]) -> None:
        staging.delete_own(
            self.jvm, self.table(), dict.fromkeys(path for each in prepared for path in each.written)
        )

    def may_tidy(self, snapshot: Snapshot) -> bool:
        return bool(self._choice(snapshot))

    def tidy(self, snapshot: Snapshot, run_id: str) -> Tidied:
        with preparing(self.name):
            todo, pinned = self._choice(snapshot), self._pinned(snapshot)
        attempts = self.attempts(run_folder(snapshot.table_uuid, run_id))
        lock = self.lock(snapshot.table_uuid)
        return delete_files.tidy(self.jvm, pinned, self.table(), self.name, todo, run_id, attempts, lock)

    def _choice(self, snapshot: Snapshot) -> Choice:
        """What to do with the delete files of a snapshot, found out once."""
        known: Choice | None = snapshot.memo.get(_CHOICE)
        if known is None:
            kept: Listed | None = snapshot.memo.get(LISTED)
            known = delete_files.choice(self.jvm, self._pinned(snapshot), kept.listing if kept else None)
            snapshot.memo[_CHOICE] = known
        return known

    def _pinned(self, snapshot: Snapshot) -> Any:
        """A table object fixed at the snapshot. Raises Conflict if it has expired."""
        try:
            return self.table_at(snapshot)
        except NotFound as gone:
            raise Conflict(str(gone)) from gone

    def table_at(self, snapshot: Snapshot) -> Any:
        """The table at a snapshot, with the schema of that read. Raises NotFound if the snapshot has expired."""
        schema = int(snapshot.schema_id.partition("/")[0])
        try:
            if snapshot.version is None:
                return self.jvm.pinned(self.table())
            return self.jvm.as_of(self.table(), snapshot.version, schema)
        except Exception as error:
            raise NotFound(
                self.name, f"snapshot {snapshot.version} can no longer be read ({reason(error)})"
            ) from error
