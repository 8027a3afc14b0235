"""The rows that a rewrite lost and all rows of its outputs, as DataFrames to compare.

    input at the read    ···x········     x deleted before it was read
    input now            ···x··y··y··     y lost; a scan filtered by `_deleted` returns only x and y
    outputs              ?·········?·     found by row id or by value

Unchanged inputs are not read; each row of the other inputs is read once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakekeeper.core.planning.rebase import applied_now
from lakekeeper.errors import Conflict, Unsupported
from lakekeeper.spi import Lost, Traces
from lakekeeper_iceberg.lost_positions import Before, Read, have_row_ids
from lakekeeper_iceberg.native import Iceberg
from lakekeeper_iceberg.staging import stage, task_of_file, unstage

FILE, POSITION, _DELETED, _ROW_ID = "_file", "_pos", "_deleted", "_row_id"


@dataclass(frozen=True, slots=True)
class Scan:
    """Rows of staged scan tasks; ``rows`` has the columns ``names`` first, then Iceberg's metadata columns."""

    rows: DataFrame
    names: Sequence[str]

    @property
    def row(self) -> Column:
        """All columns of the table as one struct, under names that cannot collide."""
        return F.struct(*self._values).alias("row")

    def whole(self, *, row_ids: bool) -> DataFrame:
        """A column ``row`` with all columns of the table, and the row id if ``row_ids``; and Iceberg's own columns."""
        ids = [F.col(_ROW_ID).alias("row_id")] if row_ids else []
        return self.plain().withColumn("row", F.struct(*self._values, *ids))

    @property
    def _values(self) -> list[Column]:
        return [F.col(f"c{i}") for i in range(len(self.names))]

    def plain(self) -> DataFrame:
        """The table's columns renamed to ``c0``, ``c1`` …; Iceberg's metadata columns keep their names."""
        return self.rows.toDF(
            *(f"c{i}" for i in range(len(self.names))), *self.rows.columns[len(self.names) :]
        )


@dataclass(slots=True)
class Scans:
    """Groups staged for one operation; :meth:`free` releases them."""

    jvm: Iceberg
    table: Any
    name: str
    groups: list[str] = field(default_factory=list)

    def of(self, tasks: Sequence[Any]) -> Scan:
        """Stage and scan tasks. Raises Unsupported if a table column has the name of an Iceberg metadata column."""
        group = stage(self.jvm, self.table, tasks)
        self.groups.append(group)
        rows, own = self.jvm.with_metadata(self.jvm.staged_rows(group, self.table))
        missing = [n for n in (FILE, POSITION, _DELETED) if n not in rows.columns[own:]]
        if missing:
            raise Unsupported(self.name, f"a column named {missing[0]}", "Iceberg reserves that name")
        return Scan(rows, rows.columns[:own])

    def free(self) -> None:
        while self.groups:
            unstage(self.jvm, self.table, self.groups.pop())


def traces(at: Before, scans: Scans, lost: Lost) -> Traces[DataFrame]:
    """See ``spi.RowDeletes.traces``."""
    base, kept = lost.base, lost.native.kept
    reads = at.reads(base)
    by_id = have_row_ids(scans.table, reads.values())
    found = (
        _lost(at, scans, lost, reads, by_id=by_id)
        if lost.native.counted
        else _scanned(at, scans, lost, by_id=by_id)
    )
    outputs = [
        task_of_file(at.jvm, scans.table, file, _masks(kept.mask_of, str(file.location())), row_ids=by_id)
        for file in base.native.files
    ]
    made = scans.of(outputs)
    everything = _rows(made, by_id, F.col(FILE).alias("file"), F.col(POSITION).alias("position"))
    if not found:
        return Traces(everything.select("row").limit(0), everything)
    return Traces(found[0] if len(found) == 1 else found[0].unionAll(found[1]), everything)


def _masks(mask_of: Mapping[str, Any], path: str) -> Sequence[Any]:
    return [mask_of[path]] if path in mask_of else []


def _lost(at: Before, scans: Scans, lost: Lost, reads: Mapping[str, Read], *, by_id: bool) -> list[DataFrame]:
    """Rows at the lost positions: live rows of removed inputs, deleted rows of the others."""
    gone = [path for path in lost.native.lost if path in lost.changes.removed]
    changed = [path for path in lost.native.lost if path not in lost.changes.removed]
    now = {path: lost.native.kept.deletes.get(path, ()) for path in changed}
    positional = {path: [d for d in deletes if not at.jvm.equality(d)] for path, deletes in now.items()}
    masked = [task_of_file(at.jvm, scans.table, reads[p].file, positional[p]) for p in changed]
    found = []
    for paths, scanned, deleted in (
        (gone, [reads[path].task for path in gone], False),
        (changed, masked, True),
    ):
        if not paths:
            continue
        place = (F.col(FILE).alias("file"), F.col(POSITION).alias("position"))
        rows = _rows(scans.of(scanned), by_id, *place, deleted=deleted)
        if not lost.native.clean.issuperset(paths) or (lost.successors and not deleted):
            rows = _at(at, rows, {path: lost.native.lost[path] for path in paths})
        found.append(rows.select("row"))
    return found


def _at(at: Before, rows: DataFrame, places: Mapping[str, Any]) -> DataFrame:
    """The rows (with columns ``file``, ``position``) at these positions."""
    numbers = at.jvm.rows_of(list(places.values()))
    files = np.repeat(np.arange(len(numbers)), [len(n) for n in numbers])
    wanted = pa.table({"number": files, "position": np.concatenate(numbers)})
    named = pa.table({"file": list(places), "number": np.arange(len(numbers))})
    numbered = rows.join(F.broadcast(at.jvm.from_arrow(named)), "file")
    return numbered.join(at.jvm.from_arrow(wanted), ["number", "position"], "left_semi")


def _scanned(at: Before, scans: Scans, lost: Lost, *, by_id: bool) -> list[DataFrame]:
    """Lost rows found by scans of all changed inputs, if equality deletes applied when they were read."""
    task, reads = lost.base.task, at.reads(lost.base)
    now = dict(zip(task.inputs, applied_now(task, lost.changes), strict=True))
    read = dict(zip(task.inputs, task.delete_ids, strict=True))
    gone = [path for path, deletes in now.items() if deletes is None]
    changed = [path for path, deletes in now.items() if deletes is not None and deletes != read[path]]
    found = []
    if gone:
        found.append(_rows(scans.of([reads[path].task for path in gone]), by_id))
    if changed:
        after = at.planner.tasks(scans.table, lost.changes.version, changed)
        found.append(_died(scans, [reads[path].task for path in changed], after, by_id))
    return found


def _died(scans: Scans, before: Sequence[Any], after: Sequence[Any], by_id: bool) -> DataFrame:
    """Rows of files that are live in the tasks ``before`` and deleted in the tasks ``after``."""
    scan = scans.of(after)
    place = (F.col(FILE).alias("file"), F.col(POSITION).alias("position"))
    dead = _rows(scan, by_id, *place, deleted=True)
    masked = [task for task in before if not task.deletes().isEmpty()]
    if not masked:
        return dead.select("row")
    already = _places(scans.of(masked), deleted=True)
    if not _only_more_deletes(before, after):
        back = already.join(_places(scan, deleted=True), ["file", "position"], "left_anti")
        if not back.isEmpty():
            raise Conflict(f"{scans.name}: rows that were deleted when an input was read live again")
    return dead.join(already, ["file", "position"], "left_anti").select("row")


def _only_more_deletes(before: Sequence[Any], after: Sequence[Any]) -> bool:
    """Whether each file still has all its earlier delete files, so that no row can be live again."""
    return all(
        {_name(d) for d in earlier.deletes()} <= {_name(d) for d in later.deletes()}
        for earlier, later in zip(before, after, strict=True)
    )


def _name(delete: Any) -> tuple[str, Any]:
    return str(delete.location()), delete.contentOffset()


def _rows(scan: Scan, by_id: bool, *more: Column, deleted: bool = False) -> DataFrame:
    rows = scan.plain()
    if deleted:
        rows = rows.where(F.col(_DELETED))
    return rows.select(F.col(_ROW_ID).alias("row") if by_id else scan.row, *more)


def _places(scan: Scan, *, deleted: bool) -> DataFrame:
    rows = scan.plain()
    if deleted:
        rows = rows.where(F.col(_DELETED))
    return rows.select(F.col(FILE).alias("file"), F.col(POSITION).alias("position"))
