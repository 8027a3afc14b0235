"""Rows by their places: those that were read for a rewrite and live no more, and all rows of its outputs.

    input at the read    ···x········     x deleted before we read it
    input now            ···x··y··y··     y lost; a reader asked for `_deleted` hands out x and y alone
    outputs              ?·········?·     found by the runner, by row id or by value

Inputs that nobody touched are not read, and of the others each row is read once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakekeeper.core.rebase import Changes, Rewrite, applied_now
from lakekeeper.errors import Conflict, Unsupported
from lakekeeper.spi import Traces
from lakekeeper_iceberg.native import Iceberg
from lakekeeper_iceberg.planning import Planner
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


def traces_of(scans: Scans, planner: Planner, rewrite: Rewrite, changes: Changes) -> Traces[DataFrame]:
    """See ``spi.RowDeletes.traces``. Raises Conflict where rows live again that were not read."""
    written, task = rewrite.written, rewrite.task
    now = dict(zip(task.inputs, applied_now(task, changes), strict=True))
    read = dict(zip(task.inputs, task.delete_ids, strict=True))
    gone = [path for path, deletes in now.items() if deletes is None]
    changed = [path for path, deletes in now.items() if deletes is not None and deletes != read[path]]
    before = dict(zip(task.inputs, planner.tasks(scans.table, task.read_version, task.inputs), strict=True))
    by_id = have_row_ids(scans.table, before.values())
    lost = []
    if gone:
        lost.append(_rows(scans.of([before[path] for path in gone]), by_id))
    if changed:
        after = planner.tasks(scans.table, changes.version, changed)
        lost.append(_died(scans, [before[path] for path in changed], after, by_id))
    outputs = [task_of_file(scans.jvm, scans.table, file, row_ids=by_id) for file in written.native.files]
    made = scans.of(outputs)
    everything = _rows(made, by_id, F.col(_FILE).alias("file"), F.col(_POSITION).alias("position"))
    if not lost:
        return Traces(everything.select("row").limit(0), everything)
    return Traces(lost[0] if len(lost) == 1 else lost[0].unionAll(lost[1]), everything)


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


def have_row_ids(table: Any, tasks: Any) -> bool:
    """Has each row of these files an id? Files older than an upgrade to v3 have none until a commit gives it."""
    if int(table.operations().current().formatVersion()) < 3:
        return False
    return all(task.file().firstRowId() is not None for task in tasks)
