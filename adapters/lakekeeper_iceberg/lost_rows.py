"""The rows that a rewrite lost and all rows of its outputs, as frames to be compared.

    input at the read    ···x········     x deleted before we read it
    input now            ···x··y··y··     y lost; a reader asked for `_deleted` returns x and y alone
    outputs              ?·········?·     found by row id or by value

Inputs that were not touched are not read, and of the others each row is read once.
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
from lakekeeper_iceberg.lost_positions import Before, have_row_ids
from lakekeeper_iceberg.native import Iceberg
from lakekeeper_iceberg.position_deletes import equality
from lakekeeper_iceberg.staging import stage, task_of_file, unstage

_FILE, _POSITION, _DELETED, _ROW_ID = "_file", "_pos", "_deleted", "_row_id"


@dataclass(frozen=True, slots=True)
class Scan:
    """Rows of staged scan tasks with their places; ``rows`` has ``names`` first, then Iceberg's own columns."""

    rows: DataFrame
    names: Sequence[str]

    @property
    def row(self) -> Column:
        """All columns of the table as one struct, under names that cannot collide."""
        return F.struct(*(F.col(f"c{i}") for i in range(len(self.names)))).alias("row")

    def plain(self) -> DataFrame:
        """All columns by position: ``c0``, ``c1`` … and Iceberg's own as they are."""
        return self.rows.toDF(
            *(f"c{i}" for i in range(len(self.names))), *self.rows.columns[len(self.names) :]
        )


@dataclass(slots=True)
class Scans:
    """Staged groups of one piece of work; :meth:`free` forgets them."""

    jvm: Iceberg
    table: Any
    name: str
    groups: list[str] = field(default_factory=list)

    def of(self, tasks: Sequence[Any]) -> Scan:
        """Raises Unsupported where a column of the table has the name of one of Iceberg's own."""
        group = stage(self.jvm, self.table, tasks)
        self.groups.append(group)
        reader = self.jvm.spark.read.format("iceberg").option("file-open-cost", "0")
        rows, own = self.jvm.with_metadata(reader.load(group))
        missing = [n for n in (_FILE, _POSITION, _DELETED) if n not in rows.columns[own:]]
        if missing:
            raise Unsupported(self.name, f"a column named {missing[0]}", "Iceberg keeps that name for itself")
        return Scan(rows, rows.columns[:own])

    def free(self) -> None:
        while self.groups:
            unstage(self.jvm, self.table, self.groups.pop())


def traces(at: Before, scans: Scans, lost: Lost) -> Traces[DataFrame]:
    """See ``spi.RowDeletes.traces``."""
    base, kept = lost.base, lost.native.kept
    tasks = at.tasks(base)
    by_id = have_row_ids(scans.table, tasks.values())
    found = (
        _lost(at, scans, lost, tasks, by_id=by_id)
        if lost.native.counted
        else _told(at, scans, lost, by_id=by_id)
    )
    outputs = [
        task_of_file(at.jvm, scans.table, file, _masks(kept.mask_of, str(file.location())), row_ids=by_id)
        for file in base.native.files
    ]
    made = scans.of(outputs)
    everything = _rows(made, by_id, F.col(_FILE).alias("file"), F.col(_POSITION).alias("position"))
    if not found:
        return Traces(everything.select("row").limit(0), everything)
    return Traces(found[0] if len(found) == 1 else found[0].unionAll(found[1]), everything)


def _masks(mask_of: Mapping[str, Any], path: str) -> Sequence[Any]:
    return [mask_of[path]] if path in mask_of else []


def _lost(at: Before, scans: Scans, lost: Lost, tasks: Mapping[str, Any], *, by_id: bool) -> list[DataFrame]:
    """Rows at the positions that are lost: live ones of inputs that are gone, dead ones of the others."""
    gone = [path for path in lost.native.lost if path in lost.changes.removed]
    changed = [path for path in lost.native.lost if path not in lost.changes.removed]
    now = {path: lost.native.kept.deletes.get(path, ()) for path in changed}
    positional = {path: [d for d in deletes if not equality(at.jvm, d)] for path, deletes in now.items()}
    masked = [task_of_file(at.jvm, scans.table, tasks[p].file(), positional[p]) for p in changed]
    found = []
    for paths, scanned, deleted in ((gone, [tasks[path] for path in gone], False), (changed, masked, True)):
        if not paths:
            continue
        place = (F.col(_FILE).alias("file"), F.col(_POSITION).alias("position"))
        rows = _rows(scans.of(scanned), by_id, *place, deleted=deleted)
        if not lost.native.clean.issuperset(paths):
            rows = _at(at, rows, {path: lost.native.lost[path] for path in paths})
        found.append(rows.select("row"))
    return found


def _at(at: Before, rows: DataFrame, places: Mapping[str, Any]) -> DataFrame:
    """Those of the rows (columns ``file``, ``position``) that are at these places."""
    numbers = [at.jvm.rows_of(index) for index in places.values()]
    files = np.repeat(np.arange(len(numbers)), [len(n) for n in numbers])
    wanted = pa.table({"number": files, "position": np.concatenate(numbers)})
    named = pa.table({"file": list(places), "number": np.arange(len(numbers))})
    spark = rows.sparkSession
    numbered = rows.join(F.broadcast(spark.createDataFrame(named)), "file")
    return numbered.join(spark.createDataFrame(wanted), ["number", "position"], "left_semi")


def _told(at: Before, scans: Scans, lost: Lost, *, by_id: bool) -> list[DataFrame]:
    """Lost rows where equality deletes were in force: what a scan says, of all that was read."""
    task, tasks = lost.base.task, at.tasks(lost.base)
    now = dict(zip(task.inputs, applied_now(task, lost.changes), strict=True))
    read = dict(zip(task.inputs, task.delete_ids, strict=True))
    gone = [path for path, deletes in now.items() if deletes is None]
    changed = [path for path, deletes in now.items() if deletes is not None and deletes != read[path]]
    found = []
    if gone:
        found.append(_rows(scans.of([tasks[path] for path in gone]), by_id))
    if changed:
        after = at.planner.tasks(scans.table, lost.changes.version, changed)
        found.append(_died(scans, [tasks[path] for path in changed], after, by_id))
    return found


def _died(scans: Scans, before: Sequence[Any], after: Sequence[Any], by_id: bool) -> DataFrame:
    """Rows of files that were live ``before`` and are deleted ``after``."""
    scan = scans.of(after)
    place = (F.col(_FILE).alias("file"), F.col(_POSITION).alias("position"))
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
    """Does each file have all the delete files that it had? Then no row of it can have come back."""
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
    return rows.select(F.col(_FILE).alias("file"), F.col(_POSITION).alias("position"))
