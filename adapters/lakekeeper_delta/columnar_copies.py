"""Copies of outputs without some of their rows, and of some rows of other files, written by columnar workers."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt

from lakekeeper.columnar.positions import pack
from lakekeeper.core.model.file_merge import FileInput, FileMerge, WrittenFile
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.planning.rewrites import Output, Rewrite
from lakekeeper.errors import AdapterError
from lakekeeper.spark.columnar_merge import merge_each
from lakekeeper.spark.s3_access import NotFollowed
from lakekeeper.spi import Places
from lakekeeper_delta import partition_values
from lakekeeper_delta.columnar import Refused, input_of, place
from lakekeeper_delta.native import Log, State
from lakekeeper_delta.rewrite import discard
from lakekeeper_delta.statistics import Indexed, stats_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BYTES_OF_TASK = 32 << 20  # a second; another Python worker takes half of that to start


def columnar_copies(
    log: Log,
    state: State,
    base: Rewrite,
    adds: Mapping[str, Any],
    hits: DataFrame | Places,
    rows: Mapping[str, int],
) -> dict[str, Any] | None:
    """Copy outputs without their ``hits``, in the same order of rows, into their own folders: path → new AddFile.

    ``adds`` are the AddFiles of all outputs by path, ``rows`` the number of rows that each copy must have, not 0, by
    the path of its output. None, and nothing is written, where workers did not write the outputs or cannot copy them.
    Raises AdapterError if a copy has another number of rows; then the copies are deleted.
    """
    merge: FileMerge | None = base.native.merge
    outputs = {output.path: output for output in base.outputs if output.path in rows}
    if merge is None or any(output.masked for output in outputs.values()):
        return None
    try:
        # Temporary credentials may have changed since the merge.
        root, store = place(log, log.log.newDeltaHadoopConf())
    except (Refused, NotFollowed):
        return None
    places = _places(log, hits)
    merges = [merge.copying(_input(root, outputs[path], places), store) for path in rows]
    tasks = 1 + sum(output.bytes for output in outputs.values()) // BYTES_OF_TASK
    copies = merge_each(log.jvm.spark, merges, tasks)
    files = _single_files(log, rows, copies)
    indexed = Indexed.of(log, state)
    return {
        path: log.edited(
            adds[path],
            path=_beside(path, file),
            size=file.bytes,
            modificationTime=time.time_ns() // 1_000_000,
            stats=stats_json(indexed, merge.columns, file),
        )
        for path, file in files.items()
    }


def columnar_rows(
    log: Log, state: State, base: Rewrite, adds: Mapping[str, Any], wanted: Places, run: str
) -> Any | None:
    """Copy the ``wanted`` rows of files into one file in the folder of a run: its AddFile, without a level.

    ``adds`` are the files by path, all of one partition and without deletes. None, and nothing is written, where
    workers did not write the outputs or cannot copy the rows.
    """
    merge: FileMerge | None = base.native.merge
    if merge is None:
        return None
    try:
        root, store = place(log, log.log.newDeltaHadoopConf())
        inputs = [_only(log, root, add, wanted[path], ids=state.tracks_rows) for path, add in adds.items()]
    except (Refused, NotFollowed):
        return None
    [files] = merge_each(log.jvm.spark, [merge.collecting(tuple(inputs), f"{root}/{run}", store)], 1)
    if isinstance(files, Reason) or len(files) != 1:
        return None
    add = {
        "path": f"{run}/{files[0].path.rpartition('/')[2]}",
        "partitionValues": partition_values.of_task(log, state, list(adds.values())) or {},
        "size": files[0].bytes,
        "modificationTime": time.time_ns() // 1_000_000,
        "stats": stats_json(Indexed.of(log, state), merge.columns, files[0]),
        "dataChange": False,
    }
    return log.action(json.dumps({"add": add}))


def _only(
    log: Log, root: str, add: Any, rows: Sequence[int] | npt.NDArray[np.int64], *, ids: bool
) -> FileInput:
    """A file as if all rows but these were deleted."""
    _, whole = input_of(log, root, add, json.loads(add.json())["add"], ids=ids)
    if whole.rows is None or whole.deleted:
        raise Refused("a file with deletes, or without a row count")
    return replace(whole, deleted=pack(np.delete(np.arange(whole.rows), rows)))


def _places(log: Log, hits: DataFrame | Places) -> Places:
    """Ascending positions by file; a replay looks for two million rows at most."""
    if isinstance(hits, Mapping):
        return hits
    from pyspark.sql import functions as F

    positions = F.array_sort(F.collect_list("position")).alias("positions")
    found = log.jvm.to_arrow(hits.groupBy("file").agg(positions))
    lists = (each.values.to_numpy() for each in found["positions"])
    return dict(zip(found["file"].to_pylist(), lists, strict=True))


def _input(root: str, output: Output, places: Places) -> FileInput:
    positions = np.asarray(places.get(output.path, ()), np.int64)
    return FileInput(f"{root}/{unquote(output.path)}", output.rows, pack(positions))


def _beside(path: str, file: WrittenFile) -> str:
    """The path of a copy in the log: its output's, but for the name."""
    return f"{path.rpartition('/')[0]}/{file.path.rpartition('/')[2]}"


def _single_files(
    log: Log, rows: Mapping[str, int], copies: Sequence[list[WrittenFile] | Reason]
) -> dict[str, WrittenFile]:
    """The copy of each output. Raises AdapterError unless each is one file with its number of rows."""
    found: dict[str, WrittenFile] = {}
    wrong: dict[str, object] = {}
    for (path, count), files in zip(rows.items(), copies, strict=True):
        if isinstance(files, Reason):
            wrong[path] = files
        elif [file.rows for file in files] == [count]:
            found[path] = files[0]
        else:
            wrong[path] = f"it has {sum(file.rows for file in files)}"
            discard(log, [_beside(path, file) for file in files])
    if wrong:
        discard(log, [_beside(path, file) for path, file in found.items()])
        path, cause = next(iter(wrong.items()))
        raise AdapterError(f"{log.name}: the copy of {path} must have {rows[path]} rows; {cause}")
    return found
