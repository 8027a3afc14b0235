"""Statistics of a snapshot: distinct values of each column, and of each partition its rows and bytes.

    metadata ─┬─ statistics             Puffin, sketches of distinct values       of a snapshot
              └─ partition-statistics   rows, files and deletes of each partition  of a snapshot

Iceberg's own actions compute them in a transaction that is never committed; one swap of the metadata then adds both
files. No snapshot is made. A snapshot has one Puffin file, so a new one also has the columns of the one that it
replaces; a file with blobs of another type than ours is never replaced. Spark uses distinct values only of exactly the
snapshot that it reads, Trino those of the nearest ancestor.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Any

from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.errors import Conflict, OptionError
from lakekeeper.spi import Computed, Outdated
from lakekeeper_iceberg.changes import ancestors
from lakekeeper_iceberg.commit import preparing, require_newest, swap
from lakekeeper_iceberg.dropped_sources import without_source
from lakekeeper_iceberg.keys import Field, SchemaFields
from lakekeeper_iceberg.native import Iceberg

_CHANGES = ("added-records", "deleted-records", "added-position-deletes", "added-equality-deletes")
_FRESH = (
    "{share:percent} of the rows changed since statistics of snapshot {snapshot}, due at {threshold:percent}"
)
_CHANGED = "{share:percent} of the rows changed since statistics of snapshot {snapshot}"
_NONE = "the table has no {what}"
_FOREIGN = "the statistics of snapshot {snapshot} have blobs that only their writer can compute, and are kept"
_SKETCH = "apache-datasketches-theta-v1"
_TABLE, _PARTITIONS = "distinct values", "partition statistics"


@dataclass(frozen=True, slots=True)
class _Due:
    """What to compute of a snapshot; ``columns`` None: distinct values of all columns of a primitive type."""

    table_uuid: str
    snapshot: int
    columns: tuple[Field, ...] | None
    values: bool
    partitions: bool


@dataclass(frozen=True, slots=True)
class _Made:
    """StatisticsFile and PartitionStatisticsFile, or None."""

    due: _Due
    values: Any
    partitions: Any


@dataclass(frozen=True, slots=True)
class IcebergStatistics:
    """Implements ``spi.Statistics``.

    ``table()`` returns the refreshed table object of a supported table, ``schema`` the columns of its metadata,
    ``lock`` the lock that commits to the table with a given uuid hold.
    """

    jvm: Iceberg
    name: str
    table: Callable[[], Any]
    schema: Callable[[Any], SchemaFields]
    lock: Callable[[str], AbstractContextManager[Any]]

    def find(self, columns: Sequence[str] | None, min_changed_ratio: float) -> Outdated:
        """See ``spi.Statistics.find``. Rows that only moved, by a ``replace``, count as unchanged."""
        base = self.table().operations().current()
        current = base.currentSnapshot()
        if current is None:
            return Outdated(None, 0, 0, Reason.of(Code.NO_VERSIONS))
        files, size = (_count(current.summary(), name) for name in ("total-data-files", "total-files-size"))
        if files == 0:
            return Outdated(int(current.snapshotId()), 0, 0, Reason.of(Code.NOTHING_TO_DO))
        named = None if columns is None else tuple(self._column(base, column) for column in columns)
        line = list(ancestors(base, current))
        why: list[Reason] = []
        fresh: list[Reason] = []
        due: list[str] = []
        for what, known in self._kept(base, named).items():
            is_due, found = _aged(what, line, known, min_changed_ratio)
            if is_due and what == _TABLE and self._foreign(base, int(current.snapshotId())):
                is_due = False
                found = Reason.of("statistics_foreign", _FOREIGN, snapshot=int(current.snapshotId()))
            (why if is_due else fresh).append(found)
            due += [what] if is_due else []
        version = int(current.snapshotId())
        if not why:
            return Outdated(version, 0, 0, fresh[0].plus(*fresh[1:]))
        work = _Due(str(base.uuid()), version, named, _TABLE in due, _PARTITIONS in due)
        return Outdated(version, files or 1, size or 0, why[0].plus(*why[1:]), work)

    def _column(self, base: Any, column: str) -> Field:
        field = self.schema(base).resolve(column)
        if not isinstance(field.type, str):
            raise OptionError("columns", column, "a column of a primitive type")
        return field

    def _kept(self, base: Any, columns: Sequence[Field] | None) -> dict[str, set[int]]:
        """Kind of statistics → snapshots that have them, on all of these columns; None: on all that it would have."""
        now = {int(field["id"]) for field in self.schema(base).top}

        def whole(file: Any) -> bool:
            named = {column.id for column in columns or ()}
            wanted = named if columns is not None else self._plain(base, int(file.snapshotId())) & now
            return wanted <= _fields_of(self.jvm, file)

        values = {int(f.snapshotId()) for f in self.jvm.items(base.statisticsFiles()) if whole(f)}
        unpartitioned = all(spec.isUnpartitioned() for spec in self.jvm.items(base.specs()))
        # Iceberg's action fails without the type of each partition value, and on a table whose files are ORC.
        orc = str(base.property("write.format.default", "parquet")).lower() == "orc"
        if unpartitioned or orc or without_source(self.jvm, base):
            return {_TABLE: values}
        partitions = {int(file.snapshotId()) for file in self.jvm.items(base.partitionStatisticsFiles())}
        return {_TABLE: values, _PARTITIONS: partitions}

    def _schema_of(self, base: Any, version: int) -> SchemaFields:
        """The columns of a snapshot; those of the table if it has expired."""
        snapshot = base.snapshot(version)
        number = None if snapshot is None else snapshot.schemaId()
        if number is None or int(number) == int(base.currentSchemaId()):
            return self.schema(base)
        return SchemaFields(self.jvm, base.schemasById().get(number))

    def _plain(self, base: Any, version: int) -> set[int]:
        """The columns that Iceberg's action computes if none are named: those of a primitive type."""
        top = self._schema_of(base, version).top
        return {int(f["id"]) for f in top if isinstance(f["type"], str) and f["type"] != "variant"}

    def _file(self, base: Any, version: int) -> Any:
        """The StatisticsFile of a snapshot, or None."""
        files = self.jvm.items(base.statisticsFiles())
        return next((file for file in files if int(file.snapshotId()) == version), None)

    def _foreign(self, base: Any, version: int) -> bool:
        file = self._file(base, version)
        return file is not None and any(
            str(blob.type()) != _SKETCH for blob in self.jvm.items(file.blobMetadata())
        )

    def _names(self, base: Any, due: _Due) -> list[str] | None:
        """The columns to compute, with those of the file that is replaced; None: all of a primitive type."""
        file = self._file(base, due.snapshot)
        kept = _fields_of(self.jvm, file) if file is not None else set()
        fields = self._schema_of(base, due.snapshot).by_id
        if due.columns is None:
            wanted = dict.fromkeys(sorted(self._plain(base, due.snapshot)), "")
            if kept.isdisjoint(fields.keys() - wanted.keys()):
                return None
        else:
            wanted = {column.id: column.iceberg_name for column in due.columns}
        numbers = dict.fromkeys([*wanted, *sorted(kept & fields.keys())])
        return [fields[n].iceberg_name if n in fields else wanted[n] for n in numbers]

    def compute(self, outdated: Outdated, most_bytes: int, run_id: str) -> Computed:
        """See ``spi.Statistics.compute``. Statistics of a snapshot are one whole, whatever its size."""
        due: _Due = outdated.native
        table = self.table()
        self._require_same(table.operations().current(), due)
        # What an action commits to the operations of a transaction is never sent to the catalog. The transaction's own
        # table cannot be scanned.
        staged = self.jvm.api.BaseTable(table.newTransaction().table().operations(), table.name())
        actions = self.jvm.static("org.apache.iceberg.spark.actions.SparkActions", "get")(self.jvm.session)
        values = partitions = None
        if due.values:
            action = actions.computeTableStats(staged).snapshot(due.snapshot)
            names = self._names(table.operations().current(), due)
            if names:
                action = action.columns(self.jvm.array(self.jvm.view.java.lang.String, names))
            values = action.execute().statisticsFile()
        if due.partitions:
            try:
                action = actions.computePartitionStats(staged).snapshot(due.snapshot)
                partitions = action.execute().statisticsFile()
            except BaseException:
                self._delete(_paths(values))
                raise
        made, paths = _Made(due, values, partitions), _paths(values, partitions)
        rest = Outdated(outdated.version, 0, 0, outdated.reason)
        return Computed(outdated.files, outdated.bytes, rest, paths, made)

    def _require_same(self, base: Any, due: _Due) -> None:
        if str(base.uuid()) != due.table_uuid:
            raise Conflict(f"{self.name}: the table was dropped and created again under its name")

    def commit(self, computed: Computed, run_id: str) -> int | None:
        """See ``spi.Statistics.commit``. None if the snapshot has expired. The log does not record ``run_id``."""
        made: _Made = computed.native
        with self.lock(made.due.table_uuid):
            with preparing(self.name):
                table = self.table()
                base = table.operations().current()
                self._require_same(base, made.due)
                require_newest(self.jvm, self.name, table)
                if base.snapshot(made.due.snapshot) is None:
                    return None
                self._require_no_less(base, made)
                updated = self.jvm.api.TableMetadata.buildFrom(base)
                if made.values is not None:
                    updated = updated.setStatistics(made.values)
                if made.partitions is not None:
                    updated = updated.setPartitionStatistics(made.partitions)
                updated = updated.build()
            swap(self.name, "the statistics", table, base, updated)
        return made.due.snapshot

    def _require_no_less(self, base: Any, made: _Made) -> None:
        """Raise Conflict if the file that would be replaced has meanwhile got what the new one lacks."""
        file = self._file(base, made.due.snapshot) if made.values is not None else None
        if file is None:
            return
        lacks = _fields_of(self.jvm, file) - _fields_of(self.jvm, made.values)
        if lacks & self._schema_of(base, made.due.snapshot).by_id.keys() or self._foreign(
            base, made.due.snapshot
        ):
            raise Conflict(
                f"{self.name}: other statistics of snapshot {made.due.snapshot} were added meanwhile; nothing was "
                "committed"
            )

    def landed(self, computed: Computed, run_id: str) -> int | None:
        """See ``spi.Statistics.landed``: whether the metadata names the files."""
        base = self.table().operations().current()
        named = {
            str(file.path())
            for files in (base.statisticsFiles(), base.partitionStatisticsFiles())
            for file in self.jvm.items(files)
        }
        return computed.native.due.snapshot if named.issuperset(computed.paths) else None

    def discard(self, computed: Computed) -> None:
        """See ``spi.Statistics.discard``; a file that cannot be deleted is an orphan."""
        self._delete(computed.paths)

    def _delete(self, paths: Sequence[str]) -> None:
        for path in paths:
            with suppress(Exception):
                self.table().io().deleteFile(path)


def _paths(*files: Any) -> tuple[str, ...]:
    """Locations of statistics files, without None."""
    return tuple(str(file.path()) for file in files if file is not None)


def _aged(what: str, line: Sequence[Any], known: Collection[int], threshold: float) -> tuple[bool, Reason]:
    """Whether statistics are due, and why, by the rows that changed since the newest ancestor that has them."""
    changed: int | None = 0
    for snapshot in line:
        if int(snapshot.snapshotId()) in known:
            share = _share(changed, line[0])
            facts = {"share": share, "snapshot": int(snapshot.snapshotId()), "threshold": threshold}
            due = int(snapshot.snapshotId()) != int(line[0].snapshotId()) and share >= threshold
            code, sentence = ("statistics_outdated", _CHANGED) if due else ("statistics_fresh", _FRESH)
            return due, Reason.of(code, sentence, **facts)
        changed = _plus(changed, snapshot)
    return True, Reason.of("statistics_missing", _NONE, what=what)


def _plus(changed: int | None, snapshot: Any) -> int | None:
    """With the rows that a snapshot added or deleted; None if its summary does not say."""
    if str(snapshot.operation()) == "replace":
        return changed
    summary = snapshot.summary()
    counts = [_count(summary, name) for name in _CHANGES]
    known = [count for count in counts if count is not None]
    return None if changed is None or not known else changed + sum(known)


def _share(changed: int | None, newest: Any) -> float:
    """Changed rows as a share of all rows; 1 if it is not known."""
    total = _count(newest.summary(), "total-records")
    if changed is None or not total:
        return 0.0 if changed == 0 else 1.0
    return min(changed / total, 1.0)


def _count(summary: Any, name: str) -> int | None:
    text = summary.get(name)
    return int(text) if text is not None and str(text).isdigit() else None


def _fields_of(jvm: Iceberg, file: Any) -> set[int]:
    """Ids of the columns that a statistics file has sketches of."""
    blobs = [blob for blob in jvm.items(file.blobMetadata()) if str(blob.type()) == _SKETCH]
    return {int(number) for blob in blobs for number in jvm.items(blob.fields())}
