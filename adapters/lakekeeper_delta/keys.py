"""Where a table's cluster key is kept: CLUSTER BY where the table permits it, else a table property."""

from __future__ import annotations

from collections.abc import Sequence

from lakekeeper.core.keys import ClusterKey, split_columns
from lakekeeper_delta.native import Log, State

KEY_PROPERTY = "lakekeeper.cluster-by"


def native_place(state: State) -> bool:
    """Can the table have CLUSTER BY? Partitioned ones can not."""
    return not state.partition_columns


def stored_columns(log: Log, state: State) -> tuple[str, ...]:
    """The table's own key columns in Spark SQL spelling; empty where it has none."""
    if "clustering" in state.features:
        found = log.singleton("skipping.clustering.ClusteringColumnInfo").extractLogicalNames(state.snapshot)
        names = tuple(map(str, log.jvm.python_list(found)))
        if names:
            return names
    return split_columns(state.properties.get(KEY_PROPERTY, ""))


def store(log: Log, state: State, key: ClusterKey) -> None:
    """Keep the key. By Delta's command objects: no name of a column ever becomes part of a statement."""
    table = log.table_object()
    session = log.jvm.session
    if native_place(state):
        columns = log.jvm.seq(log.jvm.seq(column.path) for column in key.columns)
        log.delta.commands.AlterTableClusterByDeltaCommand(table, columns).run(session)
        return
    text = ", ".join(column.name for column in key.columns)
    log.delta.commands.AlterTableSetPropertiesDeltaCommand(table, log.jvm.map({KEY_PROPERTY: text})).run(
        session
    )


def columns_or_stored(log: Log, state: State, columns: Sequence[str] | None) -> tuple[str, ...]:
    """The columns that were asked for, else the table's own."""
    return tuple(columns) if columns is not None else stored_columns(log, state)
