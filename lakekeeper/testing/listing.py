"""A version of the memory lake as blocks, and the files that may hold matches of a predicate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lakekeeper.core.model.blocks import UNKNOWN, BlockSet, make_blocks
from lakekeeper.core.model.keys import ClusterKey, KeyColumn
from lakekeeper.testing.predicate import Predicate
from lakekeeper.testing.values import Statistics
from lakekeeper.testing.versions import Column, DataFile, Entry, Version, of_columns

_DELETE_BYTES = 8  # bytes of a deletion vector per position


def may_match(means: Predicate, file: DataFile, at: Version) -> bool:
    """Whether a file may hold a match, by its statistics."""
    return means.may_match(of_columns(file, at), len(file.rows))


def must_match(means: Predicate, file: DataFile, at: Version) -> bool:
    """Whether every row of a file matches, by its statistics."""
    return means.must_match(of_columns(file, at), len(file.rows))


def blocks_of(
    entries: Sequence[Entry], rows: Sequence[int], key: ClusterKey | None, *, stores_level: bool
) -> BlockSet:
    """Live files with their ``rows`` and deletes; without ``stores_level`` every file is of level 0."""
    files = [entry.file for entry in entries]
    columns: dict[str, Any] = {
        "path": [f.path for f in files],
        "partition": [f.partition for f in files],
        "spec": np.array([f.spec for f in files], np.int32),
        "rows": np.array(rows, np.int64),
        "bytes": np.array([f.bytes for f in files], np.int64),
        "deleted_rows": np.array([len(e.deleted) for e in entries], np.int64),
        "delete_bytes": np.array([_DELETE_BYTES * len(e.deleted) for e in entries], np.int64),
        "delete_id": [e.delete_id for e in entries],
        "level": np.array([e.level if stores_level else 0 for e in entries], np.int16),
        "key_id": [e.key_id for e in entries],
        "added_at": np.array([e.added_at for e in entries], np.int64),
        "curve_id": [e.curve[0] if e.curve else "" for e in entries],
        "curve_lo": np.array([e.curve[1] if e.curve else UNKNOWN for e in entries], np.int64),
        "curve_hi": np.array([e.curve[2] if e.curve else UNKNOWN for e in entries], np.int64),
    }
    per_key = [[_statistics(f, column) for f in files] for column in (key.columns if key else ())]
    columns["lo"] = [[s.lo for s in found] for found in per_key]
    columns["hi"] = [[s.hi for s in found] for found in per_key]
    columns["null_count"] = [np.array([s.nulls for s in found], np.int64) for found in per_key]
    columns["exact"] = [np.array([s.exact for s in found], np.bool_) for found in per_key]
    return make_blocks(columns, key)


def _statistics(file: DataFile, column: KeyColumn | Column) -> Statistics:
    """Of one column: a column added after the file was written is NULL in all its rows."""
    found = file.statistics.get(column.field_id)
    if found is not None:
        return found
    if all(column.field_id not in row for row in file.rows):
        return Statistics(None, None, len(file.rows))
    return Statistics(None, None, UNKNOWN)
