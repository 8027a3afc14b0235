"""Restores rows that one of our deletes removed: implements ``spi.Restores`` with DataFrames.

The rows are read from the files of the snapshot before the delete, with the table's current schema: Iceberg resolves
columns by field id, so renamed columns keep their values. The rows are added by an append.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakekeeper.core.model.block_changes import differing
from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.run_folders import run_folder
from lakekeeper.errors import LakekeeperError, NotFound, Rejected, Unsupported
from lakekeeper.spark.predicates import check
from lakekeeper.spi import Commit, Held, Prepared
from lakekeeper_iceberg import staging
from lakekeeper_iceberg.changes import ancestors
from lakekeeper_iceberg.commit import append_once
from lakekeeper_iceberg.commit_attempts import Attempts
from lakekeeper_iceberg.lost_rows import Scans
from lakekeeper_iceberg.native import Iceberg
from lakekeeper_iceberg.planning import Planner

_TARGET = "write.target-file-size-bytes"
_TARGET_BYTES = 512 << 20


@dataclass(frozen=True, slots=True)
class _Copies:
    """DataFile objects, in the folder of a run."""

    files: Sequence[Any]
    run: str


@dataclass(frozen=True, slots=True)
class IcebergRestores:
    """Restores rows of one table.

    ``table()`` returns the refreshed table object; ``seen`` returns the snapshot of a pinned table, with the blocks
    that may hold a match; ``attempts`` returns the recorded commit attempts of a run, and ``lock`` the lock that
    commits to the table with a given uuid hold.
    """

    jvm: Iceberg
    name: str
    planner: Planner
    table: Callable[[], Any]
    seen: Callable[[Any, str], Snapshot]
    attempts: Callable[[str], Attempts]
    lock: Callable[[str], AbstractContextManager[Any]]

    def descendant_of(self, version: int) -> int | None:
        """See ``spi.Restores.descendant_of``."""
        metadata = self.table().operations().current()
        current = metadata.currentSnapshot()
        known = any(int(at.snapshotId()) == version for at in ancestors(metadata, current))
        return int(current.snapshotId()) if known else None

    def around(self, version: int, where: str, later: int) -> tuple[Snapshot, Snapshot]:
        """The files that differ between the snapshot ``version`` and its parent, with the schema of the delete."""
        table = self.table()
        made = table.snapshot(version)
        parent = None if made is None else made.parentId()
        if parent is None or table.snapshot(parent) is None:
            advice = "or was made on another branch of the catalog"
            raise NotFound(self.name, f"the snapshot before {version} has expired, {advice}")
        left = self._has_left(table.operations().current(), (version, later), int(parent))
        if left is not False:
            raise self._returned(version, int(parent), known=left is True)
        pinned, after = (
            self.jvm.as_of(table, snapshot, int(made.schemaId())) for snapshot in (int(parent), version)
        )
        check(self.jvm, self.jvm.frame_of(pinned.schema()), where, steady=True)
        return differing(self.seen(pinned, where), self.seen(after, where))

    def _has_left(self, metadata: Any, versions: Collection[int], parent: int) -> bool | None:
        """Whether a rollback has left the delete and all that is known to follow it, so that its rows are back.

        None if the ancestors end early: snapshots in between have expired, and show neither.
        """
        for at in ancestors(metadata, metadata.currentSnapshot()):
            if int(at.snapshotId()) in versions:
                return False
            if int(at.snapshotId()) == parent or at.parentId() is None:
                return True
        return None

    def _returned(self, version: int, parent: int, *, known: bool) -> Unsupported:
        rollback = f"a rollback to a snapshot before {version}, which brought the dropped rows back"
        expired = (
            f"expired snapshots after {version}, among them perhaps a rollback that brought the rows back"
        )
        return Unsupported(
            self.name,
            rollback if known else expired,
            "a restore would add them a second time; nothing was written. Empty the trash if they are there, else read "
            f"them from snapshot {parent}",
        )

    def copy(
        self, hits: Held[DataFrame] | None, whole: Collection[str], then: Snapshot, run_id: str
    ) -> Prepared:
        """Write the rows to new files. Raises Unsupported if values would be restored differently."""
        table = self.jvm.pinned(self.table())
        self._refuse_changed(table, then)
        run = run_folder(then.table_uuid, run_id)
        scans = Scans(self.jvm, table, self.name)
        try:
            rows = self._rows(scans, hits, whole, -1 if then.version is None else then.version)
            target = _target_bytes(table)
            files = [] if rows is None else staging.write_rows(self.jvm, table, rows, run, target)
        except LakekeeperError:
            raise
        except Exception as error:
            raise Rejected(
                f"{self.name}: rows of snapshot {then.version} cannot be restored ({error}); nothing was committed"
            ) from error
        finally:
            scans.free()
        outputs = staging.outputs_of(files)
        return Prepared(
            {o.path: o.rows for o in outputs}, tuple(o.path for o in outputs), _Copies(files, run)
        )

    def keep(self, copies: Prepared) -> bool:
        """Always True: files stay valid after schema changes, as columns are resolved by field id."""
        return True

    def commit(self, copies: Prepared, since: int, run_id: str) -> Commit:
        """Commit in one attempt, unless the metadata that it replaces already has a commit of this run."""
        table = self.table()
        with self.lock(str(table.operations().current().uuid())):
            made: _Copies = copies.native
            attempts = self.attempts(made.run)
            version, before = append_once(self.jvm, table, self.name, made.files, since, run_id, attempts)
        return Commit(version, run_id, (), () if before else tuple(copies.rows))

    def _rows(
        self, scans: Scans, hits: Held[DataFrame] | None, whole: Collection[str], version: int
    ) -> DataFrame | None:
        """The rows, with the table's current schema; they do not keep their row ids and sequence numbers."""
        some = [path for path, rows in hits.per_file.items() if rows] if hits else []
        parts = []
        if whole:
            scan = scans.of(self.planner.tasks(scans.table, version, sorted(whole)))
            parts.append(scan.plain())
        if hits is not None and some:
            scan = scans.of(self.planner.tasks(scans.table, version, sorted(some)))
            places = hits.hits.select(
                F.col("file").alias("_at_file"), F.col("position").alias("_at_position")
            )
            rows = scan.plain()
            at = (rows["_file"] == places["_at_file"]) & (rows["_pos"] == places["_at_position"])
            parts.append(rows.join(places, at, "left_semi"))
        if not parts:
            return None
        named = [part.select(*(f"c{i}" for i in range(len(scan.names)))).toDF(*scan.names) for part in parts]
        return named[0] if len(named) == 1 else named[0].unionAll(named[1])

    def _refuse_changed(self, table: Any, then: Snapshot) -> None:
        """Raise Unsupported if a column was dropped or changed its type; NotFound if the table was recreated."""
        if str(table.operations().current().uuid()) != then.table_uuid:
            raise NotFound(self.name, "the table was dropped and created again under its name")
        was = table.schemas().get(int(then.schema_id.partition("/")[0]))
        now = dict(self._columns(table.schema()))
        advice = (
            f"the dropped rows cannot be restored as they were; nothing was written. Read them from snapshot "
            f"{then.version}"
        )
        for number, (name, kind) in self._columns(was):
            if number not in now:
                raise Unsupported(self.name, f"column {name}, which was dropped", advice)
            if now[number][1] != kind:
                raise Unsupported(
                    self.name, f"column {name}, whose type was {kind} and is {now[number][1]}", advice
                )

    def _columns(self, schema: Any) -> Iterator[tuple[int, tuple[str, str]]]:
        """(field id, (name, type)) of all columns, including nested ones."""
        index = self.jvm.static("org.apache.iceberg.types.TypeUtil", "indexById")(schema.asStruct())
        for number in index.keySet():
            kind = index.get(number).type()
            spelling = str(kind) if kind.isPrimitiveType() else str(kind.typeId())
            yield int(number), (str(schema.findColumnName(number)), spelling)


def _target_bytes(table: Any) -> int:
    return int(table.properties().get(_TARGET) or _TARGET_BYTES)
