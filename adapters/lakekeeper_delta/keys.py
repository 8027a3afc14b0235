"""Where a table's cluster key is kept: CLUSTER BY where the table permits it, else a table property.

CLUSTER BY knows columns only; Delta's own OPTIMIZE lays several of them out along a Hilbert curve of its own. The
layout of our files is a property beside it, which holds for these very columns: ``hilbert:<key id>``. A key that
somebody else sets natively has another id, and is linear.
"""

from __future__ import annotations

from typing import Any

from lakekeeper.core.curve import CURVES
from lakekeeper.core.keys import ClusterKey, key_text, parse_layout
from lakekeeper_delta.native import Log, State

KEY_PROPERTY = "lakekeeper.cluster-by"
LAYOUT_PROPERTY = "_lakekeeper.cluster-layout"  # not an option: those are what begins with "lakekeeper."


def native_place(state: State) -> bool:
    """Can the table have CLUSTER BY? Partitioned ones can not."""
    return not state.partition_columns


def stored_columns(log: Log, state: State) -> tuple[tuple[str, ...], str]:
    """The table's own key columns in Spark SQL spelling, empty where it has none, and the layout they may have.

    A native key has the layout only where :func:`is_laid_out` says so.
    """
    if "clustering" in state.features:
        found = log.singleton("skipping.clustering.ClusteringColumnInfo").extractLogicalNames(state.snapshot)
        names = tuple(map(str, log.jvm.python_list(found)))
        if names:
            layout, _, _ = state.properties.get(LAYOUT_PROPERTY, "").partition(":")
            return names, layout if layout in CURVES and len(names) > 1 else "linear"
    return parse_layout(state.properties.get(KEY_PROPERTY, ""))


def is_laid_out(state: State, key: ClusterKey) -> bool:
    """Is it for this key that the layout was set?"""
    kept = state.properties.get(LAYOUT_PROPERTY, "")
    return not native_place(state) or not key.curved or kept == f"{key.layout}:{key.key_id}"


def store(log: Log, state: State, key: ClusterKey) -> None:
    """Keep the key. By Delta's command objects: no name of a column ever becomes part of a statement.

    The layout comes first: until the columns are there it holds for no key.
    """
    table = log.table_object()
    if not native_place(state):
        _set_property(log, table, KEY_PROPERTY, key_text(key))
        return
    kept = state.properties.get(LAYOUT_PROPERTY, "linear")
    layout = f"{key.layout}:{key.key_id}" if key.curved else "linear"
    if layout != kept:
        _set_property(log, table, LAYOUT_PROPERTY, layout)
    columns = log.jvm.seq(log.jvm.seq(column.path) for column in key.columns)
    log.delta.commands.AlterTableClusterByDeltaCommand(table, columns).run(log.jvm.session)


def _set_property(log: Log, table: Any, name: str, value: str) -> None:
    command = log.delta.commands.AlterTableSetPropertiesDeltaCommand(table, log.jvm.map({name: value}))
    command.run(log.jvm.session)
