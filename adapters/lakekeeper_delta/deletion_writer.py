"""Deletes rows of files by position: with deletion vectors, or with copies of the files without these rows.

Both compare the number of rows that Delta deleted with the number of positions, and raise if they differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakekeeper.core.model.run_folders import run_folder
from lakekeeper.core.planning.rebase import applied_now
from lakekeeper.core.planning.rewrites import Output, Rewrite
from lakekeeper.errors import AdapterError
from lakekeeper.spi import Lost, Places
from lakekeeper_delta import partition_values
from lakekeeper_delta.columnar_copies import columnar_copies, columnar_rows
from lakekeeper_delta.deletion_vectors import (
    Vectors,
    masked,
    refuse_torn,
    store,
    vector_files,
    vector_of,
    with_rows,
)
from lakekeeper_delta.native import Log, State
from lakekeeper_delta.rewrite import carried_marks, described, discard, write_files
from lakekeeper_delta.row_positions import file_and_position, small, spelled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_VECTOR_COLUMNS = ("filePath", "deletionVectorId", "rowIndexCol")  # the columns that Delta's generator reads


def mask(log: Log, lost: Lost, hits: DataFrame | Places) -> Rewrite:
    """See ``spi.RowDeletes.mask``. Raises AdapterError if the positions are not distinct live rows of the outputs."""
    base, now = lost.base, log.latest()
    counts = _counts(log, hits, {output.path: output.rows + output.masked for output in base.outputs})
    run = run_folder(base.task.table_uuid, base.run_id)
    masks: dict[str, Any] = {}
    moved = _gained(log, lost, run)
    if not now.masks_rows:
        outputs, actions, extra = _by_copies(log, now, base, run, hits, counts)
    elif isinstance(hits, Mapping):
        masks = {path: with_rows(log, mask_of(log, base, path), hits[path]) for path in counts}
        outputs, actions, extra = _by_vectors(log, base, store(log, run, masks))
    else:
        present = {path: add.deletionVector() for path, add in _adds(base).items() if path in counts}
        outputs, actions, extra = _by_vectors(log, base, write_vectors(log, now, run, hits, present, counts))
    same = {path: bitmap for path, bitmap in base.native.masks.items() if path not in counts}
    native = replace(
        base.native,
        outputs=actions,
        inputs=(*lost.native.inputs.values(), *lost.native.successors),
        dead=lost.native.dead,
        masks=same | masks,
        moved=moved.actions,
        moved_from=moved.rows,
        known=dict(lost.native.inputs),
    )
    return base.masked(
        outputs,
        native,
        applied=applied_now(base.task, lost.changes),
        rows=sum(counts.values()),
        extra=extra,
        before=lost.rewrite,
        successors=lost.successors,
        moved=moved.outputs,
    )


@dataclass(frozen=True, slots=True)
class _Gained:
    """Files with the rows that successors have gained, which are of no level, and the rows that each of them holds."""

    outputs: Sequence[Output] = ()
    actions: Sequence[Any] = ()
    rows: Sequence[Places] = ()


def _gained(log: Log, lost: Lost, run: str) -> _Gained:
    """All rows that successors have gained: what earlier replays have moved, and a file with the others."""
    before, native = lost.rewrite.moved, lost.rewrite.native
    stay, gained = lost.not_moved(native.moved_from)
    outputs, actions = [before[i] for i in stay], [native.moved[i] for i in stay]
    rows = [native.moved_from[i] for i in stay]
    adds = {str(add.path()): add for add in lost.native.successors if str(add.path()) in gained}
    if adds:
        state = log.at(lost.changes.version, lost.base.task.table_uuid)
        add = columnar_rows(log, state, lost.base, adds, gained, run)
        made = [add] if add is not None else _rows_by_spark(log, state, adds, gained, run)
        new = [described(log, each)[0] for each in made]
        count = sum(map(len, gained.values()))
        if [output.rows for output in new] != [count]:
            discard(log, [output.path for output in new])
            raise AdapterError(
                f"{log.name}: {count} rows of {len(adds)} files were to be copied, and others were"
            )
        outputs, actions, rows = [*outputs, *new], [*actions, *made], [*rows, gained]
    return _Gained(outputs, actions, rows)


def _rows_by_spark(log: Log, state: State, adds: Mapping[str, Any], wanted: Places, run: str) -> list[Any]:
    """The actions of new files in the folder of a run, with these rows."""
    rows = rows_by_file(log, state, (_frame(log, wanted), "left_semi"), adds).coalesce(1)
    values = partition_values.of_task(log, state, list(adds.values()))
    made = write_files(log, state, rows, run, partition=values)
    return [log.edited(add, dataChange=False) for add in made]


def mask_of(log: Log, rewrite: Rewrite, path: str) -> Any:
    """The deleted rows of an output, as a bitmap that must not be changed."""
    known = rewrite.native.masks.get(path)
    return vector_of(log, _adds(rewrite)[path]) if known is None else known


def _adds(rewrite: Rewrite) -> dict[str, Any]:
    """The AddFiles of the outputs by path."""
    return dict(zip((output.path for output in rewrite.outputs), rewrite.native.outputs, strict=True))


def _counts(log: Log, hits: DataFrame | Places, rows: Mapping[str, int]) -> dict[str, int]:
    """Number of positions by file. Raises AdapterError if they are not distinct rows of the given files."""
    if not isinstance(hits, Mapping):
        return count_places(log, hits, rows)
    for file, places in hits.items():
        inside = file in rows and all(0 <= at < rows[file] for at in places)
        if not inside or len(set(places)) != len(places):
            raise _no_rows(log, file, len(places))
    return {file: len(places) for file, places in hits.items() if len(places)}


def _no_rows(log: Log, file: str, places: int) -> AdapterError:
    return AdapterError(
        f"{log.name}: of {places:,} row positions to delete, some are not of rows of {file} in the snapshot"
    )


def count_places(log: Log, hits: DataFrame, rows: Mapping[str, int]) -> dict[str, int]:
    """Number of positions by file. Raises AdapterError for a file not in ``rows``, or a bad or doubled position."""
    from pyspark.sql import functions as F

    by_file = hits.groupBy("file").agg(
        F.count(F.lit(1)).alias("n"),
        F.count_distinct("position").alias("places"),
        F.min("position").alias("first"),
        F.max("position").alias("last"),
    )
    counts = {}
    for row in by_file.collect():
        file = str(row["file"])
        if file not in rows or row["n"] != row["places"] or row["first"] < 0 or row["last"] >= rows[file]:
            raise _no_rows(log, file, row["n"])
        counts[file] = int(row["n"])
    return counts


def _by_vectors(log: Log, base: Rewrite, vectors: Vectors) -> tuple[list[Output], list[Any], Sequence[str]]:
    """(outputs, their actions, other files in use); a new deletion vector replaces the previous one."""
    outputs, actions = [], []
    for output, add in zip(base.outputs, base.native.outputs, strict=True):
        vector = vectors.by_file.get(output.path)
        physical = output.rows + output.masked
        dead = output.masked if vector is None else int(vector.cardinality())
        if dead == physical:
            continue
        outputs.append(replace(output, rows=physical - dead, masked=dead))
        actions.append(add if vector is None else masked(log, add, vector, data_change=False)[0])
    keep_vectors(log, vectors, [output.path for output in outputs])
    in_use = (add.deletionVector() for add in actions)
    return (
        outputs,
        actions,
        (*vector_files(log, (v for v in in_use if v is not None)), *_copies(base, outputs)),
    )


def _copies(base: Rewrite, outputs: Iterable[Output]) -> list[str]:
    """Outputs that a replay wrote."""
    written = {output.path for output in base.written.outputs}
    return [output.path for output in outputs if output.path not in written]


def write_vectors(
    log: Log,
    state: State,
    run: str,
    hits: DataFrame,
    present: Mapping[str, Any],
    counts: Mapping[str, int],
) -> Vectors:
    """Write one vector for each file of ``hits``, including its ``present`` one (a descriptor or None).

    The vector files are stored in the folder of a run. Raises AdapterError unless the vectors delete exactly as many
    more rows as ``counts`` says, and Rejected if the storage did not keep them; then the vector files are deleted.
    """
    if not counts:
        return Vectors({}, ())
    root = log.log.dataPath()
    # The generator treats the folder of the run as the table, so vectors stored elsewhere need absolute paths.
    known = {p: vector.copyWithAbsolutePath(root) for p, vector in present.items() if vector is not None}
    requests = _vector_requests(hits, known)
    with log.jvm.active():
        made = log.jvm.python_list(log.shim.build_vectors(log, state, requests._jdf, run))
    by_file = {str(result.filePath()): _moved(log, result.deletionVector(), run) for result in made}
    vectors = Vectors(by_file, vector_files(log, by_file.values()))
    matched = {str(result.filePath()): int(result.matchedRowCount()) for result in made}
    if not matched == counts == {path: _grown(vector, present[path]) for path, vector in by_file.items()}:
        discard(log, vectors.files)
        raise AdapterError(
            f"{log.name}: {sum(counts.values())} rows were to be masked, but Delta masked {sum(matched.values())}"
        )
    refuse_torn(log, vectors)
    return vectors


def _moved(log: Log, vector: Any, run: str) -> Any:
    """The same vector relative to the table: its file is in the folder of a run, which becomes its prefix."""
    if not vector.isOnDisk():
        return vector
    prefix, identifier = log.shim.prefix_and_id(log, vector)
    folder = f"{run}/{prefix}" if prefix else run
    # Delta gives a relative path only to a vector that has an absolute one.
    return vector.copyWithAbsolutePath(log.log.dataPath()).copyWithNewRelativePath(identifier, folder)


def _grown(vector: Any, before: Any) -> int:
    """Rows that a vector deletes and the previous one did not."""
    return int(vector.cardinality()) - (int(before.cardinality()) if before is not None else 0)


def _vector_requests(hits: DataFrame, present: Mapping[str, Any]) -> DataFrame:
    """Positions in the form that Delta's generator reads, each with the vector that its file already has."""
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
    named = vector_files(log, (vectors.by_file[path] for path in paths if path in vectors.by_file))
    discard(log, [file for file in vectors.files if file not in named])
    return named


def _by_copies(
    log: Log, now: State, base: Rewrite, run: str, hits: DataFrame | Places, counts: Mapping[str, int]
) -> tuple[list[Output], list[Any], Sequence[str]]:
    """(outputs, their actions, all copies in use): touched outputs are rewritten if they still have a live row.

    So are outputs with rows that an earlier replay deleted by vector, before vectors were turned off.
    """
    adds = _adds(base)
    left = {o.path: o.rows - counts.get(o.path, 0) for o in base.outputs if o.path in counts or o.masked}
    kept = {path: rows for path, rows in left.items() if rows}
    copies = columnar_copies(log, now, base, adds, hits, kept)
    if copies is None:
        readable = {path: _readable(log, now, adds[path]) for path in kept}
        copies = write_copies(log, now, run, _frame(log, hits), readable, kept)
    outputs, actions = [], []
    for output in base.outputs:
        add = adds[output.path]
        if output.path not in left:
            outputs.append(output)
            actions.append(add)
        elif output.path in copies:
            made, data = described(log, copies[output.path])
            outputs.append(made)
            marks = carried_marks(add, data)
            actions.append(log.edited(copies[output.path], dataChange=False, **marks))
    return outputs, actions, _copies(base, outputs)


def _frame(log: Log, hits: DataFrame | Places) -> DataFrame:
    """Positions as columns ``file`` and ``position``."""
    if not isinstance(hits, Mapping):
        return hits
    files = [file for file, places in hits.items() for _ in places]
    rows = [int(at) for places in hits.values() for at in places]
    table = pa.table({"file": pa.array(files, pa.string()), "position": pa.array(rows, pa.int64())})
    made: DataFrame = log.jvm.from_arrow(table)
    return made


def _readable(log: Log, state: State, add: Any) -> Any:
    """An uncommitted AddFile whose row ids can be read: it has no baseRowId yet; materialized ids win."""
    return log.edited(add, baseRowId=0, defaultRowCommitVersion=0) if state.tracks_rows else add


def write_copies(
    log: Log, state: State, run: str, hits: DataFrame, adds: Mapping[str, Any], rows: Mapping[str, int]
) -> dict[str, Any]:
    """Copy each file without its ``hits``, in the same order of rows, into the folder of a run: path → new AddFile.

    ``adds`` are by path; ``rows`` is the number of rows that each new file must have, not 0. If one has another number,
    the new files are deleted and AdapterError is raised.
    """
    if not adds:
        return {}
    made = write_files(log, state, rows_by_file(log, state, (hits, "left_anti"), adds), run)
    new = [described(log, add)[0] for add in made]
    if [output.rows for output in new] != [rows[path] for path in adds]:
        discard(log, [output.path for output in new])
        raise AdapterError(
            f"{log.name}: {len(adds)} files were to be rewritten with {sum(rows[p] for p in adds)} rows, but "
            f"{len(new)} were written with {sum(o.rows for o in new)}"
        )
    return dict(zip(adds, partition_values.like(log, state, made, adds.values()), strict=True))


def rows_by_file(
    log: Log,
    state: State,
    only: tuple[DataFrame, str] | None,
    adds: Mapping[str, Any],
    *,
    row_ids: bool = True,
) -> DataFrame:
    """Live rows of files, one partition for each file, in file order.

    ``only`` holds positions and a join type: ``left_semi`` for the rows there, ``left_anti`` for all others. ``adds``
    are AddFiles by path. With ``row_ids``, row ids and row commit versions are columns too, if row tracking is on.
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
    placed = log.jvm.shim.repartition_by_id(wanted, len(names), F.col("at").cast("int"))
    in_order = placed.sortWithinPartitions("position")
    rows_alone: DataFrame = in_order.select("row.*")
    return rows_alone
