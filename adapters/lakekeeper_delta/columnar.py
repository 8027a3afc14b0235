"""The columnar half of a Delta table: which merges columnar workers may do, and their files as AddFile actions.

Everything here is an allow-list: a type, feature, property or store that is not named is merged by rows in Spark.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

from lakekeeper.columnar.positions import MOST_DELETED_ROWS, pack
from lakekeeper.core.model.file_merge import (
    ROW_ID,
    S3,
    VERSION,
    FileColumn,
    FileInput,
    FileMerge,
    WrittenFile,
)
from lakekeeper.core.model.plan import MergeTask
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.planning.rewrites import Output, Rewrite
from lakekeeper.spark.jvm import on_local_disk
from lakekeeper.spark.s3_access import S3A, NotFollowed, of_s3a
from lakekeeper_delta import partition_values, rewrite
from lakekeeper_delta.columns import physical_step
from lakekeeper_delta.deletion_vectors import positions, vector_of
from lakekeeper_delta.known_state import inputs_of
from lakekeeper_delta.native import Log, State
from lakekeeper_delta.statistics import Indexed, stats_json

_KINDS = {
    "boolean": "boolean",
    "byte": "int8",
    "short": "int16",
    "integer": "int32",
    "long": "int64",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_ntz": "timestamp_ntz",
}
_DECIMAL = re.compile(r"decimal\(\d+,\d+\)")
# Metadata of a column that changes neither its values nor how they are stored.
_PLAIN_METADATA = (
    "comment",
    "delta.columnMapping.id",
    "delta.columnMapping.physicalName",
    "delta.constraints",
    "delta.generationExpression",
    "delta.identity.",
    "delta.invariants",
    "delta.typeChanges",
    "CURRENT_DEFAULT",
)
_WRITER_SETTINGS = ("parquet.bloom.filter", "parquet.crypto", "parquet.encryption")
_OF_WRITERS = "parquet."  # Delta's own writer passes the properties of the table to Parquet's
_CODECS = {"none": "none", "uncompressed": "none", "snappy": "snappy", "zstd": "zstd", "gzip": "gzip"}
_ROW_GROUP = "parquet.block.size"
ROW_GROUP_BYTES = 128 << 20
_NAME = "part-00000-{id}.c000{codec}.parquet"
_SPARK = "org.apache.spark.version"
_LINEAGE = ("RowId", "RowCommitVersion")


class DeltaColumnar:
    """Implements ``spi.Columnar``."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def plan(self, task: MergeTask, run_id: str) -> FileMerge | Reason:
        """See ``spi.Columnar.plan``."""
        try:
            return self._plan(task, run_id)
        except (Refused, NotFollowed) as refused:
            return Reason.of(Code.MERGED_BY_ROWS, cause=str(refused))

    def _plan(self, task: MergeTask, run_id: str) -> FileMerge:
        log = self._log
        state = log.at(task.read_version, task.table_uuid)
        conf = _conf_of(log, state)
        columns = _columns(state)
        key, cut = _key(state, task, columns)
        adds = [
            (add, json.loads(add.json())["add"])
            for add in log.jvm.items(inputs_of(log, state, task.id, task.inputs))
        ]
        if sum(_deleted(data) for _, data in adds) > MOST_DELETED_ROWS:
            raise Refused("too many deleted rows")
        found = dict(input_of(log, conf.root, add, data, ids=state.tracks_rows) for add, data in adds)
        return FileMerge(
            inputs=tuple(found[path] for path in task.inputs),
            columns=columns,
            key=key,
            folder=f"{conf.root}/{rewrite.folder_of(task, run_id)}",
            name=_NAME,
            target_bytes=task.target_bytes,
            row_group_bytes=min(conf.row_group_bytes, max(task.target_bytes // 4, 1)),
            target_rows=task.target_rows,
            cut_column=cut,
            cuts=task.cuts,
            codec=conf.codec,
            footer=((_SPARK, str(log.jvm.spark.version)),),
            spark_calendar=True,
            store=conf.store,
        )

    def adopt(
        self, merge: FileMerge, written: Sequence[WrittenFile], task: MergeTask, run_id: str
    ) -> Rewrite:
        """See ``spi.Columnar.adopt``."""
        log = self._log
        state = log.at(task.read_version, task.table_uuid)
        inputs = log.jvm.items(inputs_of(log, state, task.id, task.inputs))
        partition = partition_values.of_task(log, state, inputs) or {}
        folder, indexed = rewrite.folder_of(task, run_id), Indexed.of(log, state)
        outputs = tuple(
            Output(f"{folder}/{file.path.rpartition('/')[2]}", file.rows, file.bytes) for file in written
        )
        now_ms = time.time_ns() // 1_000_000
        actions = []
        for file, output in zip(written, outputs, strict=True):
            add = {
                "path": output.path,
                "partitionValues": partition,
                "size": file.bytes,
                "modificationTime": now_ms,
                "stats": stats_json(indexed, merge.columns, file),
                **rewrite.marks(state, task, None),
            }
            actions.append(log.action(json.dumps({"add": add})))
        rows = _live_rows(merge)
        native = rewrite.Written(actions, inputs, merge=merge)
        return Rewrite(task, outputs, rows, native=native, run_id=run_id)


class Refused(Exception):
    """Why a merge is left to Spark's rows."""


class _Conf:
    """What the table and the session say of files: their folder, store, codec, and the size of row groups."""

    def __init__(self, root: str, store: S3 | None, codec: str | None, row_group_bytes: int) -> None:
        self.root = root
        self.store = store
        self.codec = codec
        self.row_group_bytes = row_group_bytes


def _conf_of(log: Log, state: State) -> _Conf:
    hadoop = log.log.newDeltaHadoopConf()
    for prefix in _WRITER_SETTINGS:
        if not hadoop.getPropsWithPrefix(prefix).isEmpty():
            raise Refused(f"the session sets {prefix}")
    for name in sorted(state.properties):
        if name.startswith(_OF_WRITERS):
            raise Refused(f"the table sets {name}")
    codec = rewrite.chosen_codec(log, state)
    if codec is not None and codec.lower() not in _CODECS:
        raise Refused(f"the codec {codec}")
    root, store = place(log, hadoop)
    return _Conf(
        root,
        store,
        None if codec is None else _CODECS[codec.lower()],
        int(hadoop.getLong(_ROW_GROUP, ROW_GROUP_BYTES)),
    )


def place(log: Log, hadoop: Any) -> tuple[str, S3 | None]:
    """The table's folder as workers name it, and the store that it is in.

    Raises Refused or NotFollowed if workers cannot read from it.
    """
    root = log.log.dataPath()
    files, uri = root.getFileSystem(hadoop), root.toUri()
    path = str(uri.getPath()).rstrip("/")
    if on_local_disk(files):
        return path, None
    if str(files.getClass().getName()) != S3A:
        raise Refused(f"workers do not read from {files.getScheme()}")
    bucket = str(uri.getAuthority())
    return f"{bucket}{path}", of_s3a(log.jvm, files, bucket)


def _columns(state: State) -> tuple[FileColumn, ...]:
    """The columns that are stored in files."""
    fields = [f for f in state.schema["fields"] if f["name"] not in state.partition_columns]
    if not fields:
        raise Refused("files without columns")
    return (*(_column(state, field) for field in fields), *_lineage(state))


def _lineage(state: State) -> tuple[FileColumn, ...]:
    """With row tracking: the columns in which files store the ids of rows and the versions that wrote them."""
    if not state.tracks_rows:
        return ()
    names = [state.properties.get(f"delta.rowTracking.materialized{name}ColumnName") for name in _LINEAGE]
    if None in names:
        raise Refused("row tracking without columns for ids")
    return tuple(
        FileColumn(str(name), "int64", replaces_null=what)
        for name, what in zip(names, (ROW_ID, VERSION), strict=True)
    )


def _column(state: State, field: Mapping[str, Any]) -> FileColumn:
    by_id = state.properties.get("delta.columnMapping.mode") == "id"
    return replace(_part(state, field, field["name"]), by_id=by_id)


def _part(state: State, field: Mapping[str, Any], path: str) -> FileColumn:
    """A column, or a field of a nested one. Raises Refused for a type that workers do not merge."""
    metadata = field.get("metadata", {})
    for fact in metadata:
        if not fact.startswith(_PLAIN_METADATA):
            raise Refused(f"column {path} has {fact}")
    number = metadata.get("delta.columnMapping.id") if state.mapped else None
    made = _of_type(state, physical_step(state, field), field["type"], path)
    return replace(made, field_id=None if number is None else int(number))


def _of_type(state: State, name: str, kind: Any, path: str) -> FileColumn:
    if isinstance(kind, str):
        if kind not in _KINDS and not _DECIMAL.fullmatch(kind):
            raise Refused(f"column {path} is of type {kind}")
        return FileColumn(name, _KINDS.get(kind, kind))
    if kind["type"] == "struct":
        fields = tuple(_part(state, part, f"{path}.{part['name']}") for part in kind["fields"])
        return FileColumn(name, "struct", children=fields)
    if kind["type"] == "array":
        element = _of_type(state, "element", kind["elementType"], f"{path}.element")
        return FileColumn(name, "list", children=(element,))
    if kind["type"] == "map":
        key = replace(_of_type(state, "key", kind["keyType"], f"{path}.key"), nullable=False)
        return FileColumn(
            name, "map", children=(key, _of_type(state, "value", kind["valueType"], f"{path}.value"))
        )
    raise Refused(f"column {path} is of type {kind['type']}")


def _key(state: State, task: MergeTask, columns: Sequence[FileColumn]) -> tuple[tuple[int, ...], int]:
    """Positions of the key's columns and of the cut column. A partition column is constant within a task."""
    if task.key is None:
        return (), 0
    if task.key.curved:
        raise Refused(f"a key of layout {task.key.layout}")
    stored = [
        physical_step(state, field)
        for column in task.key.columns
        if column.path[0] not in state.partition_columns
        for field in state.schema["fields"]
        if field["name"] == column.path[0]
    ]
    place = {column.name: number for number, column in enumerate(columns)}
    if any(len(column.path) > 1 for column in task.key.columns):
        raise Refused("a key in a nested column")
    cut = task.key.columns[task.cut_column].path[0]
    cuts = [f for f in state.schema["fields"] if f["name"] == cut and cut not in state.partition_columns]
    if task.cuts and not cuts:
        raise Refused("ranges of a partition column")
    return tuple(place[name] for name in stored), place[physical_step(state, cuts[0])] if cuts else 0


def _deleted(data: Mapping[str, Any]) -> int:
    """Rows of a file that its deletion vector names."""
    return int((data.get("deletionVector") or {"cardinality": 0})["cardinality"])


def input_of(log: Log, root: str, add: Any, data: Mapping[str, Any], *, ids: bool) -> tuple[str, FileInput]:
    """An input by its path in the log, from its entry ``data``; ``ids``: each of its rows has an id."""
    rows = json.loads(data.get("stats") or "{}").get("numRecords")
    if rows is None:
        raise Refused("a file whose row count the log lacks")
    deleted = ""
    if data.get("deletionVector"):
        deleted = pack(positions(log, vector_of(log, add)))
    path = f"{root}/{unquote(data['path'])}"
    numbers = (data.get("baseRowId"), data.get("defaultRowCommitVersion")) if ids else (None, None)
    if ids and None in numbers:
        raise Refused("a file older than the table's row ids")
    return str(data["path"]), FileInput(path, int(rows), deleted, *numbers)


def _live_rows(merge: FileMerge) -> int:
    """Rows of the inputs that are not deleted; workers check the counts against the files."""
    from lakekeeper.columnar.positions import unpack

    return sum(int(each.rows or 0) - len(unpack(each.deleted)) for each in merge.inputs)
