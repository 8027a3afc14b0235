"""Positions of a few lost rows in the outputs, found by the driver in single row groups, without a Spark job."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lakekeeper.columnar.find import MOST_ROWS, Column, Declined, Identity, Source, Written, find
from lakekeeper.columnar.find import Lost as LostRows
from lakekeeper.core.model.plan import MergeTask
from lakekeeper.errors import reason
from lakekeeper.spi import Lost, Places
from lakekeeper_iceberg.data_files import DataFiles
from lakekeeper_iceberg.keys import SchemaFields
from lakekeeper_iceberg.lost_positions import Before, have_row_ids

_ROW_ID = Column((("_row_id", 2147483540),))  # a reserved field id of the Iceberg spec
_NO_ROWS = np.zeros(0, np.int64)
_log = logging.getLogger(__name__)


def places(at: Before, lost: Lost) -> Places | None:
    """See ``spi.RowDeletes.places``. Local files are read by path, others through the table's FileIO."""
    if lost.rows is None or lost.rows > MOST_ROWS:
        return None
    base, found = lost.base, lost.native
    try:
        reads, files = at.reads(base), Files(at, found.kept.sources)
        by_id = have_row_ids(at.table, reads.values())
        masked = {o.path: index for o in base.outputs if (index := found.kept.masked.get(o.path))}
        rows = at.jvm.rows_of([*found.lost.values(), *masked.values()])
        lost_at = dict(zip(found.lost, rows, strict=False))
        masked_at = dict(zip(masked, rows[len(lost_at) :], strict=True))
        taken = [
            LostRows(files.source(path, reads[path].file), at_, reads[path].first_row_id if by_id else None)
            for path, at_ in lost_at.items()
        ]
        written = [
            Written(files.source(output.path, file), masked_at.get(output.path, _NO_ROWS))
            for output, file in zip(base.outputs, base.native.files, strict=True)
        ]
        identity = identity_of(SchemaFields(at.jvm, at.table.schema()).top, base.task, by_id=by_id)
        return find(taken, written, identity, found.kept.footers)
    except Declined as why:
        _log.debug("%s: lost rows are searched for by a scan: %s", at.name, why)
    except Exception as error:
        # Any failure to read a file this way: the scan reads it, or reports what is wrong.
        _log.debug("%s: lost rows are searched for by a scan: %s", at.name, reason(error))
    return None


def identity_of(top: Sequence[Mapping[str, Any]], task: MergeTask, *, by_id: bool) -> Identity:
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


class Files:
    """Sources of data files, each made once."""

    def __init__(self, at: Before, known: dict[str, Source]) -> None:
        self._opened = DataFiles(at.jvm, at.table.io())
        self._known = known

    def source(self, path: str, file: Any) -> Source:
        if path not in self._known:
            if str(file.format()) != "PARQUET" or file.keyMetadata() is not None:
                raise Declined(f"{path} is not a plain Parquet file")
            self._known[path] = Source(path, self._opened.opener(path, int(file.fileSizeInBytes())))
        return self._known[path]
