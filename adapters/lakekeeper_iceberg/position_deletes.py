"""Delete files for rows at places: who is deleted where, as the table's format writes it.

format   a data file's deletes are     what of older deletes goes into the new one, and leaves the table
v3       one deletion vector           all position deletes of the file; those of it alone leave
v2       one file of positions         those of the file alone; others stay and go on applying
         or one for its partition      none
v1       none: rows are written anew   (see ``staging.copy_live_rows``, which reads through such a file)

Positions stay in the JVM, as bitmaps: a call to Java is made for each file, never for each row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakekeeper_iceberg.native import Iceberg
from lakekeeper_iceberg.staging import home_of

_WRITERS = 8  # delete files that are written at a time: storage waits more than it works


@dataclass(frozen=True, slots=True)
class Mask:
    """Rows of one DataFile to delete: a PositionDeleteIndex, and the deletes the file has already."""

    file: Any
    positions: Any
    known: tuple[Any, ...] = ()

    @property
    def path(self) -> str:
        return str(self.file.location())


@dataclass(frozen=True, slots=True)
class Masked:
    """New DeleteFiles, and the old ones that they take the place of."""

    added: tuple[Any, ...]
    replaced: tuple[Any, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(str(d.location()) for d in self.added))


def by_file(jvm: Iceberg, hits: DataFrame) -> dict[str, Any]:
    """File → PositionDeleteIndex of the places (columns ``file``, ``position``)."""
    grouped = hits.groupBy("file").agg(F.collect_list("position").alias("positions"))
    rows = grouped._jdf.toLocalIterator()  # a partition at a time: boxed numbers need much more than a bitmap
    found: dict[str, Any] = {}
    while rows.hasNext():
        row = rows.next()
        found[str(row.getString(0))] = jvm.positions(row.getList(1))
    return found


def write_masks(
    jvm: Iceberg, table: Any, masks: Sequence[Mask], run: str, *, by_partition: bool = False
) -> Masked:
    """Write the deletes of each file as the table's format has them, in the folder of a run.

    An error leaves no file behind. ``by_partition``: in format 2, one file of positions for all data files of a
    partition.
    """
    if not masks:
        return Masked((), ())
    version = format_version(table)
    # The writers ask the table object where files go.
    table = jvm.pinned(table, {"write.data.path": home_of(table, run)})
    if version > 2:
        return _vectors(jvm, table, masks)
    return _partition_files(jvm, table, masks) if by_partition else _position_files(jvm, table, masks)


def _vectors(jvm: Iceberg, table: Any, masks: Sequence[Mask]) -> Masked:
    known = {
        m.path: jvm.deleted_positions(table, positional, m.path)
        for m in masks
        if (positional := [d for d in m.known if not equality(jvm, d)])
    }
    writer = jvm.api.deletes.BaseDVFileWriter(_factory(jvm, table, "PUFFIN"), jvm.lookup(known))
    for m in masks:
        writer.delete(m.path, m.positions, table.specs().get(m.file.specId()), m.file.partition())
    writer.close()
    result = writer.result()
    return Masked(tuple(result.deleteFiles()), tuple(result.rewrittenDeleteFiles()))


def _position_files(jvm: Iceberg, table: Any, masks: Sequence[Mask]) -> Masked:
    """A file of positions for each data file; with it go the older ones of that data file alone."""
    replaced = {m.path: [d for d in m.known if leaves_with_file(jvm, d)] for m in masks}

    def group(m: Mask) -> list[Mask]:
        if replaced[m.path]:
            m.positions.merge(jvm.deleted_positions(table, replaced[m.path], m.path))
        return [m]

    added = _written(jvm, table, [partial(group, m) for m in masks])
    return Masked(tuple(added), tuple(d for deletes in replaced.values() for d in deletes))


def _partition_files(jvm: Iceberg, table: Any, masks: Sequence[Mask]) -> Masked:
    """A file of positions for each partition; older deletes stay and go on applying."""
    numbers: dict[
        int, Any
    ] = {}  # spec → Java map from partition to group: texts of partitions are not unique
    groups: list[list[Mask]] = []
    for m in sorted(masks, key=lambda m: m.path):  # positions lie in a file by the paths of their data files
        spec = int(m.file.specId())
        kind = table.specs().get(spec).partitionType()
        place = jvm.api.util.StructLikeWrapper.forType(kind).set(m.file.partition())
        known = numbers.setdefault(spec, jvm.view.java.util.HashMap())
        if not known.containsKey(place):
            known.put(place, len(groups))
            groups.append([])
        groups[int(known.get(place))].append(m)
    return Masked(tuple(_written(jvm, table, [partial(list, group) for group in groups])), ())


def _written(jvm: Iceberg, table: Any, groups: Sequence[Callable[[], list[Mask]]]) -> list[Any]:
    """A DeleteFile for each group of masks, which are of one partition; several are written at a time."""
    files = _factory(jvm, table, "PARQUET")
    builder = jvm.static("org.apache.iceberg.data.GenericFileWriterFactory", "builderFor")(table)
    writers = builder.deleteFileFormat(jvm.api.FileFormat.PARQUET).build()
    added: list[Any] = []

    def write(group: Callable[[], list[Mask]]) -> Any:
        masks = group()
        spec, partition = table.specs().get(masks[0].file.specId()), masks[0].file.partition()
        place = files.newOutputFile(spec, partition) if spec.isPartitioned() else files.newOutputFile()
        writer = writers.newPositionDeleteWriter(place, spec, partition)
        try:
            for m in masks:
                jvm.write_positions(writer, m.path, m.positions)
        finally:
            writer.close()
        delete = writer.toDeleteFile()
        added.append(delete)
        return delete

    try:
        with ThreadPoolExecutor(min(_WRITERS, len(groups)), thread_name_prefix="lakekeeper-iceberg") as pool:
            return list(pool.map(write, groups))
    except BaseException:
        for delete in added:
            with suppress(Exception):  # it stays, as an orphan for the next vacuum
                table.io().deleteFile(str(delete.location()))
        raise


def _factory(jvm: Iceberg, table: Any, file_format: str) -> Any:
    kind = getattr(jvm.api.FileFormat, file_format)
    return jvm.api.io.OutputFileFactory.builderFor(table, 0, 0).format(kind).suffix("deletes").build()


def equality(jvm: Iceberg, delete: Any) -> bool:
    """Is it an equality delete?"""
    return bool(delete.content().equals(jvm.api.FileContent.EQUALITY_DELETES))


def leaves_with_file(jvm: Iceberg, delete: Any) -> bool:
    """Is it about one data file only, so that it can leave the table with it?"""
    return bool(jvm.api.util.ContentFileUtil.isFileScoped(delete))


def unique(deletes: Sequence[Any]) -> list[Any]:
    """Delete files without doubles; vectors of one file are told apart by their offset."""
    found: Mapping[tuple[str, Any], Any] = {(str(d.location()), d.contentOffset()): d for d in deletes}
    return list(found.values())


def format_version(table: Any) -> int:
    """The table's format version."""
    return int(table.operations().current().formatVersion())
