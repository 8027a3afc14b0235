"""The columnar half of an Iceberg table: which merges columnar workers may do, and their files as DataFiles.

Everything here is an allow-list: a type, property, delete file or store that is not named is merged by rows in Spark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from lakekeeper.columnar.positions import MOST_DELETED_ROWS, pack, unpack
from lakekeeper.columnar.read_ahead import in_parallel
from lakekeeper.core.model.file_merge import (
    ROW_ID,
    VERSION,
    ColumnStats,
    FileColumn,
    FileInput,
    FileMerge,
    WrittenFile,
)
from lakekeeper.core.model.keys import ClusterKey
from lakekeeper.core.model.plan import MergeTask
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.model.run_folders import level_folder, run_folder
from lakekeeper.core.planning.rewrites import Rewrite
from lakekeeper.spark.s3_access import NotFollowed
from lakekeeper_iceberg import keys, staging
from lakekeeper_iceberg.columnar_files import FilesOfTable
from lakekeeper_iceberg.dropped_sources import refuse_merge
from lakekeeper_iceberg.footer_metrics import add_counts, own_bounds, own_counts, set_bounds
from lakekeeper_iceberg.footers import footer_of
from lakekeeper_iceberg.keys import SchemaFields
from lakekeeper_iceberg.native import Iceberg
from lakekeeper_iceberg.planning import Planner
from lakekeeper_iceberg.scanned_files import ScannedFile, scanned_files

_KINDS = {
    "boolean": "boolean",
    "int": "int32",
    "long": "int64",
    "float": "float",
    "double": "double",
    "date": "date",
    "timestamp": "timestamp_ntz",
    "timestamptz": "timestamp",
    "string": "string",
    "binary": "binary",
}
_DECIMAL = re.compile(r"decimal\(\d+, ?\d+\)")
_PLAIN_FACTS = frozenset(("id", "name", "required", "type", "doc"))
_CODEC, _ROW_GROUP = "write.parquet.compression-codec", "write.parquet.row-group-size-bytes"
_SESSION_CODEC = "spark.sql.iceberg.compression-codec"
_CODECS = {"uncompressed": "none", "snappy": "snappy", "zstd": "zstd", "gzip": "gzip"}
# Properties of writers that a columnar worker does not follow.
_OF_WRITERS = ("write.parquet.", "write.location-provider.", "write.object-storage.enabled", "encryption.")
_FOLLOWED = frozenset((_CODEC, _ROW_GROUP))
_ON_BY_DEFAULT = ("write.parquet.stats-enabled.column.", "write.parquet.dict-encoding-enabled.column.")
_NAME = "00000-0-{id}-00001.parquet"
_READ_AT_ONCE = 256  # files whose deletes are read before their rows are counted
_WITH_LINEAGE = 3  # the table format that has row ids
_LINEAGE = (  # reserved field ids of the Iceberg spec
    FileColumn("_row_id", "int64", 2147483540, by_id=True, replaces_null=ROW_ID),
    FileColumn("_last_updated_sequence_number", "int64", 2147483539, by_id=True, replaces_null=VERSION),
)
_DATA_FILE = "org.apache.iceberg.DataFile"


class Refused(Exception):
    """Why a merge is left to Spark's rows."""


@dataclass(slots=True)
class IcebergColumnar:
    """Implements ``spi.Columnar``. ``table()`` returns the current table object."""

    jvm: Iceberg
    planner: Planner
    table: Callable[[], Any]

    def plan(self, task: MergeTask, run_id: str) -> FileMerge | Reason:
        """See ``spi.Columnar.plan``."""
        try:
            return self._plan(task, run_id)
        except (Refused, NotFollowed) as refused:
            return Reason.of(Code.MERGED_BY_ROWS, cause=str(refused))

    def _plan(self, task: MergeTask, run_id: str) -> FileMerge:
        table = self.jvm.pinned(self.table())
        refuse_merge(self.jvm, table, task.spec)
        of_partition = self.jvm.items(table.specs().get(task.spec).partitionType().fields())
        if any(str(field.type()) in ("float", "double") for field in of_partition):
            raise Refused("partitions by floating-point numbers")  # JSON has no NaN and no infinity
        properties = _properties(self.jvm, table)
        columns = _columns(self.jvm, table, task)
        key, cut = _key(task, columns)
        tasks = self.planner.tasks(table, task.read_version, task.inputs)
        place = self._place(table, task, run_id, tasks[0].file())
        files = FilesOfTable(self.jvm, table.io(), place)
        target, row_group = staging.sizes(properties, task)
        return FileMerge(
            inputs=tuple(self.inputs(table, files, tasks, task)),
            columns=columns,
            key=key,
            folder=files.path(place),
            name=_NAME,
            target_bytes=target,
            row_group_bytes=row_group,
            target_rows=task.target_rows,
            cut_column=cut,
            cuts=task.cuts,
            codec=_codec(self.jvm, properties),
            footer=(("iceberg.schema", _schema_text(self.jvm, table)),),
            store=files.store,
        )

    def adopt(
        self, merge: FileMerge, written: Sequence[WrittenFile], task: MergeTask, run_id: str
    ) -> Rewrite:
        """See ``spi.Columnar.adopt``."""
        table = self.jvm.pinned(self.table())
        first = self.planner.tasks(table, task.read_version, task.inputs[:1])[0].file()
        place = self._place(table, task, run_id, first)
        files = tuple(self.data_file(table, first, place, merge, file, task.key) for file in written)
        rows = sum(int(each.rows or 0) - len(unpack(each.deleted)) for each in merge.inputs)
        made = staging.Made(files, merge=merge)
        return Rewrite(task, staging.outputs_of(files), rows, native=made, run_id=run_id)

    def _place(self, table: Any, task: MergeTask, run_id: str, like: Any) -> str:
        """The folder of the outputs. Raises Refused."""
        home = staging.home_of(self.jvm, table, run_folder(task.table_uuid, run_id))
        return self.place(table, level_folder(home, task.key.key_id if task.key else "", task.level), like)

    def place(self, table: Any, home: str, like: Any) -> str:
        """The folder, in ``home``, for files of the partition of ``like``, as the table's own writers name it.

        Raises Refused if the table chooses another one.
        """
        placed = self.jvm.pinned(table, {"write.data.path": home})
        spec = table.specs().get(like.specId())
        provider = placed.locationProvider()
        if spec.isUnpartitioned():  # with an empty partition, the path would have an empty step
            location = str(provider.newDataLocation("file"))
        else:
            location = str(provider.newDataLocation(spec, like.partition(), "file"))
        if not location.startswith(f"{home}/"):
            raise Refused("the table chooses the folders of its files")
        return location.rpartition("/")[0]

    def inputs(
        self, table: Any, files: FilesOfTable, tasks: Sequence[Any], task: MergeTask
    ) -> list[FileInput]:
        """The files of scan tasks, in the partition spec of a merge. Raises Refused or NotFollowed for other ones."""
        scanned, masked = scanned_files(self.jvm, tasks), []
        for scan, file in zip(tasks, scanned, strict=True):
            if file.format != "PARQUET" or file.encrypted:
                raise Refused("a file that is not plain Parquet")
            if file.spec != task.spec:
                raise Refused("files of another partition spec")
            if file.has_deletes:
                masked.append((file.location, self.jvm.items(scan.deletes())))
        if any(self.jvm.equality(delete) for _, deletes in masked for delete in deletes):
            raise Refused("equality deletes")
        rows, lineage = iter(self.jvm.rows_of(self._deleted(table, masked))), has_lineage(table)
        return [
            FileInput(
                files.path(file.location),
                file.rows,
                pack(next(rows)) if file.has_deletes else "",
                *(_ids(file) if lineage else (None, None)),
            )
            for file in scanned
        ]

    def _deleted(self, table: Any, masked: Sequence[tuple[str, Sequence[Any]]]) -> list[Any]:
        """The PositionDeleteIndex of each data file, from its deletes; read in parallel, since storage mostly waits."""
        loader = self.jvm.delete_loader(table)
        found, dead = list[Any](), 0
        for start in range(0, len(masked), _READ_AT_ONCE):
            some = masked[start : start + _READ_AT_ONCE]
            found += in_parallel(lambda file: self.jvm.deleted_positions(loader, file[1], file[0]), some)
            dead += sum(int(index.cardinality()) for index in found[start:])
            if dead > MOST_DELETED_ROWS:
                raise Refused("too many deleted rows")
        return found

    def data_file(
        self, table: Any, like: Any, place: str, merge: FileMerge, file: WrittenFile, key: ClusterKey | None
    ) -> Any:
        """A DataFile with the metrics that Iceberg reads from the footer, and with those that footers lack.

        ``key``: what its rows are sorted by, range by range if the merge has cuts.
        """
        jvm = self.jvm
        location = f"{place}/{file.path.rpartition('/')[2]}"
        footer = footer_of(jvm, table, location)
        util = jvm.api.parquet.ParquetUtil
        config = jvm.static("org.apache.iceberg.MetricsConfig", "forTable")(table)
        metrics = util.footerMetrics(footer, jvm.array_list([]).stream(), config)
        spec = table.specs().get(like.specId())
        built = jvm.static("org.apache.iceberg.DataFiles", "builder")(spec)
        built = built.withPath(location).withFormat("PARQUET").withFileSizeInBytes(file.bytes)
        built = built.withMetrics(metrics).withSplitOffsets(util.getSplitOffsets(footer))
        if not spec.isUnpartitioned():
            built = built.withPartition(like.partition())
        order = table.sortOrder()
        # A worker may have sorted range by range, and the ranges be those of another column than the first.
        if keys.sorts_by(_order(jvm, order), key) and (not merge.cuts or merge.cut_column == merge.key[0]):
            built = built.withSortOrder(order)
        return self._completed(table, built.build(), config, merge, file)

    def _completed(self, table: Any, made: Any, config: Any, merge: FileMerge, file: WrittenFile) -> Any:
        """The DataFile with what its footer lacks: NaNs and what a footer leaves out beside them, and long texts."""
        parser = "org.apache.iceberg.ContentFileParser"
        spec = table.specs().get(made.specId())
        plain = json.loads(str(self.jvm.static(parser, "toJson")(made, spec)))
        before = json.dumps(plain)

        @cache
        def mode(name: str) -> str:
            return str(config.columnMode(name).toString())

        add_counts(plain, file.rows, dict(own_counts(merge.columns, file.stats, mode)))
        counted = set(plain.get("value-counts", {}).get("keys", ()))
        nans = {number: count for number, count in _nans(merge.columns, file.stats) if number in counted}
        if nans:
            plain["nan-value-counts"] = {"keys": list(nans), "values": list(nans.values())}
        set_bounds(plain, dict(own_bounds(merge.columns, file.stats, mode)))
        if json.dumps(plain) == before:
            return made
        node = self.jvm.static("org.apache.iceberg.util.JsonUtil", "mapper")().readTree(json.dumps(plain))
        return self.jvm.static(parser, "fromJson")(node, table.specs())


def _nans(columns: Sequence[FileColumn], stats: Sequence[ColumnStats]) -> Iterator[tuple[int | None, int]]:
    """(field id, NaNs) of all columns of floats, nested ones included."""
    for column, found in zip(columns, stats, strict=True):
        if column.kind in ("float", "double"):
            yield column.field_id, found.nans
        yield from _nans(column.children, found.children)


def _properties(jvm: Iceberg, table: Any) -> dict[str, str]:
    """The table's properties, if a columnar worker follows all of those that concern files."""
    properties = jvm.text_map(table.properties())
    for name, value in properties.items():
        default = "true" if name.startswith(_ON_BY_DEFAULT) else "false"
        if name.startswith(_OF_WRITERS) and name not in _FOLLOWED and value.lower() != default:
            raise Refused(f"the table sets {name}")
    if properties.get("write.format.default", "parquet").lower() != "parquet":
        raise Refused("the table's files are not Parquet")
    return properties


def _codec(jvm: Iceberg, properties: Mapping[str, str]) -> str | None:
    named = str(jvm.spark.conf.get(_SESSION_CODEC, "")) or properties.get(_CODEC, "")
    if named and named.lower() not in _CODECS:
        raise Refused(f"the codec {named}")
    return _CODECS[named.lower()] if named else None


def _columns(jvm: Iceberg, table: Any, task: MergeTask) -> tuple[FileColumn, ...]:
    spec = table.specs().get(task.spec)
    text = str(jvm.static("org.apache.iceberg.PartitionSpecParser", "toJson")(spec))
    constant = {part["source-id"] for part in json.loads(text)["fields"] if part["transform"] == "identity"}
    known = table.schema()
    if any(known.findField(part["source-id"]) is None for part in json.loads(text)["fields"]):
        raise Refused("a partition by a dropped column")
    plain = tuple(_column(field, constant) for field in SchemaFields(jvm, known).top)
    return plain + _LINEAGE if has_lineage(table) else plain


def has_lineage(table: Any) -> bool:
    """Whether the rows of a table have row ids and versions."""
    return int(table.operations().current().formatVersion()) >= _WITH_LINEAGE


def _ids(file: ScannedFile) -> tuple[int, int]:
    """The id of the file's first row, and the sequence number of its rows. Raises Refused."""
    if file.first_row_id is None or file.sequence_number is None:
        raise Refused("a file older than the table's row ids")
    return file.first_row_id, file.sequence_number


def _column(field: Mapping[str, Any], constant: set[int]) -> FileColumn:
    """A top-level column. A file imported from Hive lacks the columns that it is partitioned by: they are not NULL."""
    may_lack = not field["required"] and field["id"] not in constant
    return replace(_part(field, str(field["name"])), by_id=True, may_lack=may_lack)


def _part(field: Mapping[str, Any], path: str) -> FileColumn:
    """A column, or a part of a nested one. Raises Refused for a type that workers do not merge."""
    if not field.keys() <= _PLAIN_FACTS:
        raise Refused(f"column {path} has {', '.join(sorted(field.keys() - _PLAIN_FACTS))}")
    kind = field["type"]
    made = FileColumn(str(field["name"]), "", int(field["id"]), nullable=not field["required"])
    if isinstance(kind, Mapping):
        children = tuple(_part(part, f"{path}.{part['name']}") for part in _parts(kind))
        return replace(made, kind=str(kind["type"]), children=children)
    if kind not in _KINDS and not _DECIMAL.fullmatch(kind):
        raise Refused(f"column {path} is of type {kind}")
    return replace(made, kind=_KINDS.get(kind, kind.replace(" ", "")))


def _parts(kind: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The fields of a struct; element of a list, key and value of a map, as fields."""
    if kind["type"] == "struct":
        fields: Sequence[Mapping[str, Any]] = kind["fields"]
        return fields
    names = ("element",) if kind["type"] == "list" else ("key", "value")
    return [
        {
            "name": name,
            "id": kind[f"{name}-id"],
            "type": kind[name],
            "required": kind.get(f"{name}-required", True),  # as keys always are
        }
        for name in names
    ]


def _key(task: MergeTask, columns: Sequence[FileColumn]) -> tuple[tuple[int, ...], int]:
    """Positions of the key's columns and of the cut column."""
    if task.key is None:
        return (), 0
    if task.key.curved:
        raise Refused(f"a key of layout {task.key.layout}")
    if any(len(column.path) > 1 for column in task.key.columns):
        raise Refused("a key in a nested column")
    place = {str(column.field_id): number for number, column in enumerate(columns)}
    key = tuple(place[column.field_id] for column in task.key.columns)
    return key, key[task.cut_column]


def _schema_text(jvm: Iceberg, table: Any) -> str:
    schema = table.schema()
    if has_lineage(table):
        schema = jvm.static("org.apache.iceberg.MetadataColumns", "schemaWithRowLineage")(schema)
    return str(jvm.static("org.apache.iceberg.SchemaParser", "toJson")(schema))


def _order(jvm: Iceberg, order: Any) -> dict[str, Any]:
    text = jvm.static("org.apache.iceberg.SortOrderParser", "toJson")(order)
    found: dict[str, Any] = json.loads(str(text))
    return found
