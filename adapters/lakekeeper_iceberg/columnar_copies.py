"""Copies of outputs without some of their rows, and of some rows of other files, written by columnar workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from lakekeeper.columnar.positions import pack
from lakekeeper.core.model.file_merge import FileInput, FileMerge, WrittenFile
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.planning.rewrites import Rewrite
from lakekeeper.errors import AdapterError
from lakekeeper.spark.columnar_merge import merge_each
from lakekeeper.spark.s3_access import NotFollowed
from lakekeeper.spi import Places
from lakekeeper_iceberg import staging
from lakekeeper_iceberg.columnar import IcebergColumnar, Refused, has_lineage
from lakekeeper_iceberg.columnar_files import FilesOfTable
from lakekeeper_iceberg.native import Iceberg

_BYTES_OF_TASK = 32 << 20  # a second; another Python worker takes half of that to start


def columnar_copies(
    jvm: Iceberg, columnar: IcebergColumnar, table: Any, base: Rewrite, masks: Mapping[str, Any]
) -> dict[str, list[Any]] | None:
    """Copy outputs without the rows in ``masks``, PositionDeleteIndexes by path: path → the new DataFile.

    The rows keep their order, and no output may lose all of them. None, and nothing is written, where workers did not
    write the outputs or cannot copy them. Raises AdapterError if a copy has a wrong number of rows; then the copies are
    deleted.
    """
    merge: FileMerge | None = base.native.merge
    # Rows with ids: a worker would have to know the ids that the commit gives to those that do not store them.
    if merge is None or has_lineage(table):
        return None
    files = {path: file for file in base.native.files if (path := str(file.location())) in masks}
    places = {path: path.rpartition("/")[0] for path in files}
    try:
        # Temporary credentials may have changed since the merge.
        reached = FilesOfTable(jvm, table.io(), next(iter(places.values())))
        paths = {path: reached.path(path) for path in files}
    except NotFollowed:
        return None
    rows = dict(zip(masks, jvm.rows_of(list(masks.values())), strict=True))
    physical = {path: int(file.recordCount()) for path, file in files.items()}
    merges = [
        merge.copying(FileInput(paths[path], physical[path], pack(rows[path])), reached.store)
        for path in files
    ]
    tasks = 1 + sum(int(file.fileSizeInBytes()) for file in files.values()) // _BYTES_OF_TASK
    found = dict(zip(files, merge_each(jvm.spark, merges, tasks), strict=True))
    copies = _single(jvm, table, found, places, {path: physical[path] - len(rows[path]) for path in files})
    return {
        path: [columnar.data_file(table, files[path], places[path], merge, copy, base.task.key)]
        for path, copy in copies.items()
    }


def columnar_rows(
    jvm: Iceberg,
    columnar: IcebergColumnar,
    table: Any,
    base: Rewrite,
    tasks: Mapping[str, Any],
    wanted: Places,
    run: str,
) -> Any | None:
    """Copy the ``wanted`` rows of files into one file in the folder of a run: its DataFile, without a level.

    ``tasks`` are the scan tasks of the files by path, all of the partition of ``base`` and without deletes. None, and
    nothing is written, where workers did not write the outputs or cannot copy the rows.
    """
    merge: FileMerge | None = base.native.merge
    if merge is None or has_lineage(table):
        return None
    like = next(iter(tasks.values())).file()
    try:
        place = columnar.place(table, staging.home_of(jvm, table, run), like)
        reached = FilesOfTable(jvm, table.io(), place)
        whole = columnar.inputs(table, reached, list(tasks.values()), base.task)
        folder = reached.path(place)
    except (Refused, NotFollowed):
        return None
    if any(each.deleted for each in whole):
        return None
    inputs = tuple(
        replace(each, deleted=pack(np.delete(np.arange(each.rows or 0), wanted[path])))
        for path, each in zip(tasks, whole, strict=True)
    )
    [files] = merge_each(jvm.spark, [merge.collecting(inputs, folder, reached.store)], 1)
    if isinstance(files, Reason) or len(files) != 1:
        return None
    return columnar.data_file(table, like, place, merge, files[0], None)


def _single(
    jvm: Iceberg,
    table: Any,
    found: Mapping[str, list[WrittenFile] | Reason],
    places: Mapping[str, str],
    rows: Mapping[str, int],
) -> dict[str, WrittenFile]:
    """The copy of each output. Raises AdapterError unless each is one file with its number of rows."""
    made = {path: copies for path, copies in found.items() if not isinstance(copies, Reason)}
    wrong = [path for path in found if [copy.rows for copy in made.get(path, ())] != [rows[path]]]
    if wrong:
        written = [f"{places[p]}/{c.path.rpartition('/')[2]}" for p, copies in made.items() for c in copies]
        staging.delete_own(jvm, table, written)
        have = sum(copy.rows for copy in made.get(wrong[0], ()))
        raise AdapterError(
            f"{table.name()}: the copy of {wrong[0]} must have {rows[wrong[0]]} rows; it has {have}"
        )
    return {path: copies[0] for path, copies in made.items()}
