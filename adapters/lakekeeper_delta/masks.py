"""Take rows out of files by their places: by deletion vectors, or by copies of the files without these rows.

Both are told by Delta how many rows it took out, and neither is believed if that is not the number of places.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lakekeeper.core.layout import run_folder
from lakekeeper.core.rebase import Changes, Output, Rewrite, applied_now
from lakekeeper.errors import AdapterError, Rejected
from lakekeeper_delta.native import Log, State
from lakekeeper_delta.places import file_and_position, small, spelled
from lakekeeper_delta.rewrite import Written, carried_marks, described, discard, write_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_AROUND_A_VECTOR = 8  # its size before it and its checksum after it, in bytes
_VECTOR_COLUMNS = ("filePath", "deletionVectorId", "rowIndexCol")  # what Delta's generator asks for


@dataclass(frozen=True, slots=True)
class Vectors:
    """Deletion vectors that no version names yet: file → descriptor, all deletes of the file in it.

    ``files`` are their paths below the table, as ``discard`` takes them.
    """

    by_file: Mapping[str, Any]
    files: tuple[str, ...]

    def file_of(self, log: Log, path: str) -> str:
        """The file that holds the vector of a data file; empty where the vector is in the log."""
        return next(iter(_vector_files(log, [self.by_file[path]])), "")


def mask(log: Log, rewrite: Rewrite, hits: DataFrame, changes: Changes) -> Rewrite:
    """See ``spi.RowDeletes.mask``. Raises AdapterError for places that are not in the outputs, or twice there."""
    written = rewrite.written
    task = written.task
    now = log.at(changes.version, task.table_uuid)
    applied = applied_now(task, changes)
    live = [path for path, deletes in zip(task.inputs, applied, strict=True) if deletes is not None]
    counts = count_places(log, hits, {output.path: output.rows for output in written.outputs})
    run = run_folder(task.table_uuid, written.run_id)
    if now.masks_rows:
        outputs, actions, extra = _by_vectors(log, written, run, hits, counts)
    else:
        outputs, actions, extra = _by_copies(log, now, written, run, hits, counts)
    return replace(
        written,
        outputs=tuple(outputs),
        native=Written(log.jvm.array_list(actions), log.inputs(now, task.id, live)),
        applied=applied,
        replayed=written.rows_out - sum(output.rows for output in outputs),
        extra=tuple(extra),
        unmasked=written,
    )


def count_places(log: Log, hits: DataFrame, rows: Mapping[str, int]) -> dict[str, int]:
    """Places by file. Raises AdapterError for one in a file that is not in ``rows``, beyond its rows, or doubled."""
    from pyspark.sql import functions as F

    asked = hits.groupBy("file").agg(
        F.count(F.lit(1)).alias("n"),
        F.count_distinct("position").alias("places"),
        F.min("position").alias("first"),
        F.max("position").alias("last"),
    )
    counts = {}
    for row in asked.collect():
        file = str(row["file"])
        if file not in rows or row["n"] != row["places"] or row["first"] < 0 or row["last"] >= rows[file]:
            raise AdapterError(
                f"{log.name}: {row['n']} places of rows in {file} are not as many rows of a file at hand"
            )
        counts[file] = int(row["n"])
    return counts


def _by_vectors(
    log: Log, written: Rewrite, run: str, hits: DataFrame, counts: Mapping[str, int]
) -> tuple[list[Output], list[Any], Sequence[str]]:
    """(outputs, their actions, vector files written)."""
    vectors = write_vectors(log, run, hits, dict.fromkeys(counts), counts)
    outputs, actions = [], []
    for output, add in zip(written.outputs, written.native.outputs, strict=True):
        vector = vectors.by_file.get(output.path)
        masked = int(vector.cardinality()) if vector is not None else 0
        if masked == output.rows:
            continue
        outputs.append(replace(output, rows=output.rows - masked, masked=masked))
        actions.append(add if vector is None else add.removeRows(vector, True, False)._1())
    return outputs, actions, keep_vectors(log, vectors, [output.path for output in outputs])


def write_vectors(
    log: Log, run: str, hits: DataFrame, present: Mapping[str, Any], counts: Mapping[str, int]
) -> Vectors:
    """One vector for each file of ``hits``, with the rows of its ``present`` one (a descriptor or None) in it.

    The vectors' files lie in the folder of a run. Raises AdapterError where the vectors do not mask just as many rows
    more as ``counts`` says, and Rejected where the storage has not kept them; then the vector files are deleted.
    """
    if not counts:
        return Vectors({}, ())
    generator = log.singleton("commands.DeletionVectorBitmapGenerator")
    root = log.log.dataPath()
    # The generator takes the folder of the run for the table: what lies elsewhere has to be named in full.
    known = {p: vector.copyWithAbsolutePath(root) for p, vector in present.items() if vector is not None}
    asked = _asked(hits, known)
    with log.active(log.jvm.session):
        made = log.jvm.python_list(
            generator.buildDeletionVectors(log.jvm.session, asked._jdf, log.at_folder(run), 0)
        )
    by_file = {str(result.filePath()): _moved(result.deletionVector(), root, run) for result in made}
    vectors = Vectors(by_file, _vector_files(log, by_file.values()))
    masked = {str(result.filePath()): int(result.matchedRowCount()) for result in made}
    if not masked == counts == {path: _grown(vector, present[path]) for path, vector in by_file.items()}:
        discard(log, vectors.files)
        raise AdapterError(
            f"{log.name}: {sum(counts.values())} rows were to be masked, and Delta masked {sum(masked.values())}"
        )
    _refuse_torn(log, vectors)
    return vectors


def _refuse_torn(log: Log, vectors: Vectors) -> None:
    """Raise Rejected where a vector file is shorter than its vectors; then all of them are deleted.

    Delta swallows an error of closing such a file (delta-io/delta 7329).
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


def _moved(vector: Any, root: Any, run: str) -> Any:
    """The same vector as one of the table: its file lies in the folder of a run, which becomes its prefix."""
    if not vector.isOnDisk():
        return vector
    identifier = vector.getRandomPrefixAndUuid().get()._2()
    # Delta gives a relative path only to a vector that has an absolute one.
    return vector.copyWithAbsolutePath(root).copyWithNewRelativePath(identifier, run)


def _grown(vector: Any, before: Any) -> int:
    """Rows that a vector masks and the one before did not."""
    return int(vector.cardinality()) - (int(before.cardinality()) if before is not None else 0)


def _asked(hits: DataFrame, present: Mapping[str, Any]) -> DataFrame:
    """Places in the form of Delta's generator, each with the vector that its file has already."""
    from pyspark.sql import functions as F

    named = hits.select(F.col("file").alias("filePath"), F.col("position").alias("rowIndexCol"))
    if present:
        ids = [str(vector.serializeToBase64()) for vector in present.values()]
        known = small(hits, filePath=list(present), deletionVectorId=ids)
        named = named.join(F.broadcast(known), "filePath", "left")
    else:
        named = named.withColumn("deletionVectorId", F.lit(None).cast("string"))
    return named.select(*_VECTOR_COLUMNS)


def keep_vectors(log: Log, vectors: Vectors, paths: Iterable[str]) -> tuple[str, ...]:
    """The vector files that serve these data files; the others, of data files without a live row, are deleted."""
    named = _vector_files(log, (vectors.by_file[path] for path in paths if path in vectors.by_file))
    discard(log, [file for file in vectors.files if file not in named])
    return named


def _vector_files(log: Log, vectors: Iterable[Any]) -> tuple[str, ...]:
    """Files of vectors, by paths below the table; several can be in one file."""
    root = log.log.dataPath()
    places = (vector.urlEncodedRelativePathIfExists(root) for vector in vectors if vector.isOnDisk())
    return tuple(sorted({str(place.get()) for place in places}))


def _by_copies(
    log: Log, now: State, written: Rewrite, run: str, hits: DataFrame, counts: Mapping[str, int]
) -> tuple[list[Output], list[Any], Sequence[str]]:
    """(outputs, their actions, files written): touched outputs are written anew, where a row is left."""
    adds = dict(zip((o.path for o in written.outputs), written.native.outputs, strict=True))
    left = {o.path: o.rows - counts[o.path] for o in written.outputs if o.path in counts}
    kept = {path: rows for path, rows in left.items() if rows}
    readable = {path: _readable(log, now, adds[path]) for path in kept}
    copies = write_copies(log, now, run, hits, readable, kept)
    outputs, actions, extra = [], [], []
    for output in written.outputs:
        add = adds[output.path]
        if output.path not in left:
            outputs.append(output)
            actions.append(add)
        elif output.path in copies:
            made, data = described(log, copies[output.path])
            outputs.append(made)
            extra.append(made.path)
            marks = carried_marks(add, data)
            actions.append(log.edited(copies[output.path], dataChange=False, **marks))
    return outputs, actions, extra


def _readable(log: Log, state: State, add: Any) -> Any:
    """An uncommitted file so that its row ids can be read: it has no first one yet, its own go first."""
    return log.edited(add, baseRowId=0, defaultRowCommitVersion=0) if state.tracks_rows else add


def write_copies(
    log: Log, state: State, run: str, hits: DataFrame, adds: Mapping[str, Any], rows: Mapping[str, int]
) -> dict[str, Any]:
    """Each file copied without its ``hits``, in the same order of rows, into the folder of a run: path → new AddFile.

    ``adds`` are by path; ``rows`` is how many each new file must have, not 0. Raises AdapterError where it has not;
    then the new files are deleted.
    """
    if not adds:
        return {}
    made = write_files(log, state, rows_by_file(log, state, (hits, "left_anti"), adds), run)
    new = [described(log, add)[0] for add in made]
    if [output.rows for output in new] != [rows[path] for path in adds]:
        discard(log, [output.path for output in new])
        raise AdapterError(
            f"{log.name}: {len(adds)} files were to be written anew with {sum(rows[p] for p in adds)} rows, and "
            f"{len(new)} were with {sum(o.rows for o in new)}"
        )
    return dict(zip(adds, made, strict=True))


def rows_by_file(
    log: Log,
    state: State,
    only: tuple[DataFrame, str] | None,
    adds: Mapping[str, Any],
    *,
    row_ids: bool = True,
) -> DataFrame:
    """Live rows of files, in a partition for each file, in their order.

    ``only`` are places and how they count: ``left_semi`` for the rows there, ``left_anti`` for all others. ``adds`` are
    AddFiles by path. With ``row_ids``, where the table tracks rows, ids and versions are columns too.
    """
    from pyspark.sql import functions as F

    scanned = log.scan(state, log.jvm.array_list(adds.values()), numbered=True)
    rows = log.with_row_ids(state, scanned) if row_ids else scanned
    file, position = file_and_position(log, rows)
    placed = rows.select(F.struct("*").alias("row"), file.alias("spelled"), position)
    names = spelled(log, adds)
    numbers = small(placed, spelled=list(names.values()), file=list(names), at=list(range(len(names))))
    wanted = placed.join(F.broadcast(numbers), "spelled")
    if only is not None:
        places, how = only
        wanted = wanted.join(places.select("file", "position"), ["file", "position"], how)
    in_order = wanted.repartitionById(len(names), F.col("at").cast("int")).sortWithinPartitions("position")
    rows_alone: DataFrame = in_order.select("row.*")
    return rows_alone
