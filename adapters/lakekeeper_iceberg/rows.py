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
from lakekeeper.errors import AdapterError, Conflict, Rejected
from lakekeeper.spi import Commit, Held, Tidied, Traces
from lakekeeper_iceberg import staging, tidy
from lakekeeper_iceberg.commit import RowChange, change_rows
from lakekeeper_iceberg.masks import Mask, Masked, by_file, leaves_with_file, unique, write_masks
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
    _scans: dict[str, Scans] = field(default_factory=dict)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def traces(self, rewrite: Rewrite, snapshot: Snapshot, changes: Changes) -> Traces[DataFrame]:
        scans = Scans(self.jvm, self.jvm.pinned(self.table()), self.name)
        self._keep(rewrite.task.id, scans)
        return traces_of(scans, self.planner, rewrite, changes)

    def mask(self, rewrite: Rewrite, hits: DataFrame, changes: Changes) -> Rewrite:
        try:
            return self._mask(rewrite.written, by_file(self.jvm, hits), changes)
        finally:
            self.forget(rewrite)

    def forget(self, rewrite: Rewrite) -> None:
        """Free what the search for a rewrite's rows holds."""
        self._keep(rewrite.task.id, None)

    def find(self, snapshot: Snapshot, where: str, paths: Collection[str] | None = None) -> DataFrame:
        scans = Scans(self.jvm, self.jvm.pinned(self.table()), self.name)
        # The places are worked out after this returns: they stay staged until the next search.
        self._keep(f"find {snapshot.table_uuid}", scans)
        wanted = snapshot.blocks.path.to_pylist() if paths is None else list(paths)
        tasks: list[Any] = []
        if wanted and snapshot.version is not None:
            scan = scan_that_may_match(self.jvm, scans.table, self.sql_name, snapshot.version, where)
            index = self.jvm.chosen(scan, wanted)
            tasks = [task for path in wanted if (task := index.get(path)) is not None]
        found = scans.of(tasks).rows.where(where)
        return found.selectExpr("_file AS file", "_pos AS position")

    def delete(self, hits: Sequence[Held[DataFrame]], snapshot: Snapshot, run_id: str, where: str) -> Commit:
        touched = sorted({path for held in hits for path in held.per_file})
        with self.lock(snapshot.table_uuid):
            seen = self.changes(snapshot)
            self._untouched(touched, snapshot, seen)
            table = self.jvm.pinned(self.table())
            version = int(table.operations().current().formatVersion())
            places = reduce(DataFrame.unionAll, [held.hits.select("file", "position") for held in hits])
            change, added = self._change(table, version, by_file(self.jvm, places), snapshot, run_id)
            try:
                done = change_rows(self.jvm, self.table(), self.name, replace(change, seen=seen.version))
            except (Conflict, Rejected) as error:
                staging.delete_own(table, added)
                if isinstance(error, Conflict):
                    raise Conflict(str(error), _winner(self.changes(snapshot))) from error
                raise
        removed = tuple(str(file.location()) for file in change.removed)
        return Commit(done.version, run_id, removed, tuple(added), done.removed_delete_files)

    def tidy(self, snapshot: Snapshot, run_id: str) -> Tidied:
        with self.lock(snapshot.table_uuid):
            return tidy.tidy(self.jvm, self.table(), self.name, run_id)

    def _mask(self, written: Rewrite, places: dict[str, Any], changes: Changes) -> Rewrite:
        table = self.jvm.pinned(self.table())
        applied = applied_now(written.task, changes)
        left = [
            path for path, deletes in zip(written.task.inputs, applied, strict=True) if deletes is not None
        ]
        if not left:
            raise Conflict(f"{self.name}: none of the inputs is left")
        stray = places.keys() - {output.path for output in written.outputs}
        if stray:
            raise AdapterError(
                f"{self.name}: rows to mask in {min(stray)}, which is no output of the rewrite"
            )
        inputs = self.planner.tasks(table, changes.version, left)
        deletes = unique([d for task in inputs for d in task.deletes() if leaves_with_file(self.jvm, d)])
        files = {str(file.location()): file for file in written.native.files}
        dead = {path: int(index.cardinality()) for path, index in places.items()}
        alive = [o for o in written.outputs if dead.get(o.path, 0) < o.rows]
        masks = [Mask(files[o.path], places[o.path]) for o in alive if o.path in places]
        version = int(table.operations().current().formatVersion())
        made = write_masks(self.jvm, table, masks, version)
        if made.added and (version < 2 or not deletes):
            # Iceberg takes new deletes in a rewrite only where old ones leave: these outputs are written anew.
            read = self.planner.tasks(table, written.task.read_version, written.task.inputs)
            anew = self._anew(table, masks, made, row_ids=have_row_ids(table, read))
            outputs, extra = _outputs(alive, files, anew)
            made = Masked((), ())
        else:
            outputs = [
                replace(o, rows=o.rows - dead.get(o.path, 0), masked=dead.get(o.path, 0)) for o in alive
            ]
            extra = made.paths
        native = staging.Made(
            files=tuple(files[o.path] for o in outputs),
            masks=made.added,
            version=changes.version,
            inputs=tuple(task.file() for task in inputs),
            deletes=tuple(deletes),
        )
        return replace(
            written,
            outputs=tuple(outputs),
            native=native,
            applied=applied,
            replayed=sum(dead.values()),
            extra=extra,
            unmasked=written,
        )

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

    def _change(
        self, table: Any, version: int, places: dict[str, Any], snapshot: Snapshot, run_id: str
    ) -> tuple[RowChange, list[str]]:
        """What takes these rows out of the table, and the paths of the files that were written for it."""
        paths = sorted(places)
        tasks = self.planner.tasks(table, -1 if snapshot.version is None else snapshot.version, paths)
        live = {b.path: b.rows - b.deleted_rows for b in snapshot.blocks if b.path in places}
        whole = [t for p, t in zip(paths, tasks, strict=True) if live[p] == int(places[p].cardinality())]
        # With unknown deletes in force `live` is larger than the file: it is masked then, never removed.
        part = [t for t in tasks if t not in whole]
        masks = [Mask(t.file(), places[str(t.file().location())], tuple(t.deletes())) for t in part]
        made = write_masks(self.jvm, table, masks, version)
        leaving = [d for t in whole for d in t.deletes() if leaves_with_file(self.jvm, d)]
        change = RowChange(
            run_id=run_id,
            seen=-1,
            removed=tuple(t.file() for t in whole),
            dropped_deletes=tuple(unique([*leaving, *made.replaced])),
            touched=tuple(m.path for m in masks),
        )
        if version > 1:
            return replace(change, deletes=made.added), list(made.paths)
        anew = [f for files in self._anew(table, masks, made).values() for f in files]
        removed = tuple(t.file() for t in tasks)
        written = [str(f.location()) for f in anew]
        return replace(change, removed=removed, rows=tuple(anew), touched=()), written

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

    def _keep(self, key: str, scans: Scans | None) -> None:
        with self._guard:
            old = self._scans.pop(key, None)
            if scans is not None:
                self._scans[key] = scans
        if old is not None:
            old.free()


def _outputs(
    alive: Sequence[Output], files: dict[str, Any], anew: dict[str, list[Any]]
) -> tuple[list[Output], tuple[str, ...]]:
    """Outputs with those written anew in the place of the old ones, whose DataFiles join ``files``; their paths."""
    outputs: list[Output] = []
    extra: list[str] = []
    for output in alive:
        if output.path not in anew:
            outputs.append(output)
            continue
        for file in anew[output.path]:
            path = str(file.location())
            files[path] = file
            extra.append(path)
            outputs.append(Output(path, int(file.recordCount()), int(file.fileSizeInBytes())))
    return outputs, tuple(extra)


def _winner(seen: Changes) -> str:
    return ", ".join(str(w) for w in seen.winners) or seen.obstacle
