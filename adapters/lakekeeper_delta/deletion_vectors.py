"""Deletion vectors: read, compared as bitmaps in the JVM, and written by the driver without a Spark job."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from lakekeeper.columnar.values import Longs
from lakekeeper.errors import AdapterError, Rejected
from lakekeeper_delta import exact_json
from lakekeeper_delta.native import Log
from lakekeeper_delta.rewrite import discard

_AROUND_A_VECTOR = 8  # bytes: the size before a vector and the checksum after it


@dataclass(frozen=True, slots=True)
class Vectors:
    """Deletion vectors that no version references yet: data file → descriptor of all its deletes.

    ``files`` are the vector files, as paths relative to the table, as ``discard`` takes them.
    """

    by_file: Mapping[str, Any]
    files: tuple[str, ...]

    def file_of(self, log: Log, path: str) -> str:
        """The file that holds the vector of a data file; empty if the vector is inline in the log."""
        return next(iter(vector_files(log, [self.by_file[path]])), "")


def masked(log: Log, add: Any, vector: Any, *, data_change: bool) -> tuple[Any, Any]:
    """The AddFile and the RemoveFile by which a file gets another vector.

    Delta marks the bounds as wide, and writes each number as a double: a bound of a DECIMAL may then exclude a row of
    the file. Here the numbers stay as they are.
    """
    pair = add.removeRows(vector, True, data_change)
    stats = json.loads(add.json())["add"].get("stats")
    if not stats:
        return pair._1(), pair._2()
    wide = exact_json.dumps({**exact_json.loads(stats), "tightBounds": False})
    return log.edited(pair._1(), stats=wide), pair._2()


def empty(log: Log) -> Any:
    """A new, empty RoaringBitmapArray."""
    return log.delta.deletionvectors.RoaringBitmapArray()


def vector_of(log: Log, add: Any) -> Any:
    """The deleted rows of a file as a new bitmap. Raises AdapterError if the log records another number of them."""
    descriptor = add.deletionVector()
    if descriptor is None:
        return empty(log)
    store = log.singleton("storage.dv.DeletionVectorStore").createInstance(log.log.newDeltaHadoopConf())
    found = store.read(descriptor, log.log.dataPath())
    if int(found.cardinality()) != int(descriptor.cardinality()):
        raise AdapterError(
            f"{log.name}: the deletion vector of {add.path()} masks {found.cardinality()} rows, but the log records "
            f"{descriptor.cardinality()}"
        )
    return found


def all_rows(log: Log, count: int) -> Any:
    """A bitmap of all rows of a file."""
    made = empty(log)
    made.addRange(log.jvm.object("scala.collection.immutable.Range").apply(0, count))
    return made


def without(bitmap: Any, others: Any) -> Any:
    """The rows of the first bitmap that are not in the second, as a new bitmap."""
    left = bitmap.copy()
    left.andNot(others)
    return left


def positions(log: Log, bitmap: Any) -> Longs:
    """The row positions in a bitmap, ascending."""
    return log.jvm.numbers(bitmap.toArray())


def with_rows(log: Log, bitmap: Any, rows: Sequence[int] | Longs) -> Any:
    """A bitmap with these rows added. Raises AdapterError if one of them is already in it."""
    made = bitmap.copy()
    made.addAll(log.jvm.shim.wrapped(log.jvm, log.jvm.longs(rows)))
    if int(made.cardinality()) != int(bitmap.cardinality()) + len(rows):
        raise AdapterError(
            f"{log.name}: of {len(rows):,} row positions to delete, some are not of live rows of the file"
        )
    return made


def store(log: Log, run: str, bitmaps: Mapping[str, Any]) -> Vectors:
    """Write one new file, in the folder of a run, with a vector for each data file.

    Raises Rejected if the storage did not keep it.
    """
    if not bitmaps:
        return Vectors({}, ())
    kept = log.singleton("storage.dv.DeletionVectorStore").createInstance(log.log.newDeltaHadoopConf())
    root = kept.pathWithFileSystem(log.log.dataPath())
    made = log.singleton("commands.DeletionVectorWriter").createWriter(kept, root, run)
    writer, identifier = made._1(), made._2()
    try:
        try:
            found = {path: _stored(log, writer, bitmap, identifier, run) for path, bitmap in bitmaps.items()}
        finally:
            writer.close()
    except Exception:
        with suppress(Exception):  # the file remains as an orphan for the next vacuum
            discard(log, [f"{run}/deletion_vector_{identifier}.bin"])
        raise
    vectors = Vectors(found, vector_files(log, found.values()))
    refuse_torn(log, vectors)
    return vectors


def _stored(log: Log, writer: Any, bitmap: Any, identifier: Any, run: str) -> Any:
    """Add a bitmap to a vector file and return its descriptor."""
    bitmap.runOptimize()
    data = bitmap.serializeAsByteArray(log.singleton("deletionvectors.RoaringBitmapArrayFormat").Portable())
    at = log.jvm.some(writer.write(data).offset())
    describe = log.singleton("actions.DeletionVectorDescriptor").onDiskWithRelativePath
    return describe(identifier, run, len(data), bitmap.cardinality(), at, log.jvm.none())


def refuse_torn(log: Log, vectors: Vectors) -> None:
    """Raise Rejected if a vector file is shorter than its vectors; all of the files are deleted first.

    Delta swallows an error on closing such a file (delta-io/delta 7329).
    """
    root = log.log.dataPath()
    sizes: dict[str, int] = {}
    for vector in vectors.by_file.values():
        if vector.isOnDisk():
            path = str(vector.absolutePath(root))
            end = int(vector.offset().get()) + int(vector.sizeInBytes()) + _AROUND_A_VECTOR
            sizes[path] = max(end, sizes.get(path, 0))
    files = root.getFileSystem(log.log.newDeltaHadoopConf())
    for path, size in sizes.items():
        place = log.jvm.view.org.apache.hadoop.fs.Path(path)
        found = int(files.getFileStatus(place).getLen()) if files.exists(place) else 0
        if found < size:
            discard(log, vectors.files)
            raise Rejected(
                f"{log.name}: the storage kept {found} of the {size} bytes of the deletion vectors in {path}; "
                "nothing was committed"
            )


def vector_files(log: Log, vectors: Iterable[Any]) -> tuple[str, ...]:
    """The files of vectors, as paths relative to the table; one file can hold several vectors."""
    return tuple(sorted({log.shim.relative_path(log, vector) for vector in vectors if vector.isOnDisk()}))
