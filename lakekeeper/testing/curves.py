"""Places of rows on the curve of a key, in plain Python: shared by the memory adapter and its runner."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np

from lakekeeper.core.layout.space_filling_curve import index
from lakekeeper.core.model.plan import MergeTask
from lakekeeper.testing.values import Row, at_path, from_json_value, token
from lakekeeper.testing.versions import Span


def places(rows: Sequence[Row], task: MergeTask) -> list[int]:
    """The place of each row on the curve of the task's key; ValueError if the key follows no curve."""
    if task.key is None or task.boundaries is None:
        raise ValueError(f"task {task.id}: its key follows no curve")
    buckets = []
    for column, kept in zip(task.key.columns, task.boundaries.columns, strict=True):
        at = [token(from_json_value(value, column.kind)) for value in kept]
        values = [at_path(row, column.path) for row in rows]
        found = [0 if v is None else 1 + bisect_right(at, token(v)) for v in values]
        buckets.append(np.array(found, np.int64))
    return [int(place) for place in index(task.key.layout, buckets)]


def along_curve(rows: Sequence[Row], task: MergeTask) -> list[list[Row]]:
    """Rows in the order of the curve, stable for ties, as one list for each range between the task's cuts."""
    by_place = sorted(zip(places(rows, task), rows, strict=True), key=lambda pair: pair[0])
    parts: list[list[Row]] = [[] for _ in range(len(task.cuts) + 1)]
    for place, row in by_place:
        parts[bisect_right(task.cuts, place)].append(row)
    return [part for part in parts if part]


def span(rows: Sequence[Row], task: MergeTask) -> Span | None:
    """The range of the curve that the rows cover; None if the key follows no curve."""
    if task.boundaries is None or not rows:
        return None
    found = places(rows, task)
    return task.boundaries.id, min(found), max(found)
