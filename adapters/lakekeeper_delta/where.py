"""``where``: the files that may hold a match, as Delta's own data skipping finds them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lakekeeper.errors import OptionError
from lakekeeper.spark.jvm import causes
from lakekeeper_delta.native import Log, State

_PREPARED = "PreparedDeltaFileIndex"


def matching(log: Log, state: State, where: str) -> pa.Array | None:
    """Paths of all files of ``state`` that may hold a row for which ``where`` is true; None for all.

    Raises OptionError for text that does not parse or names no column of the table.
    """
    pinned = True  # as time travel does; else Delta would look for a newer version
    with log.active(log.jvm.session):
        relation = log.log.createRelation(
            log.jvm.seq([]), log.jvm.some(state.snapshot), log.catalog_table, pinned
        )
    frame = log.jvm.dataframe(log.jvm.session.baseRelationToDataFrame(relation))
    try:
        filtered = frame.where(where)._jdf
        plan = filtered.queryExecution().optimizedPlan()
    except Exception as error:
        told = causes(error)
        text = (told[0][1] if told else str(error)).strip().splitlines()
        raise OptionError(
            "where", where, f"a predicate over the table's columns; {text[0] if text else error}"
        ) from error
    return _planned(log, plan)


def _planned(log: Log, plan: Any) -> pa.Array | None:
    """The files that the optimized plan reads. Without a relation in it, it was proven that nothing matches."""
    leaves = log.jvm.python_list(plan.collectLeaves())
    for leaf in leaves:
        if not str(leaf.getClass().getSimpleName()).startswith("LogicalRelation"):
            continue
        index = leaf.relation().location()
        if str(index.getClass().getSimpleName()) != _PREPARED:
            return None  # data skipping is switched off in this session
        return _paths(log, index.preparedScan().files())
    return pa.array([], pa.string())


def _paths(log: Log, files: Any) -> pa.Array:
    encoder = log.singleton("implicits.package").addFileEncoder()
    made = log.jvm.session.createDataset(files, encoder).toDF()
    return log.jvm.dataframe(made).select("path").toArrow()["path"].combine_chunks()
