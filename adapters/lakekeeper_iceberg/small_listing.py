"""The live files of a small table, from its manifests: read in the driver, in a few calls and without a Spark job.

    manifests ─► ManifestFiles.read ─► one text for each file ─► Arrow      the same rows as from the ``entries`` table

A table whose partitions or bounds may have another text than Spark gives them is left to Spark.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakekeeper.core.model.keys import arrow_type
from lakekeeper_iceberg.native import Iceberg

PATH_FIELD = 2147483546  # reserved field id of `file_path` in position delete files
MOST_FILES, MOST_MANIFESTS, MOST_BYTES = 5_000, 100, 16 << 20

_ICEBERG = "org.apache.iceberg."
_FILE, _DELETE, _MANIFEST = (_ICEBERG + name for name in ("DataFile", "DeleteFile", "ManifestFile"))
_TEXT, _LONG, _INTEGER = ("java.lang." + name for name in ("String", "Long", "Integer"))
_CONTENT = {"DATA": 0, "POSITION_DELETES": 1, "EQUALITY_DELETES": 2}
_EPOCH = date(1970, 1, 1)
_WHOLE = {"int": pa.int32(), "long": pa.int64(), "timestamptz": pa.timestamp("us", tz="UTC"),
          "timestamp": pa.timestamp("us"), "date": pa.date32()}  # fmt: skip
_REAL = {"float": pa.float32(), "double": pa.float64()}
BOUNDS = (("lower_bound", "lowerBounds"), ("upper_bound", "upperBounds"))
COUNTS = (
    ("null_value_count", "nullValueCounts"),
    ("nan_value_count", "nanValueCounts"),
    ("value_count", "valueCounts"),
)
_SCALARS: tuple[tuple[str, str, str, pa.DataType], ...] = (
    ("content", "content", _ICEBERG + "FileContent", pa.int32()),
    ("seq", "dataSequenceNumber", _LONG, pa.int64()),
    ("file_seq", "fileSequenceNumber", _LONG, pa.int64()),
    ("path", "location", _TEXT, pa.string()),
    ("spec", "specId", "int", pa.int32()),
    ("rows", "recordCount", "long", pa.int64()),
    ("bytes", "fileSizeInBytes", "long", pa.int64()),
)
_OF_DELETE: tuple[tuple[str, str, str, pa.DataType], ...] = (
    ("referenced", "referencedDataFile", _TEXT, pa.string()),
    ("dv_offset", "contentOffset", _LONG, pa.int64()),
    ("dv_bytes", "contentSizeInBytes", _LONG, pa.int64()),
)


class _Unlike(Exception):
    """A value whose text Spark may spell in another way."""


@dataclass(frozen=True, slots=True)
class _Manifest:
    """A Java ManifestFile, its path, and whether it lists delete files."""

    java: Any
    path: str
    deletes: bool


@dataclass(frozen=True, slots=True)
class _Metric:
    """A column whose metrics are listed: its field id, and its type in Iceberg's spelling."""

    id: int
    type: str

    @property
    def arrow(self) -> pa.DataType:
        """The type of its bounds."""
        if self.type.startswith("decimal("):
            return arrow_type(self.type)
        return _WHOLE.get(self.type) or _REAL.get(self.type) or pa.string()

    @property
    def known(self) -> bool:
        return self.type in (*_WHOLE, *_REAL, "string") or self.type.startswith("decimal(")


def list_files(jvm: Iceberg, table: Any, metrics: Sequence[str]) -> tuple[pa.Table, pa.Table] | None:
    """(data files, delete files) as in ``listing.Listing``; None for a table that a Spark job has to list."""
    snapshot = table.currentSnapshot()
    return (
        None if snapshot is None else list_manifests(jvm, table, snapshot.allManifests(table.io()), metrics)
    )


def list_manifests(
    jvm: Iceberg, table: Any, manifests: Any, metrics: Sequence[str]
) -> tuple[pa.Table, pa.Table] | None:
    """Like :func:`list_files`, for some of the table's manifests (a Java or Python list)."""
    metadata = table.operations().current()
    if int(metadata.formatVersion()) < 2:
        return None  # sequence numbers say when a file was added
    requested = [_metric(metadata.schema(), name) for name in metrics]
    specs = jvm.items(metadata.specs())
    parts = _partition(jvm, specs[0]) if len(specs) == 1 else None
    if parts is None or not all(each.known for each in requested):
        return None
    few = _few(jvm, jvm.array_list(manifests) if isinstance(manifests, list | tuple) else manifests)
    if few is None:
        return None
    added = _snapshots(jvm, metadata)
    try:
        data = _read(jvm, table, [m for m in few if not m.deletes], parts, requested, deletes=False)
        deletes = _read(jvm, table, [m for m in few if m.deletes], parts, requested, deletes=True)
    except _Unlike:
        return None
    return _with_snapshots(data, added), _with_snapshots(deletes, added)


def checksum(path: str) -> int:
    """The CRC-32 of a manifest's path, by which a listing names the manifest."""
    return zlib.crc32(path.encode())


def _metric(schema: Any, name: str) -> _Metric:
    field = schema.findField(name)
    return _Metric(int(field.fieldId()), str(field.type().toString()).replace(" ", ""))


def _partition(jvm: Iceberg, spec: Any) -> list[tuple[str, str]] | None:
    """(name, type) of the partition's fields; None if Spark may give a name or a value another text."""
    fields = jvm.items(spec.partitionType().fields())
    found = [(str(field.name()), str(field.type().toString())) for field in fields]
    known = all(kind in ("int", "long", "date", "string") and _plain(name) for name, kind in found)
    return found if known else None


def _few(jvm: Iceberg, manifests: Any) -> list[_Manifest] | None:
    """The manifests; None if there are too many, or too many files in them."""
    getters = [
        (_MANIFEST, "path", _TEXT),
        (_MANIFEST, "content", _ICEBERG + "ManifestContent"),
        (_MANIFEST, "length", "long"),
        (_MANIFEST, "addedFilesCount", _INTEGER),
        (_MANIFEST, "existingFilesCount", _INTEGER),
    ]
    found = jvm.records(manifests, _MANIFEST, getters)
    if len(found) > MOST_MANIFESTS or any(not text for each in found for text in each):
        return None
    if sum(int(size) for _, _, size, *_ in found) > MOST_BYTES:
        return None
    if sum(int(added) + int(existing) for *_, added, existing in found) > MOST_FILES:
        return None
    return [
        _Manifest(java, path, content != "DATA")
        for java, (path, content, *_) in zip(jvm.items(manifests), found, strict=True)
    ]


def _snapshots(jvm: Iceberg, metadata: Any) -> dict[int, int]:
    """Sequence number → snapshot id."""
    cls = _ICEBERG + "Snapshot"
    pairs = jvm.records(
        metadata.snapshots(), cls, [(cls, "sequenceNumber", "long"), (cls, "snapshotId", "long")]
    )
    return {int(number): int(snapshot) for number, snapshot in pairs}


def _with_snapshots(files: pa.Table, snapshots: dict[int, int]) -> pa.Table:
    """With the snapshot that added each file: null if it has expired. An unknown sequence number becomes 0."""
    added = pa.array([snapshots.get(number) for number in files["file_seq"].to_pylist()], pa.int64())
    for name in ("seq", "file_seq"):
        at = files.column_names.index(name)
        files = files.set_column(at, name, pc.fill_null(files[name], 0))
    return files.append_column("snapshot_id", added)


def _read(
    jvm: Iceberg,
    table: Any,
    manifests: Sequence[_Manifest],
    parts: Sequence[tuple[str, str]],
    metrics: Sequence[_Metric],
    *,
    deletes: bool,
) -> pa.Table:
    """The live files of manifests of one kind. Raises _Unlike."""
    function = _function(jvm, parts, metrics, table.schema(), deletes=deletes)
    read = jvm.api.ManifestFiles.readDeleteManifest if deletes else jvm.api.ManifestFiles.read
    io, specs = table.io(), table.specs()
    rows: list[list[str]] = []
    sums: list[int] = []
    for manifest in manifests:
        reader = read(manifest.java, io, specs)
        try:
            rows += jvm.records_by(reader, function)
        finally:
            reader.close()
        sums += [checksum(manifest.path)] * (len(rows) - len(sums))
    made = _table(rows, parts, metrics, deletes=deletes)
    return made.append_column("manifest", pa.array(sums, pa.int64()))


def _function(
    jvm: Iceberg, parts: Sequence[tuple[str, str]], metrics: Sequence[_Metric], schema: Any, *, deletes: bool
) -> Any:
    """A Java function from a file to the text of all values that are listed of it."""
    cls, of = _DELETE if deletes else _FILE, jvm.handles

    def values() -> list[Any]:
        found = [of.method(cls, name, returns) for _, name, returns, _ in _scalars(deletes)]
        get = of.method(_ICEBERG + "StructLike", "get", "java.lang.Object", "int", "java.lang.Class")
        partition = of.method(cls, "partition", _ICEBERG + "StructLike")
        for at in range(len(parts)):
            given = of.objects([at, of.java_class("java.lang.Object")])
            found.append(of.invoke.filterReturnValue(partition, of.invoke.insertArguments(get, 1, given)))
        for metric in metrics:
            kind = schema.findType(metric.id)
            found += [_bound(jvm, cls, name, metric.id, kind) for _, name in BOUNDS]
            found += [of.entry(cls, name, metric.id) for _, name in COUNTS]
        if deletes:
            text = jvm.view.org.apache.iceberg.types.Types.StringType.get()
            found += [_bound(jvm, cls, name, PATH_FIELD, text) for _, name in BOUNDS]
        return found

    return of.joined(cls, values, "small listing", len(parts), tuple(metrics), deletes)


def _bound(jvm: Iceberg, cls: str, method: str, field: int, kind: Any) -> Any:
    """A handle: the bound of a column in a file, as an object of its type; null without one."""
    of = jvm.handles
    decode = of.static(
        _ICEBERG + "types.Conversions",
        "fromByteBuffer",
        "java.lang.Object",
        _ICEBERG + "types.Type",
        "java.nio.ByteBuffer",
    )
    decoded = of.invoke.insertArguments(decode, 0, of.objects([kind]))
    decoded = decoded.asType(of.type("java.lang.Object", "java.lang.Object"))
    return of.invoke.filterReturnValue(of.entry(cls, method, field), decoded)


def _scalars(deletes: bool) -> tuple[tuple[str, str, str, pa.DataType], ...]:
    return (*_SCALARS, *_OF_DELETE) if deletes else _SCALARS


def _table(
    rows: list[list[str]], parts: Sequence[tuple[str, str]], metrics: Sequence[_Metric], *, deletes: bool
) -> pa.Table:
    scalars = _scalars(deletes)
    width = len(scalars) + len(parts) + (len(BOUNDS) + len(COUNTS)) * len(metrics) + 2 * deletes
    if any(len(row) != width for row in rows):
        raise _Unlike  # a value that holds a separator
    columns: Iterator[Sequence[str]] = iter(zip(*rows, strict=True) if rows else [()] * width)
    made: dict[str, pa.Array] = {}
    for name, _, _, kind in scalars:
        texts = next(columns)
        values: Sequence[Any] = (
            [_CONTENT[text] for text in texts] if name == "content" else _values(texts, kind)
        )
        made[name] = pa.array(values, kind)
    for name, _, _, kind in _OF_DELETE if not deletes else ():
        made[name] = pa.nulls(len(rows), kind)
    made["partition"] = pa.array(_partitions(parts, [next(columns) for _ in parts], len(rows)), pa.string())
    for number, metric in enumerate(metrics):
        for name, _ in BOUNDS:
            made[f"{name}_{number}"] = _bounds(next(columns), metric)
        for name, _ in COUNTS:
            made[f"{name}_{number}"] = pa.array(_values(next(columns), pa.int64()), pa.int64())
    for name in ("path_low", "path_high"):
        paths = next(columns) if deletes else [""] * len(rows)
        made[name] = pa.array([path.encode() or None for path in paths], pa.binary())
    return pa.table(made)


def _values(texts: Sequence[str], kind: pa.DataType) -> list[Any]:
    """The values; None for an empty text."""
    of: Callable[[str], Any] = str if pa.types.is_string(kind) else int
    return [of(text) if text else None for text in texts]


def _bounds(texts: Sequence[str], metric: _Metric) -> pa.Array:
    kind = metric.arrow
    if metric.type == "string":
        if "" in texts:
            raise _Unlike  # no bound, or an empty one
        return pa.array(texts, kind)
    of: Callable[[str], Any] = int
    if metric.type in _REAL:
        of = float
    elif metric.type not in _WHOLE:
        of = Decimal
    values = [of(text) if text else None for text in texts]
    if metric.type in _WHOLE:
        return pa.array(values, pa.int32() if metric.type in ("int", "date") else pa.int64()).cast(kind)
    return pa.array(values, kind)


def _partitions(parts: Sequence[tuple[str, str]], columns: Sequence[Sequence[str]], count: int) -> list[str]:
    """The partition tuples as Spark writes them in JSON."""
    if not parts:
        return [""] * count
    spelled = [
        [f'"{name}":{_spelled(text, kind)}' for text in texts]
        for (name, kind), texts in zip(parts, columns, strict=True)
    ]
    return ["{" + ",".join(fields) + "}" for fields in zip(*spelled, strict=True)]


def _spelled(text: str, kind: str) -> str:
    if kind == "string":
        if not text or not _plain(text):  # empty, or null
            raise _Unlike
        return f'"{text}"'
    if not text:
        return "null"
    if kind == "date":
        try:
            return f'"{(_EPOCH + timedelta(days=int(text))).isoformat()}"'
        except OverflowError as error:  # outside the years 1 to 9999, where Python's dates end
            raise _Unlike from error
    return text


def _plain(text: str) -> bool:
    """Whether JSON has a text as it is."""
    return text.isascii() and text.isprintable() and not {'"', "\\"} & set(text)
