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
from lakekeeper_delta.char_columns import holds_char
from lakekeeper_delta.data_files import DataFiles
from lakekeeper_delta.deletion_vectors import positions
from lakekeeper_delta.deletion_writer import mask_of
from lakekeeper_delta.native import Log, State

_ROW_ID = "delta.rowTracking.materializedRowIdColumnName"
_log = logging.getLogger(__name__)


def places(log: Log, lost: Lost) -> Places | None:
    """See ``spi.RowDeletes.places``. Reads files with the credentials of the table's own Hadoop configuration."""
    base, found = lost.base, lost.native
    if lost.rows is None or lost.rows > MOST_ROWS:
        return None
    try:
        state = log.at(base.task.read_version, base.task.table_uuid)
        identity = identity_of(state, base.task)
        inputs, files = base.written.native.by_path, Files(log, base.native.sources)
        taken = [
            LostRows(files.source(inputs[path]), positions(log, bitmap), _first_id(inputs[path]))
            for path, bitmap in found.lost.items()
        ]
        written = [
            Written(
                files.source(add),
                positions(log, mask_of(log, base, output.path)) if output.masked else np.zeros(0, np.int64),
            )
            for output, add in zip(base.outputs, base.native.outputs, strict=True)
        ]
        return find(taken, written, identity, base.native.footers)
    except Declined as why:
        _log.debug("%s: lost rows are searched for by a scan: %s", log.name, why)
    except Exception as error:
        # A file cannot be read this way, for whatever reason: a scan reads it, or reports what is wrong with it.
        _log.debug("%s: lost rows are searched for by a scan: %s", log.name, reason(error))
    return None


def identity_of(state: State, task: MergeTask) -> Identity:
    """All columns that are stored in files; a task is in one partition."""
    stored = [f for f in state.schema["fields"] if f["name"] not in state.partition_columns]
    plain = [f for f in stored if not holds_char(f)]
    key = [_steps(state, state.schema, column.path) for column in (task.key.columns if task.key else ())]
    row_id = state.properties.get(_ROW_ID) if state.tracks_rows else None
    if state.tracks_rows and row_id is None:
        raise Declined("the column of row ids is not known")
    return Identity(
        columns=tuple(_steps(state, state.schema, (f["name"],)) for f in plain),
        whole=len(plain) == len(stored),
        key=tuple(key),
        row_id=Column(((row_id, None),)) if row_id else None,
    )


def _steps(state: State, struct: Mapping[str, Any], path: Sequence[str]) -> Column:
    steps: list[tuple[str, int | None]] = []
    for name in path:
        field = next(f for f in struct["fields"] if f["name"] == name)
        metadata = field.get("metadata", {})
        by_id = state.properties.get("delta.columnMapping.mode") == "id"
        stored = metadata.get("delta.columnMapping.physicalName", name) if state.mapped else name
        steps.append((str(stored), int(metadata["delta.columnMapping.id"]) if by_id else None))
        struct = field["type"] if isinstance(field["type"], Mapping) else {"fields": ()}
    return Column(tuple(steps))


def _first_id(add: Any) -> int | None:
    first = add.baseRowId()
    return int(first.get()) if first.isDefined() else None


class Files:
    """Sources of data files, each made once."""

    def __init__(self, log: Log, known: dict[str, Source]) -> None:
        self._opened = DataFiles(log)
        self._known = known

    def source(self, add: Any) -> Source:
        path = str(add.path())
        if path not in self._known:
            self._known[path] = Source(path, self._opened.opener(path, int(add.size())))
        return self._known[path]
