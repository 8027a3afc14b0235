"""Reads and writes one task through Iceberg's Spark source; nothing is committed.

The source serves staged scan tasks under a group id in place of a table name:

    stage(tasks, id) ─► spark.read.load(id) ─► sort ─► df.write.save(id) ─► files, known only to the coordinator
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from lakekeeper.core.model.file_merge import FileMerge, files_for
from lakekeeper.core.model.plan import MergeTask
from lakekeeper.core.model.run_folders import level_folder
from lakekeeper.core.planning.rewrites import Output
from lakekeeper.core.planning.successors import Replaced
from lakekeeper.core.vacuum.path_guard import spelled
from lakekeeper.spark.parquet_codec import codec_of
from lakekeeper.spi import Followed, Places
from lakekeeper_iceberg.dropped_sources import fields_without_source
from lakekeeper_iceberg.footers import footer_of
from lakekeeper_iceberg.imported import refuse_nanoseconds
from lakekeeper_iceberg.levels import data_root, own_folder
from lakekeeper_iceberg.native import Iceberg
from lakekeeper_iceberg.scanned_files import scanned_files

COUNTED = "lakekeeper_rows_read"
_CODEC = "write.parquet.compression-codec"
# Iceberg for Spark 4.1 knows a group by its id. Earlier ones would append to the table without this option.
_REWRITTEN = "rewritten-file-scan-task-set-id"
_ROW_GROUP = "write.parquet.row-group-size-bytes"
_ROW_GROUP_DEFAULT = 128 << 20
_SESSION_CODEC = "spark.sql.iceberg.compression-codec"
# Iceberg for Spark before 4.1 asks for these columns where rows are staged; NULL: the commit assigns the values.
_LINEAGE = ("_row_id", "_last_updated_sequence_number")
_WITH_LINEAGE = 3  # the table format that has them
# The writer checks sizes every 1,000 rows and estimates its buffered bytes: aim below the row limit.
_ROW_MARGIN = 0.6
_ONE_FILE = 1.5  # target sizes: more than a group that makes one file needs


@dataclass(frozen=True, slots=True)
class Made:
    """The native half of a rewrite, as Java objects.

    files, masks      data files and delete files to add
    version           None, or the snapshot of the last replay; then
    inputs, deletes   are the data files and file-scoped delete files of that snapshot to remove
    moved             data files to add with the rows that successors of inputs have gained; ``moved_from`` are these
                      rows, file by file
    merge             what columnar workers wrote the files from; None if Spark's rows did
    kept              state for the next replay, filled by the first one
    """

    files: tuple[Any, ...]
    masks: tuple[Any, ...] = ()
    version: int | None = None
    inputs: tuple[Any, ...] = ()
    deletes: tuple[Any, ...] = ()
    moved: tuple[Any, ...] = ()
    moved_from: tuple[Places, ...] = ()
    merge: FileMerge | None = None
    kept: Kept = field(default_factory=lambda: Kept())  # noqa: PLW0108 - the class is defined below


@dataclass(frozen=True, slots=True)
class Kept:
    """State that replays of a rewrite share.

    reads     the inputs as they were read, by path
    deletes   delete files that apply to each input that a replay checked
    dead      PositionDeleteIndex of the deleted rows of each such input that the outputs reflect
    masked    PositionDeleteIndex of the deleted rows of outputs; ``mask_of`` are the delete files
    sources, footers    the open sources of data files, and their footers
    compared  what became of inputs that are gone
    """

    reads: dict[str, Any] = field(default_factory=dict)
    deletes: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    dead: Mapping[str, Any] = field(default_factory=dict)
    masked: Mapping[str, Any] = field(default_factory=dict)
    mask_of: Mapping[str, Any] = field(default_factory=dict)
    sources: dict[str, Any] = field(default_factory=dict)
    footers: dict[str, Any] = field(default_factory=dict)
    compared: dict[Replaced, Followed] = field(default_factory=dict)


def stage(jvm: Iceberg, table: Any, tasks: Sequence[Any]) -> str:
    """The group id under which the source serves these scan tasks until it is passed to :func:`unstage`.

    Raises Rejected for files that Iceberg misreads.
    """
    refuse_nanoseconds(jvm, table, tasks)
    group = f"lakekeeper-read-{uuid.uuid4()}"
    jvm.table_cache.add(group, table)
    jvm.task_sets.stageTasks(table, group, jvm.array_list(tasks))
    return group


def read_staged(jvm: Iceberg, table: Any, tasks: Sequence[Any], task: MergeTask) -> tuple[str, DataFrame]:
    """(group id, live rows of the scan tasks). Pass the id to :func:`unstage` when the rows are no longer needed."""
    group = stage(jvm, table, tasks)
    try:
        # One task sorts a group of one range in any case: use one split, so that the files are read in order.
        split_bytes = None if task.row_ranges > 1 else one_split(task.input_bytes)
        return group, jvm.staged_rows(group, table, split_bytes=split_bytes)
    except BaseException:
        unstage(jvm, table, group)
        raise


def write_staged(
    jvm: Iceberg,
    table: Any,
    rows: DataFrame,
    task: MergeTask,
    run: str,
    sort_order: int | None,
    inputs: Sequence[Any] = (),
) -> tuple[Made, tuple[Output, ...]]:
    """Write rows in order, in the folder of a run for the task's level; (DataFiles, outputs).

    The codec is that of the largest of the ``inputs``, scan tasks, unless the table or the session names one.
    """
    key_id = task.key.key_id if task.key else ""
    place = level_folder(home_of(jvm, table, run), key_id, task.level)
    target, spec = _target_bytes(task), _spec_of(table, task)
    files = _write(jvm, table, rows, place, spec, sort_order, target, inputs)
    return Made(tuple(files)), outputs_of(files)


def _spec_of(table: Any, task: MergeTask) -> int:
    """The partition spec of the task's inputs; the current one if a source column of that spec was dropped.

    The rows of an old partition may be in any number of partitions of the current spec: each task would keep an open
    writer for each of them, and leave as many small files.
    """
    moves = fields_without_source(table.specs().get(task.spec), table.schema())
    return int(table.spec().specId()) if moves else task.spec


def write_rows(jvm: Iceberg, table: Any, rows: DataFrame, run: str, target: int) -> list[Any]:
    """Write rows that are new to the table in the folder of a run; ``target`` is the file size in bytes."""
    if int(table.operations().current().formatVersion()) >= _WITH_LINEAGE:
        rows = rows.withColumns(dict.fromkeys(_LINEAGE, F.lit(None).cast("bigint")))
    return _write(jvm, table, rows, home_of(jvm, table, run), int(table.spec().specId()), None, target)


def outputs_of(files: Iterable[Any]) -> tuple[Output, ...]:
    """DataFiles as outputs: path, row count and bytes."""
    return tuple(Output(str(f.location()), int(f.recordCount()), int(f.fileSizeInBytes())) for f in files)


def copy_live_rows(
    jvm: Iceberg, table: Any, file: Any, deletes: Sequence[Any], run: str, *, row_ids: bool = False
) -> list[Any]:
    """New DataFiles, in the folder of a run, with the live rows of one DataFile: same order, spec and sort order."""
    size = int(file.fileSizeInBytes())
    scan = task_of_file(jvm, table, file, deletes, row_ids=row_ids)
    group = stage(jvm, table, [scan])
    try:
        rows = jvm.staged_rows(group, table, split_bytes=one_split(size)).coalesce(1)
        place = own_folder(home_of(jvm, table, run), str(file.location()))
        order = file.sortOrderId()
        sort_order = None if order is None else int(order)
        return _write(jvm, table, rows, place, int(file.specId()), sort_order, one_split(size), [scan])
    finally:
        unstage(jvm, table, group)


def task_of_file(
    jvm: Iceberg, table: Any, file: Any, deletes: Sequence[Any] = (), *, row_ids: bool = False
) -> Any:
    """A FileScanTask for a DataFile, which need not be part of any snapshot.

    ``row_ids``: each row in the file has its row id stored. Readers use stored row ids only for files with a first row
    id and a data sequence number, which a commit assigns; both are set to 0 on a copy, where they have no effect.
    """
    if row_ids:
        file = file.copy()
        file.setFirstRowId(0)
        file.setDataSequenceNumber(0)
    schema = jvm.static("org.apache.iceberg.SchemaParser", "toJson")(table.schema())
    spec = jvm.static("org.apache.iceberg.PartitionSpecParser", "toJson")(table.specs().get(file.specId()))
    always = jvm.static("org.apache.iceberg.expressions.Expressions", "alwaysTrue")()
    residual = jvm.static("org.apache.iceberg.expressions.ResidualEvaluator", "unpartitioned")(always)
    applied = jvm.array(jvm.api.DeleteFile, deletes)
    return jvm.api.BaseFileScanTask(file, applied, schema, spec, residual)


def _write(
    jvm: Iceberg,
    table: Any,
    rows: DataFrame,
    place: str,
    spec: int,
    sort_order: int | None,
    target: int,
    inputs: Sequence[Any] = (),
) -> list[Any]:
    """DataFiles of these rows, in their order, below the folder ``place``; ``target`` is in bytes.

    Unless the table or the session names a codec, it is that of the largest of the ``inputs``, or zstd.
    """
    properties = jvm.text_map(table.properties())
    # The writer asks the table object where files go: give it one that says the folder.
    row_group = str(_row_group_bytes(properties, target // 2))
    placed = jvm.pinned(table, {"write.data.path": place, _ROW_GROUP: row_group})
    group = f"lakekeeper-write-{uuid.uuid4()}"
    jvm.table_cache.add(group, placed)
    try:
        writer = (
            rows.write.format("iceberg")
            .option("use-table-distribution-and-ordering", "false")
            .option("distribution-mode", "none")
            .option("target-file-size-bytes", str(target))
            .option("output-spec-id", str(spec))
            .option(_REWRITTEN, group)
        )
        if _CODEC not in properties and not jvm.spark.conf.get(_SESSION_CODEC, ""):
            codec = _codec_of_inputs(jvm, table, properties, inputs) or "zstd"
            writer = writer.option("compression-codec", codec)
        if sort_order is not None:
            writer = writer.option("output-sort-order-id", str(sort_order))
        with jvm.active():
            writer.mode("append").save(group)
        return jvm.items(jvm.new_files.fetchNewFiles(placed, group))
    finally:
        jvm.table_cache.remove(group)
        jvm.new_files.clearRewrite(placed, group)


def sizes(properties: Mapping[str, str], task: MergeTask) -> tuple[int, int]:
    """(target size of the files of a task, size of their row groups), in bytes."""
    return task.target_bytes, _row_group_bytes(properties, task.target_bytes // 4)


def one_split(size: int) -> int:
    """A split size at which no file or group of this size is split."""
    return max(size * 2, 1 << 27)


def home_of(jvm: Iceberg, table: Any, run: str) -> str:
    """The folder of a run, which contains all its files."""
    return f"{_root(jvm, table)}/{run}"


def _root(jvm: Iceberg, table: Any) -> str:
    return data_root(str(table.location()), jvm.text_map(table.properties()))


def unstage(jvm: Iceberg, table: Any, group: str) -> None:
    """Release a staged group; an unknown one is not an error."""
    with suppress(Exception):  # cleanup must never hide an earlier error
        jvm.table_cache.remove(group)
        jvm.task_sets.removeTasks(table, group)


def _codec_of_inputs(
    jvm: Iceberg, table: Any, properties: Mapping[str, str], inputs: Sequence[Any]
) -> str | None:
    """The codec of the largest file of scan tasks, if it and new files are Parquet, and its footer can be read."""
    if not inputs or properties.get("write.format.default", "parquet").lower() != "parquet":
        return None  # the codecs of other formats have other names
    largest = max(scanned_files(jvm, inputs), key=lambda file: file.bytes)
    if largest.format != "PARQUET":
        return None
    with suppress(Exception):  # the merge reads the file next, and reports what prevents it
        return codec_of(footer_of(jvm, table, largest.location))
    return None


def _target_bytes(task: MergeTask) -> int:
    """The target file size in bytes; lower if needed to stay below the row limit, as Iceberg splits by size only.

    Higher, if one file is enough for each range: what is left for a last file would be small.
    """
    if task.target_rows is None or task.input_rows <= task.target_rows:
        targets = task.input_bytes / task.row_ranges / task.target_bytes
        return int(task.target_bytes * (1 if files_for(targets) > 1 else _ONE_FILE))
    row_bytes = task.input_bytes / max(task.input_rows, 1)
    return min(task.target_bytes, max(1, int(task.target_rows * row_bytes * _ROW_MARGIN)))


def rows_read(jvm: Iceberg, counter: Observation | None) -> int | None:
    """The value of the row counter of a read after the rows were written; None without a counter."""
    if counter is None or counter._jo is None:
        return None
    seen = jvm.shim.observed(counter)  # not `get`: it would block forever if the counter is never set
    return int(seen.apply(COUNTED)) if seen.contains(COUNTED) else None


def _row_group_bytes(properties: Mapping[str, str], most: int) -> int:
    """The row group size of the table's property, or ``most`` if that is smaller: a part of the target file size.

    Iceberg's writer counts buffered data before it is all compressed. With row groups as large as a file, it would
    close small files at half the target size or less, and the next compaction would rewrite them. Row groups of a
    quarter of the target, on the other hand, cost it a fifth of its CPU if the table has a hundred columns.
    """
    configured = int(properties.get(_ROW_GROUP) or _ROW_GROUP_DEFAULT)
    return max(1, min(configured, most))


def own_paths(jvm: Iceberg, table: Any, paths: Iterable[str]) -> list[str]:
    """The paths that are below the table's own folders; nothing else may ever be deleted."""
    location = str(table.location()).rstrip("/")
    roots = tuple(spelled(root) + "/" for root in (location, _root(jvm, table)))
    return [path for path in paths if spelled(path).startswith(roots) and "/../" not in path]


def delete_own(jvm: Iceberg, table: Any, paths: Iterable[str]) -> None:
    """Delete files below the table's own folders; a missing file is not an error."""
    io = table.io()
    if table.operations().current() is None:
        return  # the table was dropped, so its location is no longer known
    for path in own_paths(jvm, table, paths):
        with suppress(Exception):  # already deleted, or left as an orphan for the next vacuum
            io.deleteFile(path)
