"""Delete files for rows at given positions, in the form of the table's format version.

format   deletes of a data file        older deletes merged into the new one, and removed from the table
v3       one deletion vector           merged: all position deletes of the file; removed: the file-scoped ones
v2       one position delete file      file-scoped ones; others are kept and still apply
         or one for its partition      none
v1       none: rows are rewritten      (a temporary position delete file; see ``staging.copy_live_rows``)

Positions stay in the JVM as bitmaps: Java is called once per file, never once per row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakekeeper_iceberg.dropped_sources import refuse_deletes
from lakekeeper_iceberg.native import Iceberg
from lakekeeper_iceberg.staging import home_of

DELETE_FILE = "org.apache.iceberg.DeleteFile"
_UTIL = "org.apache.iceberg.util.ContentFileUtil"
_IDENTITY = ((DELETE_FILE, "location", "java.lang.String"), (DELETE_FILE, "contentOffset", "java.lang.Long"))
_FILE_SCOPED = (_UTIL, "isFileScoped", "boolean")
_IS_VECTOR = (_UTIL, "isDV", "boolean")
_WRITERS = 8  # delete files written concurrently: writing is bound by storage latency


@dataclass(frozen=True, slots=True)
class Mask:
    """Rows to delete from one DataFile: a PositionDeleteIndex, and the delete files that already apply to it."""

    file: Any
    positions: Any
    known: tuple[Any, ...] = ()

    @property
    def path(self) -> str:
        return str(self.file.location())


@dataclass(frozen=True, slots=True)
class Masked:
    """New DeleteFiles, and the old ones that they replace."""

    added: tuple[Any, ...]
    replaced: tuple[Any, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(str(d.location()) for d in self.added))


def by_file(jvm: Iceberg, hits: DataFrame) -> dict[str, Any]:
    """File → PositionDeleteIndex of the rows in ``hits`` (columns ``file``, ``position``)."""
    grouped = hits.groupBy("file").agg(F.collect_list("position").alias("positions"))
    # One partition at a time: boxed numbers are much larger than a bitmap.
    rows = grouped._jdf.toLocalIterator()
    found: dict[str, Any] = {}
    while rows.hasNext():
        row = rows.next()
        found[str(row.getString(0))] = jvm.positions(row.getList(1))
    return found


def write_masks(
    jvm: Iceberg, table: Any, masks: Sequence[Mask], run: str, *, by_partition: bool = False
) -> Masked:
    """Write the deletes of each data file in the form of the table's format version, in the folder of a run.

    An error leaves no file behind. ``by_partition``: in format version 2, write one position delete file for all data
    files of a partition.
    """
    if not masks:
        return Masked((), ())
    refuse_deletes(jvm, table, [mask.file for mask in masks])
    version = format_version(table)
    # The writers take the path of new files from the table object.
    table = jvm.pinned(table, {"write.data.path": home_of(jvm, table, run)})
    if version > 2:
        return _vectors(jvm, table, masks)
    return _partition_files(jvm, table, masks) if by_partition else _position_files(jvm, table, masks)


def _vectors(jvm: Iceberg, table: Any, masks: Sequence[Mask]) -> Masked:
    loader = jvm.delete_loader(table)
    known = {
        m.path: jvm.deleted_positions(loader, positional, m.path)
        for m in masks
        if (positional := [d for d in m.known if not jvm.equality(d)])
    }
    writer = jvm.api.deletes.BaseDVFileWriter(delete_paths(jvm, table, "PUFFIN"), jvm.lookup(known))
    for m in masks:
        writer.delete(m.path, m.positions, table.specs().get(m.file.specId()), m.file.partition())
    writer.close()
    result = writer.result()
    return Masked(tuple(jvm.items(result.deleteFiles())), tuple(jvm.items(result.rewrittenDeleteFiles())))


def _position_files(jvm: Iceberg, table: Any, masks: Sequence[Mask]) -> Masked:
    """One position delete file per data file; it replaces the older file-scoped ones of that data file."""
    replaced = {m.path: [d for d in m.known if leaves_with_file(jvm, d)] for m in masks}

    loader = jvm.delete_loader(table)

    def group(m: Mask) -> list[Mask]:
        if replaced[m.path]:
            m.positions.merge(jvm.deleted_positions(loader, replaced[m.path], m.path))
        return [m]

    added = _written(jvm, table, [partial(group, m) for m in masks])
    return Masked(tuple(added), tuple(d for deletes in replaced.values() for d in deletes))


def _partition_files(jvm: Iceberg, table: Any, masks: Sequence[Mask]) -> Masked:
    """One position delete file per partition; older deletes are kept and still apply."""
    # Spec → Java map from partition to group: the text of a partition is not unique.
    numbers: dict[int, Any] = {}
    groups: list[list[Mask]] = []
    for m in sorted(masks, key=lambda m: m.path):  # a position delete file is sorted by data file path
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
    """One DeleteFile for each group of masks, all of one partition; several are written concurrently."""
    files = delete_paths(jvm, table, "PARQUET")
    builder = jvm.static("org.apache.iceberg.data.GenericFileWriterFactory", "builderFor")(table)
    writers = builder.deleteFileFormat(jvm.api.FileFormat.PARQUET).build()
    added: list[Any] = []

    def write(group: Callable[[], list[Mask]]) -> Any:
        masks = group()
        spec, partition = table.specs().get(masks[0].file.specId()), masks[0].file.partition()
        place = next_path(files, spec, partition)
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
            with suppress(Exception):  # it is left as an orphan for the next vacuum
                table.io().deleteFile(str(delete.location()))
        raise


def delete_paths(jvm: Iceberg, table: Any, file_format: str) -> Any:
    """The OutputFileFactory of a table's delete files in a file format."""
    kind = getattr(jvm.api.FileFormat, file_format)
    return jvm.api.io.OutputFileFactory.builderFor(table, 0, 0).format(kind).suffix("deletes").build()


def next_path(paths: Any, spec: Any, partition: Any) -> Any:
    """A new EncryptedOutputFile for delete files of a partition."""
    return paths.newOutputFile(spec, partition) if spec.isPartitioned() else paths.newOutputFile()


def leaves_with_file(jvm: Iceberg, delete: Any) -> bool:
    """Whether the delete file is file-scoped, so that it can be removed with its data file."""
    return bool(jvm.static(*_FILE_SCOPED[:2])(delete))


def leaving_with_file(jvm: Iceberg, deletes: Sequence[Any], *, vectors: bool = True) -> list[Any]:
    """The file-scoped ones of these delete files, without duplicates; in a few calls for any number of files.

    Without ``vectors``, deletion vectors are left out: a commit removes them together with their data files.
    """
    facts = jvm.records(jvm.array_list(deletes), DELETE_FILE, _IDENTITY, [_FILE_SCOPED, _IS_VECTOR])
    found = {
        (path, offset): d
        for (path, offset, alone, vector), d in zip(facts, deletes, strict=True)
        if alone == "true" and (vectors or vector == "false")
    }
    return list(found.values())


def unique(jvm: Iceberg, deletes: Sequence[Any]) -> list[Any]:
    """Delete files without duplicates; deletion vectors in one Puffin file differ in their offset."""
    identities = jvm.records(jvm.array_list(deletes), DELETE_FILE, _IDENTITY)
    return list({(path, offset): d for (path, offset), d in zip(identities, deletes, strict=True)}.values())


def format_version(table: Any) -> int:
    """The table's format version."""
    return int(table.operations().current().formatVersion())
