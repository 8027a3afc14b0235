"""Files of rows on a curve key, and boundaries of even steps."""

from __future__ import annotations

from typing import Any

from lakekeeper.core.model.blocks import BlockSet, make_blocks
from lakekeeper.core.model.boundaries import MOST, Boundaries
from lakekeeper.core.model.keys import (
    ClusterKey,
    KeyColumn,
)
from lakekeeper.testing.values import statistics


def key_of(layout: str, *kinds: str) -> ClusterKey:
    return ClusterKey(tuple(KeyColumn((f"c{i}",), kind, str(i)) for i, kind in enumerate(kinds)), layout)


HILBERT = key_of("hilbert", "int", "int")


def files_of(key: ClusterKey, files: list[list[tuple[Any, ...]]], **more: Any) -> BlockSet:
    """A block for each list of rows, with the statistics that a writer keeps."""
    found = [[statistics([row[k] for row in rows]) for rows in files] for k in range(len(key.columns))]
    columns = {
        "path": [f"f{i}" for i in range(len(files))],
        "rows": [len(rows) for rows in files],
        "bytes": [100 * len(rows) for rows in files],
        "lo": [[s.lo for s in column] for column in found],
        "hi": [[s.hi for s in column] for column in found],
        "null_count": [[s.nulls for s in column] for column in found],
        "exact": [[True] * len(files) for _ in found],
    }
    return make_blocks(columns | more, key)


def even(columns: int, kind: str = "int") -> Boundaries:
    """Boundaries at 0, 1, 2 …: a value's bucket is itself plus two."""
    return Boundaries(
        key_of("zorder", kind, kind).key_id, 0, (kind,) * columns, (tuple(range(MOST)),) * columns
    )
