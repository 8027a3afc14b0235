"""Replays for Iceberg: finds the rows that a rewrite lost and deletes them from its outputs by position."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import DataFrame

from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.run_folders import run_folder
from lakekeeper.core.planning.changes import Changes
from lakekeeper.core.planning.rebase import applied_now
from lakekeeper.core.planning.rewrites import Output, Rewrite
from lakekeeper.errors import AdapterError, Conflict
from lakekeeper.spi import Followed, Lost, Places, Remains, Traces
from lakekeeper_iceberg import copied_files, lost_rows, point_lookup, staging
from lakekeeper_iceberg.block_tracking import Follower
from lakekeeper_iceberg.columnar import IcebergColumnar
from lakekeeper_iceberg.columnar_copies import columnar_copies, columnar_rows
from lakekeeper_iceberg.copy_on_write import live_copies
from lakekeeper_iceberg.lost_positions import Before, find_lost, have_row_ids
from lakekeeper_iceberg.lost_rows import Scans
from lakekeeper_iceberg.native import Iceberg
from lakekeeper_iceberg.planning import Planner
from lakekeeper_iceberg.position_deletes import (
    Mask,
    by_file,
    format_version,
    leaving_with_file,
    write_masks,
)
from lakekeeper_iceberg.row_delete import in_order


@dataclass(slots=True)
class Replays:
    """Replays of rewrites of one table. ``table()`` returns the current table object."""

    jvm: Iceberg
    name: str
    planner: Planner
    follower: Follower
    table: Callable[[], Any]
    scans: dict[str, Scans] = field(default_factory=dict)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def compared(self, rewrite: Rewrite, changes: Changes, files: Sequence[str]) -> Followed | None:
        return copied_files.compared(self._before(), rewrite, changes, files)

    def remains(self, rewrite: Rewrite, changes: Changes, files: Sequence[str]) -> Remains[DataFrame] | None:
        at = self._before()
        scans = Scans(self.jvm, at.table, self.name)
        self._keep(rewrite.task.id, scans)
        return copied_files.remains(at, scans, rewrite, changes, files)

    def lost(
        self, rewrite: Rewrite, snapshot: Snapshot, changes: Changes, followed: Followed | None = None
    ) -> Lost:
        return find_lost(self._before(), rewrite, snapshot, changes, followed)

    def places(self, lost: Lost) -> Places | None:
        return point_lookup.places(self._before(), lost)

    def traces(self, lost: Lost) -> Traces[DataFrame]:
        at = self._before()
        scans = Scans(self.jvm, at.table, self.name)
        self._keep(lost.rewrite.task.id, scans)
        return lost_rows.traces(at, scans, lost)

    def mask(self, lost: Lost, hits: DataFrame | Places) -> Rewrite:
        if not isinstance(hits, Mapping):
            return self._masked(lost, by_file(self.jvm, hits))
        places = {path: self.jvm.index_of(rows) for path, rows in hits.items() if len(rows)}
        self._refuse_doubled(hits, places)
        return self._masked(lost, places)

    def forget(self, task: str) -> None:
        """Release the scans that :meth:`traces` staged for a task."""
        self._keep(task, None)

    def _keep(self, task: str, scans: Scans | None) -> None:
        """Keep the staged scans of a task, and free its previous ones."""
        with self._guard:
            old = self.scans.pop(task, None)
            if scans is not None:
                self.scans[task] = scans
        if old is not None:
            old.free()

    def _before(self) -> Before:
        return Before(self.jvm, self.planner, self.follower, self.jvm.pinned(self.table()), self.name)

    def _refuse_doubled(self, hits: Places, places: Mapping[str, Any]) -> None:
        for path, index in places.items():
            if int(index.cardinality()) != len(hits[path]):
                raise AdapterError(f"{self.name}: row positions to mask in {path} occur twice")

    def _masked(self, lost: Lost, places: dict[str, Any]) -> Rewrite:
        at, base = self._before(), lost.base
        applied = applied_now(base.task, lost.changes)
        left = [path for path, now in zip(base.task.inputs, applied, strict=True) if now is not None]
        if not left and not lost.successors:
            raise Conflict(f"{self.name}: none of the inputs is left")
        masks = self._union(base, places)
        came = at.planner.tasks(at.table, lost.changes.version, lost.successors) if lost.successors else ()
        files = [task.file() for task in came]
        inputs, leaving = self._inputs(at, lost, left)
        inputs += files
        # Iceberg accepts added delete files in a rewrite only if it removes some, and no more rows than it removes.
        room = sum(int(file.recordCount()) for file in inputs) - lost.gained if leaving else 0
        moved, moved_from = self._gained(at, lost, came)
        made = self._without(at, base, masks, places, room)
        written = {output.path for output in base.written.outputs}
        copies = [output.path for output in made.outputs if output.path not in written]
        native = staging.Made(
            files=made.files,
            masks=tuple(made.mask_of.values()),
            version=lost.changes.version,
            inputs=tuple(inputs),
            deletes=tuple(leaving),
            moved=tuple(moved),
            moved_from=tuple(moved_from),
            merge=base.native.merge,
            kept=replace(lost.native.kept, masked=made.masked, mask_of=made.mask_of),
        )
        named = dict.fromkeys(str(delete.location()) for delete in native.masks)
        return base.masked(
            made.outputs,
            native,
            applied=applied,
            rows=sum(int(index.cardinality()) for index in places.values()),
            extra=(*named, *copies),
            before=lost.rewrite,
            successors=lost.successors,
            moved=staging.outputs_of(moved),
        )

    def _union(self, base: Rewrite, places: Mapping[str, Any]) -> dict[str, Any]:
        """All rows to delete from each output. Raises AdapterError for a position without a live row of an output."""
        rows = {output.path: output.rows + output.masked for output in base.outputs}
        stray = places.keys() - rows.keys()
        if stray:
            raise AdapterError(
                f"{self.name}: rows to mask in {min(stray)}, which is not an output of the group"
            )
        masks = dict(base.native.kept.masked)
        for path, index in places.items():
            before = masks.get(path)
            masks[path] = self.jvm.union(index, before)
            count = int(index.cardinality()) + (int(before.cardinality()) if before is not None else 0)
            every = self.jvm.all_rows(rows[path])
            every.merge(index)
            if int(masks[path].cardinality()) != count or int(every.cardinality()) != rows[path]:
                raise AdapterError(f"{self.name}: row positions to mask in {path} are not live rows of it")
        return masks

    def _inputs(self, at: Before, lost: Lost, left: Sequence[str]) -> tuple[list[Any], list[Any]]:
        """The DataFiles of these inputs, and the delete files to remove with them."""
        reads, kept = at.reads(lost.base), lost.native.kept
        deletes = [delete for path in left for delete in kept.deletes.get(path, reads[path].deletes)]
        return [reads[path].file for path in left], leaving_with_file(self.jvm, deletes)

    def _gained(self, at: Before, lost: Lost, tasks: Sequence[Any]) -> tuple[list[Any], list[Places]]:
        """DataFiles with all rows that successors have gained, and the rows that each of them holds.

        Those of earlier replays stay, as far as their rows still are to be moved. ``tasks`` are of the successors.
        """
        native = lost.rewrite.native
        stay, gained = lost.not_moved(native.moved_from)
        files, rows = [native.moved[i] for i in stay], [native.moved_from[i] for i in stay]
        some = {path: task for task in tasks if (path := str(task.file().location())) in gained}
        if not some:
            return files, rows
        run = run_folder(lost.base.task.table_uuid, lost.base.run_id)
        columnar = IcebergColumnar(self.jvm, self.planner, lambda: at.table)
        made = columnar_rows(self.jvm, columnar, at.table, lost.base, some, gained, run)
        new = [(made, gained)] if made is not None else self._rows_by_spark(at, some, gained, run)
        counts = [(int(file.recordCount()), sum(map(len, held.values()))) for file, held in new]
        wanted = sum(map(len, gained.values()))
        if any(count != of_file for count, of_file in counts) or sum(count for count, _ in counts) != wanted:
            staging.delete_own(self.jvm, at.table, [str(file.location()) for file, _ in new])
            raise AdapterError(f"{self.name}: {wanted} rows were to be copied, and others were")
        return [*files, *(file for file, _ in new)], [*rows, *(held for _, held in new)]

    def _rows_by_spark(
        self, at: Before, tasks: Mapping[str, Any], wanted: Places, run: str
    ) -> list[tuple[Any, Places]]:
        """New DataFiles, one for each file, with these rows, and which rows each of them holds."""
        others = []
        for path, task in tasks.items():
            every = self.jvm.all_rows(int(task.file().recordCount()))
            others.append(Mask(task.file(), self.jvm.without(every, self.jvm.index_of(wanted[path]))))
        written = write_masks(self.jvm, at.table, others, run)
        pairs = [
            (mask.file, delete)
            for mask, delete in zip(others, in_order(self.jvm, others, written), strict=True)
        ]
        copied = live_copies(self.jvm, at.table, pairs, written.paths, run)
        return [(file, {path: wanted[path]}) for path, copies in copied.items() for file in copies]

    def _without(
        self, at: Before, base: Rewrite, masks: Mapping[str, Any], fresh: Mapping[str, Any], room: int
    ) -> _Made:
        """The outputs without the rows in ``masks``; the masks of the files in ``fresh`` are new.

        If the outputs have at most ``room`` rows in total, deleted ones included, and the format version is above 1,
        the rows are deleted by delete files. Otherwise the affected outputs are rewritten.
        """
        files = {str(file.location()): file for file in base.native.files}
        dead = {path: int(index.cardinality()) for path, index in masks.items()}
        alive = [o for o in base.outputs if dead.get(o.path, 0) < o.rows + o.masked]
        named = {o.path for o in alive}
        touched = {path: index for path, index in masks.items() if path in named}
        if not touched or (format_version(at.table) > 1 and sum(o.rows + o.masked for o in alive) <= room):
            return self._by_deletes(at, base, alive, files, touched, fresh)
        columnar = IcebergColumnar(self.jvm, self.planner, lambda: at.table)
        copied = columnar_copies(self.jvm, columnar, at.table, base, touched)
        if copied is None:
            copied = self._copies(at, base, files, touched)
        made = [new for o in alive for new in copied.get(o.path, [files[o.path]])]
        return _Made(tuple(made), staging.outputs_of(made), {}, {})

    def _by_deletes(
        self,
        at: Before,
        base: Rewrite,
        alive: Sequence[Output],
        files: Mapping[str, Any],
        masks: Mapping[str, Any],
        fresh: Mapping[str, Any],
    ) -> _Made:
        """The outputs with delete files; those of the files in ``fresh`` are new."""
        new = [Mask(files[path], masks[path]) for path in fresh if path in masks]
        written = write_masks(self.jvm, at.table, new, run_folder(base.task.table_uuid, base.run_id))
        of_new = dict(zip((m.path for m in new), in_order(self.jvm, new, written), strict=True))
        mask_of = {p: d for p, d in (base.native.kept.mask_of | of_new).items() if p in masks}
        outputs = [_live(o, int(masks[o.path].cardinality()) if o.path in masks else 0) for o in alive]
        return _Made(tuple(files[o.path] for o in alive), tuple(outputs), masks, mask_of)

    def _copies(
        self, at: Before, base: Rewrite, files: Mapping[str, Any], masks: Mapping[str, Any]
    ) -> dict[str, list[Any]]:
        """Copies of outputs without their masks, by Spark's rows, one after the other."""
        run = run_folder(base.task.table_uuid, base.run_id)
        new = [Mask(files[path], index) for path, index in masks.items()]
        written = write_masks(self.jvm, at.table, new, run)
        pairs = zip((m.file for m in new), in_order(self.jvm, new, written), strict=True)
        by_id = have_row_ids(at.table, at.reads(base).values())
        return live_copies(self.jvm, at.table, list(pairs), written.paths, run, row_ids=by_id)


@dataclass(frozen=True, slots=True)
class _Made:
    """DataFiles and outputs; for outputs with delete files, the deleted rows and the delete file."""

    files: tuple[Any, ...]
    outputs: tuple[Output, ...]
    masked: Mapping[str, Any]
    mask_of: Mapping[str, Any]


def _live(output: Output, dead: int) -> Output:
    return replace(output, rows=output.rows + output.masked - dead, masked=dead)
