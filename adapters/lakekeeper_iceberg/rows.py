"""``IcebergRows``: single rows of one table. Which died, where they lie now, and how to delete them there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame

from lakekeeper.core.blocks import Snapshot
from lakekeeper.core.rebase import Changes, Output, Rewrite, applied_now
from lakekeeper.errors import AdapterError, Conflict, Rejected, Unknown, reason
from lakekeeper.spi import Commit, Held, Tidied, Traces
from lakekeeper_iceberg import staging, tidy
from lakekeeper_iceberg.commit import RowChange, change_rows
from lakekeeper_iceberg.masks import (
    Mask,
    Masked,
    by_file,
    format_version,
    leaves_with_file,
    unique,
    write_masks,
)
from lakekeeper_iceberg.native import Iceberg
from lakekeeper_iceberg.planning import Planner, scan_that_may_match
from lakekeeper_iceberg.traces import Scans, have_row_ids, traces_of


@dataclass(slots=True)
class IcebergRows:
    """Satisfies ``spi.RowDeletes``.

    ``table()`` is the table object at hand, ``changes`` is ``Adapter.changes_since``, and ``lock`` the lock of
    those who commit to a table of this uuid.
    """

    jvm: Iceberg
    name: str
    sql_name: str
    planner: Planner
    table: Callable[[], Any]
    changes: Callable[[Snapshot], Changes]
    lock: Callable[[str], AbstractContextManager[Any]]
    _traced: dict[str, Scans] = field(default_factory=dict)
    _found: dict[int, tuple[DataFrame, Scans]] = field(default_factory=dict)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def traces(self, rewrite: Rewrite, snapshot: Snapshot, changes: Changes) -> Traces[DataFrame]:
        scans = Scans(self.jvm, self.jvm.pinned(self.table()), self.name)
        self.forget(rewrite.task.id)
        with self._guard:
            self._traced[rewrite.task.id] = scans
        return traces_of(scans, self.planner, rewrite, changes)

    def mask(self, rewrite: Rewrite, hits: DataFrame, changes: Changes) -> Rewrite:
        return self._mask(rewrite.written, by_file(self.jvm, hits), changes)

    def forget(self, task: str) -> None:
        """Free what :meth:`traces` staged for a task."""
        with self._guard:
            scans = self._traced.pop(task, None)
        if scans is not None:
            scans.free()

    def find(self, snapshot: Snapshot, where: str, paths: Collection[str] | None = None) -> DataFrame:
        scans = Scans(self.jvm, self.jvm.pinned(self.table()), self.name)
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
            scan = scan_that_may_match(self.jvm, scans.table, self.sql_name, snapshot.version, where)
            index = self.jvm.chosen(scan, wanted)
            tasks = [task for path in wanted if (task := index.get(path)) is not None]
        return scans.of(tasks).rows.where(where).selectExpr("_file AS file", "_pos AS position")

    def delete(self, hits: Sequence[Held[DataFrame]], snapshot: Snapshot, run_id: str, where: str) -> Commit:
        touched = sorted({path for held in hits for path in held.per_file})
        with self.lock(snapshot.table_uuid):
            seen = self.changes(snapshot)
            self._untouched(touched, snapshot, seen)
            written: list[str] = []
            try:
                places = reduce(DataFrame.unionAll, [held.hits.select("file", "position") for held in hits])
                change = self._change(by_file(self.jvm, places), snapshot, seen.version, run_id)
                written += change.written
                removed = tuple(str(file.location()) for file in change.removed)
                done = change_rows(self.jvm, self.table(), self.name, change)
            except Unknown:
                raise
            except Conflict as error:
                staging.delete_own(self.table(), written)
                raise Conflict(str(error), _winner(self.changes(snapshot))) from error
            except Exception as error:
                # The swap itself turns all its errors into ours: whatever else fails, failed before it.
                staging.delete_own(self.table(), written)
                if isinstance(error, Rejected):
                    raise
                raise Rejected(f"{self.name}: the delete could not be prepared: {reason(error)}") from error
        return Commit(done.version, run_id, removed, tuple(written), done.removed_delete_files)

    def tidy(self, snapshot: Snapshot, run_id: str) -> Tidied:
        with self.lock(snapshot.table_uuid):
            return tidy.tidy(self.jvm, self.table(), self.name, run_id)

    def _mask(self, written: Rewrite, places: dict[str, Any], changes: Changes) -> Rewrite:
        table = self.jvm.pinned(self.table())
        applied = applied_now(written.task, changes)
        left = [path for path, now in zip(written.task.inputs, applied, strict=True) if now is not None]
        if not left:
            raise Conflict(f"{self.name}: none of the inputs is left")
        stray = places.keys() - {output.path for output in written.outputs}
        if stray:
            raise AdapterError(f"{self.name}: rows to mask in {min(stray)}, which is no output of the group")
        inputs = self.planner.tasks(table, changes.version, left)
        leaving = unique([d for task in inputs for d in task.deletes() if leaves_with_file(self.jvm, d)])
        # Iceberg takes new deletes in a rewrite only where old ones leave, and no more rows than leave.
        room = sum(int(task.file().recordCount()) for task in inputs) if leaving else 0
        files, outputs, masked = self._without(table, written, places, room)
        native = staging.Made(
            files=tuple(files),
            masks=masked.added,
            version=changes.version,
            inputs=tuple(task.file() for task in inputs),
            deletes=tuple(leaving),
        )
        anew = {o.path for o in outputs} - {o.path for o in written.outputs}
        return replace(
            written,
            outputs=tuple(outputs),
            native=native,
            applied=applied,
            replayed=sum(int(index.cardinality()) for index in places.values()),
            extra=(*masked.paths, *sorted(anew)),
            unmasked=written,
        )

    def _without(
        self, table: Any, written: Rewrite, places: dict[str, Any], room: int
    ) -> tuple[list[Any], list[Output], Masked]:
        """DataFiles, outputs and deletes of a rewrite without the rows at these places.

        Outputs of at most ``room`` rows, dead ones counted, may be masked; format 1 has no masks at all. Otherwise
        the outputs in question are written anew.
        """
        files = {str(file.location()): file for file in written.native.files}
        dead = {path: int(index.cardinality()) for path, index in places.items()}
        alive = [o for o in written.outputs if dead.get(o.path, 0) < o.rows]
        masks = [Mask(files[o.path], places[o.path]) for o in alive if o.path in places]
        version = format_version(table)
        masked = write_masks(self.jvm, table, masks, version)
        if not masks or (version > 1 and sum(o.rows for o in alive) <= room):
            outputs = [
                replace(o, rows=o.rows - dead.get(o.path, 0), masked=dead.get(o.path, 0)) for o in alive
            ]
            return [files[o.path] for o in alive], outputs, masked
        read = self.planner.tasks(table, written.task.read_version, written.task.inputs)
        anew = self._anew(table, masks, masked, row_ids=have_row_ids(table, read))
        made = [new for o in alive for new in anew.get(o.path, [files[o.path]])]
        return made, list(staging.outputs_of(made)), Masked((), ())

    def _anew(
        self, table: Any, masks: Sequence[Mask], made: Masked, *, row_ids: bool = False
    ) -> dict[str, list[Any]]:
        """Path → DataFiles that hold the rows which a mask leaves; the masks' own files are removed again."""
        of_file = dict(zip((m.path for m in masks), self._in_order(masks, made), strict=True))
        anew: dict[str, list[Any]] = {}
        try:
            for m in masks:
                deletes = [of_file[m.path]]
                anew[m.path] = staging.copy_live_rows(self.jvm, table, m.file, deletes, row_ids=row_ids)
        except BaseException:
            staging.delete_own(table, [str(f.location()) for files in anew.values() for f in files])
            raise
        finally:
            staging.delete_own(table, made.paths)
        return anew

    def _in_order(self, masks: Sequence[Mask], made: Masked) -> list[Any]:
        """The new delete file of each mask."""
        target = self.jvm.static("org.apache.iceberg.util.ContentFileUtil", "referencedDataFileLocation")
        named = {str(target(delete)): delete for delete in made.added}
        return [named[m.path] for m in masks]

    def _change(self, places: dict[str, Any], snapshot: Snapshot, seen: int, run_id: str) -> RowChange:
        """What takes these rows out of the table; all files for it are written."""
        table = self.jvm.pinned(self.table())
        version = format_version(table)
        paths = sorted(places)
        tasks = self.planner.tasks(table, -1 if snapshot.version is None else snapshot.version, paths)
        blocks = snapshot.blocks
        # With deletes of unknown effect in force a file counts as larger than it is: it is masked, never removed.
        numbers = (blocks.rows - blocks.deleted_rows).tolist()
        live = {p: n for p, n in zip(blocks.path.to_pylist(), numbers, strict=True) if p in places}
        dies = [live[path] == int(places[path].cardinality()) for path in paths]
        whole = [task for task, all_rows in zip(tasks, dies, strict=True) if all_rows]
        part = [task for task, all_rows in zip(tasks, dies, strict=True) if not all_rows]
        masks = [Mask(t.file(), places[str(t.file().location())], tuple(t.deletes())) for t in part]
        masked = write_masks(self.jvm, table, masks, version)
        leaving = [d for t in whole for d in t.deletes() if leaves_with_file(self.jvm, d)]
        removed = tuple(task.file() for task in whole)
        if version > 1:
            dropped = tuple(unique([*leaving, *masked.replaced]))
            touched = tuple(m.path for m in masks)
            return RowChange(run_id, seen, masked.paths, removed, dropped, masked.added, (), touched)
        anew = [file for files in self._anew(table, masks, masked).values() for file in files]
        written = tuple(str(file.location()) for file in anew)
        return RowChange(run_id, seen, written, tuple(task.file() for task in tasks), rows=tuple(anew))

    def _untouched(self, touched: Sequence[str], snapshot: Snapshot, seen: Changes) -> None:
        """Raise Conflict where one of these files is not as it was in ``snapshot``."""
        if seen.obstacle:
            raise Conflict(f"{self.name}: {seen.obstacle}", _winner(seen))
        unknown = set(touched) - set(snapshot.blocks.path.to_pylist())
        if unknown:
            raise AdapterError(
                f"{self.name}: rows to delete in {min(unknown)}, which the snapshot does not list"
            )
        moved = [path for path in touched if path in seen.removed or path in seen.delete_ids]
        if moved:
            raise Conflict(
                f"{self.name}: {len(moved)} files with rows to delete were changed meanwhile, by {_winner(seen)}",
                _winner(seen),
            )


def _winner(seen: Changes) -> str:
    return ", ".join(str(w) for w in seen.winners) or seen.obstacle
