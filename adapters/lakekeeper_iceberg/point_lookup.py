"""Positions of a few lost rows in the outputs, found by the driver in single row groups, without a Spark job."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lakekeeper.columnar.find import MOST_ROWS, Column, Declined, Identity, Source, Written, find
from lakekeeper.columnar.find import Lost as LostRows
from lakekeeper.columnar.rows import in_parallel
from lakekeeper.core.model.plan import MergeTask
from lakekeeper.spark.jvm import JavaFile, on_local_disk
from lakekeeper.spi import Lost, Places
from lakekeeper_iceberg.keys import SchemaFields
from lakekeeper_iceberg.lost_positions import Before, have_row_ids

_ROW_ID = Column((("_row_id", 2147483540),))  # a reserved field id of the Iceberg spec
_log = logging.getLogger(__name__)


def places(at: Before, lost: Lost) -> Places | None:
    """See ``spi.RowDeletes.places``. Local files are read by path, others through the table's FileIO."""
    if lost.rows is None or lost.rows > MOST_ROWS:
        return None
    base, found = lost.base, lost.native
    try:
        tasks, files = at.tasks(base), _Files(at, found.kept.sources)
        by_id = have_row_ids(at.table, tasks.values())
        taken = []
        # In parallel: a large response of the JVM takes up to 40 ms.
        lost_at = in_parallel(at.jvm.rows_of, found.lost.values())
        for path, rows in zip(found.lost, lost_at, strict=True):
            file = tasks[path].file()
            first = int(file.firstRowId()) if by_id else None
            taken.append(LostRows(files.source(file), rows, first))
        masked = found.kept.masked
        written = [
            Written(files.source(file), _rows(at, masked.get(str(file.location()))))
            for file in base.native.files
        ]
        identity = _identity(SchemaFields(at.jvm, at.table.schema()).top, base.task, by_id=by_id)
        return find(taken, written, identity, found.kept.footers)
    except Declined as why:
        _log.debug("%s: lost rows are searched for by a scan: %s", at.name, why)
    except Exception as error:
        # Any failure to read a file this way: the scan reads it, or reports what is wrong.
        _log.debug("%s: lost rows are searched for by a scan: %r", at.name, error)
    return None


def _rows(at: Before, index: Any) -> Any:
    return np.zeros(0, np.int64) if index is None else at.jvm.rows_of(index)


def _identity(top: Sequence[Mapping[str, Any]], task: MergeTask, *, by_id: bool) -> Identity:
    """All columns of the table, by field id."""
    return Identity(
        columns=tuple(Column(((str(f["name"]), int(f["id"])),)) for f in top),
        whole=True,
        key=tuple(_steps(top, column.path) for column in (task.key.columns if task.key else ())),
        row_id=_ROW_ID if by_id else None,
    )


def _steps(fields: Sequence[Mapping[str, Any]], path: Sequence[str]) -> Column:
    steps = []
    for name in path:
        field = next(f for f in fields if f["name"] == name)
        steps.append((name, int(field["id"])))
        fields = field["type"]["fields"] if isinstance(field["type"], Mapping) else ()
    return Column(tuple(steps))


class _Files:
    """Sources of data files: local files by path, others through a stream of the table's FileIO."""

    def __init__(self, at: Before, known: dict[str, Source]) -> None:
        self._io = at.table.io()
        self._path = at.jvm.view.org.apache.hadoop.fs.Path
        self._hadoop = at.jvm.is_a(self._io, "org.apache.iceberg.hadoop.HadoopFileIO")
        self._known = known

    def source(self, file: Any) -> Source:
        path = str(file.location())
        if path not in self._known:
            self._known[path] = self._opened(path, file)
        return self._known[path]

    def _opened(self, path: str, file: Any) -> Source:
        if str(file.format()) != "PARQUET" or file.keyMetadata() is not None:
            raise Declined(f"{path} is not a plain Parquet file")
        if self._hadoop:
            files = self._path(path).getFileSystem(self._io.conf())
            if on_local_disk(files):
                local = re.sub(r"^file:/{1,3}", "/", path)
                return Source(path, lambda: local)
        size = int(file.fileSizeInBytes())
        return Source(path, lambda: JavaFile(self._io.newInputFile(path).newStream(), size))
