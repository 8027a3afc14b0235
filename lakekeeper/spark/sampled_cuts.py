"""Where a merge by rows is cut into ranges of about the same size: keys from a sample of the rows.

The bounds of unsorted files do not show how rows are distributed between them:

    rows  ▁▂▇█▇▃▂▁▁▁▁▁▁▁▁
          ├──┼┼┼─┼───────┤     cuts at equal shares of the sample

The sampling job reads only the columns of the key. ``repartitionByRange`` would decode all columns for its sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lakekeeper.core.model.keys import ClusterKey, KeyColumn, to_json_value
from lakekeeper.core.model.plan import MergeTask
from lakekeeper.spark.curve import PLACE, with_place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Cut = tuple[Any, ...]
"""Values of the leading key columns in JSON form (see ``keys.to_json_value``), or one position on the key's curve."""

PER_RANGE = 2_000
"""Sampled rows for each range: the standard deviation of its size is then 2%."""
MOST = 200_000
"""Sampled rows for all ranges."""
_SEED = 0x1A6E_4EE9_E7A1  # a small one could be that of a user's rand(1): both would draw the same numbers
_MICROSECOND = timedelta(microseconds=1)
_READ = {  # dates and times that Python cannot hold, or would move to another time zone
    "date": "unix_date({})",
    "timestamp": "unix_micros({})",
    "timestamp_ntz": "{} - timestamp_ntz'1970-01-01 00:00:00'",
}


def sampled_cuts(rows: DataFrame, task: MergeTask, key: ClusterKey) -> list[Cut]:
    """Ascending, distinct cuts of a task, fewer than ``task.row_ranges``. Runs a Spark job if there can be any.

    Each is above the least row of the sample, so that the first range is not empty.
    """
    from pyspark.sql import functions as F

    columns, parts = key.columns, task.row_ranges
    if parts == 1:
        return []
    share = min(PER_RANGE * parts, MOST) / max(task.input_rows, 1)
    sample = rows.sample(min(share, 1.0), _SEED)
    if task.boundaries is not None:
        sample = with_place(sample, key, task.boundaries)
        columns = (KeyColumn((PLACE,), "int", ""),)
    sample = sample.select(*[column.name for column in columns])
    sample = sample.toDF(*[f"c{i}" for i in range(len(columns))]).repartition(1)
    sample = sample.sortWithinPartitions(*[F.col(name).asc_nulls_first() for name in sample.columns])
    read = [_READ.get(column.kind, "{}").format(f"c{i}") for i, column in enumerate(columns)]
    ordered = sample.selectExpr(*read).collect()
    if not ordered:
        return []
    picked = [ordered[len(ordered) * i // parts] for i in range(parts)]
    return _distinct([tuple(map(_json, row, columns)) for row in picked])


def _distinct(picked: Sequence[Cut]) -> list[Cut]:
    """What follows the first pick, by as few leading columns as distinguish all picks, each value once."""
    for width in range(1, len(picked[0]) + 1):
        found = list(dict.fromkeys(pick[:width] for pick in picked))
        if len(found) == len(picked):
            break
    return found[1:]


def _json(value: Any, column: KeyColumn) -> Any:
    if isinstance(value, timedelta):
        return value // _MICROSECOND
    return value if column.kind in _READ else to_json_value(value, column.kind)
