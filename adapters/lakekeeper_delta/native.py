"""Delta's own classes through py4j: snapshots, AddFiles and transactions of one table."""

from __future__ import annotations

import hashlib
import json
import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

from lakekeeper.errors import AdapterError, NotFound, reason, throwable
from lakekeeper.spark.jvm import Jvm
from lakekeeper_delta import session_confs
from lakekeeper_delta.char_columns import holds_char
from lakekeeper_delta.features import refusals
from lakekeeper_delta.log_marks import marks_of, same_mark
from lakekeeper_delta.shims import shim_of

_DELTA = "org.apache.spark.sql.delta"
_MISSING = ("FileNotFoundException", "NoSuchFileException")
_JOB_FAILED = "org.apache.spark.SparkException"
_KEPT_SNAPSHOTS = 3  # the planned version, a winner's, and the one before: a state can take much memory
_PINNED = 4  # versions that merges read; those of one round read the same
_LOOKED_AT = 20  # commits searched for the protocol if Delta's error lacks it

# Field metadata that determines how values are stored in files. Appends may change comments and identity marks.
_LAYOUT_METADATA = (
    "delta.columnMapping.",
    "delta.generationExpression",
    "delta.typeChanges",
    "__CHAR_VARCHAR",
)


@dataclass(frozen=True, slots=True)
class State:
    """One version of the table: Delta's Snapshot object, and the metadata in constant use.

    ``schema`` is the JSON schema as plain data; ``reader``, ``writer`` and ``features`` are the protocol. ``marks`` has
    those of its own commit and of others since its checkpoint, by version (see ``log_marks``).
    """

    snapshot: Any
    version: int
    table_uuid: str
    schema: Mapping[str, Any]
    partition_columns: tuple[str, ...]
    properties: Mapping[str, str]
    reader: int
    writer: int
    features: frozenset[str]
    marks: Mapping[int, str]

    @property
    def log_mark(self) -> str:
        """The mark of the version's own commit."""
        return self.marks[self.version]

    @property
    def mapped(self) -> bool:
        """Whether column mapping is on, so that files and statistics use physical column names."""
        return self.properties.get("delta.columnMapping.mode", "none") != "none"

    def switched_on(self, name: str) -> bool:
        """Whether the table property ``delta.<name>`` is true."""
        return self.properties.get(f"delta.{name}", "false").lower() == "true"

    @property
    def masks_rows(self) -> bool:
        """Whether deletion vectors may be written.

        Delta cannot read a file with a deletion vector if the table has a column named ``_metadata``.
        """
        if "deletionVectors" not in self.features or not self.switched_on("enableDeletionVectors"):
            return False
        return all(column["name"].lower() != "_metadata" for column in self.schema["fields"])

    @property
    def tracks_rows(self) -> bool:
        """Whether row tracking is on, so that a rewrite must preserve the id of each row."""
        return self.switched_on("enableRowTracking")

    @property
    def schema_id(self) -> str:
        """Changes if rows written for one version cannot be added to the other unchanged."""
        physical = {
            key: value
            for key, value in self.properties.items()
            if key == "delta.columnMapping.mode" or key.lower().startswith("delta.rowtracking.materialized")
        }
        facts = [
            _layout(self.schema),
            self.partition_columns,
            sorted(physical.items()),
            self.tracks_rows,
        ]
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def _layout(schema: Any) -> Any:
    """A schema without the parts that do not affect files."""
    if isinstance(schema, list):
        return [_layout(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    return {
        key: {k: v for k, v in value.items() if k.startswith(_LAYOUT_METADATA)}
        if key == "metadata"
        else _layout(value)
        for key, value in schema.items()
    }


class Log:
    """The DeltaLog of one table; safe to use from several driver threads."""

    def __init__(self, jvm: Jvm, name: str, log: Any, catalog_table: Any) -> None:
        """``catalog_table`` is a Scala Option; Delta needs it for every table opened through a catalog."""
        self.jvm = jvm
        self.shim = shim_of(jvm)
        self.name = name
        self.log = log
        self.catalog_table = catalog_table
        self.single_driver = False  # set by the operator for the current run, see `log_stores`
        self.fixed_trino = False  # likewise, see `trino_cleanup`
        self._lock = Lock()
        self._kept: OrderedDict[int, State] = OrderedDict()
        self._pinned: OrderedDict[int, State] = OrderedDict()
        self._folders: set[str] = set()

    def latest(self) -> State:
        """The newest version, freshly listed. Raises NotFound if no table exists, Unsupported if Delta rejects it."""
        with refusals(self.name, lambda: protocol_text(self.jvm, self.log.logPath())):
            return self._known(self.log.update(False, self.jvm.none(), self.catalog_table))

    def in_memory(self) -> State:
        """The newest version at Delta's last update; lists nothing. Raises NotFound if no table exists."""
        return self._known(self.log.unsafeVolatileSnapshot())

    def _known(self, snapshot: Any) -> State:
        version = int(snapshot.version())
        if version < 0:
            raise NotFound(self.name, "no Delta table is left here: its _delta_log has no version")
        with self._lock:
            known = self._kept.get(version)
            # Delta returns another object if the table was recreated at the same location, or if the version now
            # consists of other files of the log: a checkpoint may have replaced commits, which may be deleted.
            if known is not None and bool(known.snapshot.equals(snapshot)):
                self._kept.move_to_end(version)
                return known
        newest = self._keep(snapshot)
        self._forget_replaced(newest)
        return newest

    def at(self, version: int, table_uuid: str) -> State:
        """An older version. Raises NotFound if the log no longer has it, or if it is another table's.

        Raises AdapterError if the log could not be read, which says nothing about the version.
        """
        with self._lock:
            for known in (*reversed(self._kept.values()), *self._pinned.values()):
                if (known.version, known.table_uuid) == (version, table_uuid):
                    if version in self._kept:
                        self._kept.move_to_end(version)
                    return known
        try:
            snapshot = self.shim.snapshot_at(self, version)
        except Exception as error:
            if self._says_gone(error):
                raise NotFound(
                    self.name, f"version {version} can no longer be read ({reason(error)})"
                ) from error
            raise AdapterError(
                f"{self.name}: version {version} could not be read ({reason(error)})"
            ) from error
        state = self._keep(snapshot)
        if state.table_uuid != table_uuid:
            raise NotFound(self.name, f"version {version} belongs to another table, created in its place")
        return state

    def _says_gone(self, error: Exception) -> bool:
        """Whether an error says that the log lacks a version, or a part of it; not that the storage or a job failed."""
        from py4j.java_gateway import is_instance_of

        java, gateway, failed = throwable(error), self.jvm.spark.sparkContext._gateway, False
        if java is None:
            return False
        while java is not None:
            kind = str(java.getClass().getName())
            if kind.endswith(_MISSING):
                return True
            failed |= kind == _JOB_FAILED or is_instance_of(gateway, java, "java.io.IOException")
            java = java.getCause()
        return not failed

    def _keep(self, snapshot: Any) -> State:
        metadata, protocol, version = snapshot.metadata(), snapshot.protocol(), int(snapshot.version())
        state = State(
            snapshot=snapshot,
            version=version,
            table_uuid=str(metadata.id()),
            schema=json.loads(metadata.schemaString()),
            partition_columns=tuple(map(str, self.jvm.python_list(metadata.partitionColumns()))),
            properties=self.jvm.python_map(metadata.configuration()),
            reader=int(protocol.minReaderVersion()),
            writer=int(protocol.minWriterVersion()),
            features=frozenset(
                map(str, self.jvm.python_list(protocol.readerAndWriterFeatureNames().toSeq()))
            ),
            marks=marks_of(snapshot.logSegment(), version),
        )
        with self._lock:
            self._kept[state.version] = state
            self._kept.move_to_end(state.version)
            while len(self._kept) > _KEPT_SNAPSHOTS:
                self._kept.popitem(last=False)
        return state

    def _forget_replaced(self, newest: State) -> None:
        """Forget the versions of a log that was rolled back or replaced, as far as the newest version shows it."""
        with self._lock:
            for states in (self._kept, self._pinned):
                for version, known in list(states.items()):
                    now = newest.marks.get(version, known.log_mark)
                    if version > newest.version or not same_mark(now, known.log_mark):
                        del states[version]

    def pin(self, state: State) -> None:
        """Keep a version that a merge reads: its commits may leave the log before the merge ends."""
        with self._lock:
            self._pinned[state.version] = state
            self._pinned.move_to_end(state.version)
            while len(self._pinned) > _PINNED:
                self._pinned.popitem(last=False)

    def retention_ms(self, state: State) -> int:
        """How long removed files are kept from Delta's own vacuum: as the table sets it, else Delta's default."""
        configs = self.singleton("DeltaConfigs")
        interval = configs.TOMBSTONE_RETENTION().fromMetaData(state.snapshot.metadata())
        return int(configs.getMilliSeconds(interval))

    @property
    def delta(self) -> Any:
        """The package ``org.apache.spark.sql.delta``."""
        return self.jvm.view.org.apache.spark.sql.delta

    def singleton(self, name: str) -> Any:
        """A Scala object below the package ``org.apache.spark.sql.delta``."""
        return self.jvm.object(f"{_DELTA}.{name}")

    def scan(
        self, state: State, adds: Any, *, numbered: bool = False, padded: bool = False, whole: bool = False
    ) -> Any:
        """The live rows of AddFiles (a java.util.List) as a PySpark DataFrame, with the columns of ``state``.

        The files need not be in any version. ``numbered``: the metadata has row indexes, and vectors are applied
        even if the protocol of ``state`` lacks the feature. ``padded``: CHAR columns have the values that a query sees,
        in conditions too; otherwise those that are stored, which rewrites keep. ``whole``: no row group is skipped by
        a condition.
        """
        snapshot = self._with_vectors(state) if numbered else state.snapshot
        with self.jvm.active():
            frame = self.log.createDataFrame(
                snapshot, self.scala_seq(adds), False, self.jvm.some("Lakekeeper")
            )
        chars = padded and any(map(holds_char, state.schema["fields"]))
        return self.jvm.dataframe(self._strict(frame, snapshot.schema() if chars else None, whole=whole))

    def _strict(self, frame: Any, schema: Any = None, *, whole: bool = False) -> Any:
        """The scan as one that fails on a missing or damaged file, whatever the session is configured to do.

        Rows of a silently skipped file would count as deleted, or become live again.
        """
        relation = frame.queryExecution().analyzed().collectLeaves().head().relation()
        options = relation.options().updated("ignoreMissingFiles", "false")
        options = options.updated("ignoreCorruptFiles", "false")
        return self._reading(frame, relation.location(), options, schema, whole=whole)

    def located(self, frame: Any, location: Any) -> Any:
        """A PySpark DataFrame like ``frame``, also a PySpark DataFrame, over the files of another index."""
        relation = frame._jdf.queryExecution().analyzed().collectLeaves().head().relation()
        return self.jvm.dataframe(self._reading(frame._jdf, location, relation.options()))

    def _reading(
        self, frame: Any, location: Any, options: Any, schema: Any = None, *, whole: bool = False
    ) -> Any:
        """The scan of a frame with another index and other options, under the confs of ``session_confs``.

        The analyzer has added the padding of CHAR columns above the relation and removed their type from it. With a
        ``schema``, a StructType, the relation has the type again, so that the analyzer pads columns and literals.
        """
        plan = frame.queryExecution().analyzed().collectLeaves().head()
        relation = plan.relation()
        made = relation.copy(
            location,
            relation.partitionSchema(),
            relation.dataSchema(),
            relation.bucketSpec(),
            relation.fileFormat(),
            options,
            session_confs.reading(relation.sparkSession(), whole=whole),
        )
        output = plan.output() if schema is None else self._typed(plan.output(), schema)
        return self.jvm.rows_of_plan(self.jvm.shim.with_relation(plan, made, output), frame.sparkSession())

    def _typed(self, attributes: Any, schema: Any) -> Any:
        """The attributes of a relation with the metadata of a schema's fields, which has the types of CHAR columns."""
        names = set(map(str, schema.fieldNames()))
        return self.jvm.seq(
            [
                each.withMetadata(schema.apply(each.name()).metadata()) if str(each.name()) in names else each
                for each in self.jvm.python_list(attributes)
            ]
        )

    def _with_vectors(self, state: State) -> Any:
        """A snapshot to read with: Delta numbers rows and applies vectors only if the protocol has the feature."""
        if "deletionVectors" in state.features:
            return state.snapshot
        vectors = self.singleton("actions.Protocol").forTableFeature(
            self.singleton("DeletionVectorsTableFeature")
        )
        protocol = state.snapshot.protocol().merge(self.jvm.seq([vectors]))
        return self.delta.DummySnapshot(
            self.log.logPath(), self.log, state.snapshot.metadata(), self.jvm.some(protocol)
        )

    def with_row_ids(self, state: State, rows: Any) -> Any:
        """The rows of :meth:`scan` with columns for row id and row commit version, if row tracking is on."""
        with self.jvm.active():
            kept = self.singleton("RowTracking").preserveRowTrackingColumns(rows._jdf, state.snapshot)
        return self.jvm.dataframe(kept)

    def table_object(self) -> Any:
        """A DeltaTableV2, which Delta's ALTER TABLE commands take."""
        return self.shim.table_object(self)

    def scala_seq(self, items: Any) -> Any:
        """A java.util.List as a Scala Seq."""
        return self.jvm.scala_seq(items)

    def transaction(self, state: State) -> Any:
        """A new OptimisticTransaction that has read ``state``."""
        return self.log.startTransaction(self.catalog_table, self.jvm.some(state.snapshot))

    def at_folder(self, run: str) -> Any:
        """A DeltaLog whose data path is the folder of a run, or one in it: files written by it are stored there.

        No log exists at that path, and none is created.
        """
        path = self.jvm.view.org.apache.hadoop.fs.Path
        folder = path(self.log.dataPath(), run)
        with self._lock:
            self._folders.add(run)
        return self.shim.log_at(self, folder)

    def forget_folder(self, run: str) -> None:
        """Drop the folder of a run, and those in it, from Delta's cache."""
        with self._lock:
            known = {folder for folder in self._folders if folder == run or folder.startswith(f"{run}/")}
            self._folders -= known
        for folder in known | {run}:
            path = self.jvm.view.org.apache.hadoop.fs.Path(self.log.dataPath(), folder)
            self.singleton("DeltaLog").invalidateCache(self.jvm.session, path)

    def writer(self, state: State, run: str, metadata: Any = None) -> Any:
        """An OptimisticTransaction that writes files for ``state`` into the folder of a run; it is never committed.

        With ``metadata``, it has this Metadata action instead of the one of ``state``.
        """
        folder = self.at_folder(run)
        metadata, protocol = metadata or state.snapshot.metadata(), self.jvm.some(state.snapshot.protocol())
        snapshot = self.delta.DummySnapshot(folder.logPath(), folder, metadata, protocol)
        return self.delta.OptimisticTransaction(folder, self.jvm.none(), snapshot)

    def edited(self, action: Any, **changes: Any) -> Any:
        """A copy of an action with some fields changed, through its JSON: its constructor differs between releases."""
        data = json.loads(action.json())
        (body,) = data.values()
        body.update(changes)
        return self.action(json.dumps(data))

    def action(self, line: str) -> Any:
        """An action parsed from its JSON."""
        return self.delta.actions.Action.fromJson(line)

    def add_files(self, plain: Sequence[Mapping[str, Any]]) -> Any:
        """AddFile actions from plain data, as a java.util.List: one call, whatever their number."""
        mapper = self.singleton("util.JsonUtils").mapper()
        made = self.jvm.array_list([])
        one = self.jvm.array(self.delta.actions.AddFile, ()).getClass().getComponentType()
        many = mapper.getTypeFactory().constructCollectionType(made.getClass(), one)
        return mapper.readValue(json.dumps(plain), many)

    def moved(self, action: Any, run: str, **changes: Any) -> Any:
        """A copy of an AddFile or AddCDCFile with its path relative to the table instead of the folder of a run."""
        data = json.loads(action.json())
        (body,) = data.values()
        body.update(changes, path=f"{run}/{body['path']}")
        return self.action(json.dumps(data))


def protocol_text(jvm: Jvm, log_path: Any) -> str:
    """The newest protocol action of the last few commits, else of the first; empty if none can be found."""
    try:
        files = log_path.getFileSystem(jvm.session.sessionState().newHadoopConf())
        names = sorted(str(status.getPath().getName()) for status in files.listStatus(log_path))
        commits = [name for name in names if re.fullmatch(r"\d{20}\.json", name)]
        for name in dict.fromkeys([*reversed(commits[-_LOOKED_AT:]), *commits[:1]]):
            stream = files.open(jvm.view.org.apache.hadoop.fs.Path(log_path, name))
            try:
                lines = bytes(stream.readAllBytes()).decode().splitlines()
            finally:
                stream.close()
            found = next((line for line in lines if line.startswith('{"protocol"')), None)
            if found is not None:
                return json.dumps(json.loads(found)["protocol"])
    except Exception:  # it only improves a message
        return ""
    return ""
