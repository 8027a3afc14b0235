"""``where``: files that may contain a match, and files in which every row matches, by Delta's data skipping."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakekeeper.errors import OptionError
from lakekeeper.spark.jvm import causes
from lakekeeper.spark.predicates import referenced, unmatched
from lakekeeper_delta.native import Log, State

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PREPARED = "PreparedDeltaFileIndex"
# Types whose statistics are exact: no truncated text, no rounded time, no NaN.
_EXACT = ('"byte"', '"short"', '"integer"', '"long"', '"date"', '"decimal(')


def matching(log: Log, state: State, where: str) -> pa.Array | None:
    """Paths of all files of ``state`` that may contain a row for which ``where`` is true; None for all.

    Raises OptionError for text that does not parse or that names an unknown column.
    """
    try:
        filtered = table_frame(log, state).where(where)
        return _planned(log, filtered._jdf.queryExecution().optimizedPlan())
    except Exception as error:
        chain = causes(error)
        text = (chain[0][1] if chain else str(error)).strip().splitlines()
        raise OptionError(
            "where", where, f"a predicate over the table's columns; {text[0] if text else error}"
        ) from error


def covered(log: Log, state: State, where: str, paths: Collection[str]) -> frozenset[str]:
    """Those of ``paths`` in which every row matches: Delta skips them in a search for rows that do not.

    Uses partition values, and statistics only where they are exact.
    """
    frame = table_frame(log, state)
    partition = {name.lower() for name in state.partition_columns}
    try:
        columns = referenced(log.jvm, frame, where)
        if any(
            name.lower() not in partition and not kind.startswith(_EXACT) for name, kind in columns.items()
        ):
            return frozenset()
        others = _planned(log, unmatched(log.jvm, frame, where)._jdf.queryExecution().optimizedPlan())
    except ValueError:  # Spark plans more than a filter for the predicate
        return frozenset()
    return frozenset() if others is None else frozenset(paths) - set(others.to_pylist())


def table_frame(log: Log, state: State) -> DataFrame:
    """All rows of a version as a DataFrame with Delta's data skipping."""
    pinned = True  # as for time travel; else Delta would check for a newer version
    with log.jvm.active():
        relation = log.log.createRelation(
            log.jvm.seq([]), log.jvm.some(state.snapshot), log.catalog_table, pinned
        )
    frame: DataFrame = log.jvm.dataframe(log.jvm.session.baseRelationToDataFrame(relation))
    return frame


def _planned(log: Log, plan: Any) -> pa.Array | None:
    """The files that the optimized plan reads. A plan without a relation proves that nothing matches."""
    leaves = log.jvm.python_list(plan.collectLeaves())
    for leaf in leaves:
        if not str(leaf.getClass().getSimpleName()).startswith("LogicalRelation"):
            continue
        index = leaf.relation().location()
        if str(index.getClass().getSimpleName()) != _PREPARED:
            return None  # data skipping is turned off in this session
        return _paths(log, index.preparedScan().files())
    return pa.array([], pa.string())


def _paths(log: Log, files: Any) -> pa.Array:
    encoder = log.singleton("implicits.package").addFileEncoder()
    made = log.jvm.session.createDataset(files, encoder).toDF()
    return log.jvm.to_arrow(log.jvm.dataframe(made).select("path"))["path"].combine_chunks()
