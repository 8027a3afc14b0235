"""Where a table's cluster key is stored: in CLUSTER BY if the table has it, else in a table property.

    CLUSTER BY (a, b)        takes precedence over the property; its columns follow renames automatically
    lakekeeper.cluster-by    changes no protocol: every writer can still write

CLUSTER BY records only columns; Delta's own OPTIMIZE clusters several of them along its own Hilbert curve. The
layout of our files is a separate property, which applies to exactly these columns: ``hilbert:<key id>``. A key that
another engine sets natively has another id, and is linear.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lakekeeper.core.layout.space_filling_curve import CURVES
from lakekeeper.core.model.keys import ClusterKey, quote
from lakekeeper.core.model.stored_key import (
    FIELDS_PROPERTY,
    KEY_SPELLINGS,
    StoredKey,
    key_of_properties,
    key_properties,
    unusable,
)
from lakekeeper.errors import OptionError
from lakekeeper_delta.columns import Found, physical_step
from lakekeeper_delta.last_actions import Action, Kind, last_actions
from lakekeeper_delta.native import Log, State
from lakekeeper_delta.per_log import PerLog

LAYOUT_PROPERTY = "_lakekeeper.cluster-layout"  # not an option: option names begin with "lakekeeper."
CLUSTERING = "clustering"
_CLUSTERING_DOMAIN = "delta.clustering"
_DOMAIN = Kind("domainMetadata", ("domain", "configuration", "removed"))
_VERSIONS = 4  # whose columns are kept
_native: PerLog[OrderedDict[tuple[str, int, str], tuple[str, ...]]] = PerLog(lambda _: OrderedDict())

Resolve = Callable[[Sequence[str], str], tuple[ClusterKey, list[Found]]]
"""The key of columns (Spark SQL spelling) under a layout, and where its statistics are; raises OptionError."""


def native_place(state: State) -> bool:
    """Whether the table can have CLUSTER BY; a partitioned table cannot."""
    return not state.partition_columns


def native_columns(log: Log, state: State) -> tuple[str, ...]:
    """The columns of CLUSTER BY in Spark SQL spelling; empty if the table has no such key."""
    if CLUSTERING not in state.features:
        return ()
    known, version = _native(log), (state.table_uuid, state.version, state.log_mark)
    columns = known.get(version)
    if columns is None:
        columns = _in_log(log, state)
        if columns is None:
            columns = _by_delta(log, state)
        known[version] = columns
        while len(known) > _VERSIONS:
            known.popitem(last=False)
    return columns


def _in_log(log: Log, state: State) -> tuple[str, ...] | None:
    """The columns of CLUSTER BY, as the log has them; None where Delta has to find them."""
    domains = last_actions(log, state, _DOMAIN, _clustering)
    if domains is None:
        return None
    fields = next((each for each in domains if each is not None), [])
    names = [_name_now(state, steps) for steps in fields]
    return None if None in names else tuple(filter(None, names))


def _clustering(action: Action) -> list[list[str]] | None:
    """The physical names of the columns in the domain of CLUSTER BY; None for another domain."""
    if action["domain"] != _CLUSTERING_DOMAIN:
        return None
    columns: list[list[str]] = json.loads(action["configuration"])["clusteringColumns"]
    return [] if action["removed"] else columns


def _by_delta(log: Log, state: State) -> tuple[str, ...]:
    found = log.singleton("skipping.clustering.ClusteringColumnInfo").extractLogicalNames(state.snapshot)
    return tuple(map(str, log.jvm.python_list(found)))


def stored_key(log: Log, state: State, resolve: Resolve) -> tuple[ClusterKey | None, list[Found], str]:
    """(the table's own key, where its statistics are, why the key is None although one is stored)."""
    columns = native_columns(log, state)
    if columns:
        layout, _, _ = state.properties.get(LAYOUT_PROPERTY, "").partition(":")
        stored = StoredKey(columns, layout if layout in CURVES and len(columns) > 1 else "linear")
    else:
        stored = key_of_properties(state.properties, lambda steps: _name_now(state, steps))
    if not stored.columns:
        return None, [], stored.problem
    try:
        key, found = resolve(stored.columns, stored.layout)
        # The layout property may have been set for other columns.
        if columns and key.curved and state.properties[LAYOUT_PROPERTY] != _laid_out(key):
            key, found = resolve(stored.columns, "linear")
    except OptionError as error:
        return None, [], unusable(error).problem
    return key, found, ""


def protocol_changes(log: Log, state: State) -> tuple[tuple[str, str, str], ...]:
    """The changes that CLUSTER BY makes to the table's protocol, as (what, before, after)."""
    if CLUSTERING in state.features:
        return ()
    feature = log.singleton("actions.Protocol").forTableFeature(log.singleton("ClusteringTableFeature"))
    now = state.snapshot.protocol()
    upgraded = now.merge(log.jvm.seq([feature]))
    facts = [
        ("reader version", str(state.reader), str(upgraded.minReaderVersion())),
        ("writer version", str(state.writer), str(upgraded.minWriterVersion())),
        (
            "reader features",
            _names(log, now.readerFeatureNames()),
            _names(log, upgraded.readerFeatureNames()),
        ),
        (
            "writer features",
            _names(log, now.writerFeatureNames()),
            _names(log, upgraded.writerFeatureNames()),
        ),
    ]
    return tuple(fact for fact in facts if fact[1] != fact[2])


def _names(log: Log, scala_set: Any) -> str:
    return ", ".join(sorted(map(str, log.jvm.python_list(scala_set.toSeq()))))


def store(log: Log, state: State, key: ClusterKey, found: Sequence[Found], *, native: bool) -> None:
    """Store the key, through Delta's command objects: a column name never becomes part of a statement.

    Setting the property takes one commit; removing its other spelling takes another. A native key takes up to three:
    its layout is set before its columns, since it applies to no key until they are set, and the property is removed
    last, since the native key takes precedence meanwhile.
    """
    if not native:
        _set(log, key_properties(key, [item.physical for item in found]))
        _unset(log, state, KEY_SPELLINGS[1:])
        return
    layout = _laid_out(key) if key.curved else "linear"
    if layout != state.properties.get(LAYOUT_PROPERTY, "linear"):
        _set(log, {LAYOUT_PROPERTY: layout})
    _cluster_by(log, [column.path for column in key.columns])
    _unset(log, state, (*KEY_SPELLINGS, FIELDS_PROPERTY))


def remove(log: Log, state: State) -> None:
    """Remove the key, native and property. The features of CLUSTER BY remain: Delta cannot drop them."""
    if native_columns(log, state):
        _cluster_by(log, [])
    _unset(log, state, (*KEY_SPELLINGS, FIELDS_PROPERTY, LAYOUT_PROPERTY))


def _name_now(state: State, steps: Any) -> str | None:
    """The current name of the field with these physical names, which a rename does not change."""
    path: list[str] = []
    at: Any = state.schema
    for step in steps if isinstance(steps, list) else ():
        fields = at.get("fields", ()) if isinstance(at, Mapping) else ()
        field = next((f for f in fields if physical_step(state, f) == step), None)
        if field is None:
            return None
        path.append(str(field["name"]))
        at = field["type"]
    return ".".join(map(quote, path)) if path else None


def _laid_out(key: ClusterKey) -> str:
    return f"{key.layout}:{key.key_id}"


def _cluster_by(log: Log, paths: Sequence[Sequence[str]]) -> None:
    columns = log.jvm.seq(log.jvm.seq(path) for path in paths)
    log.delta.commands.AlterTableClusterByDeltaCommand(log.table_object(), columns).run(log.jvm.session)


def _set(log: Log, properties: Mapping[str, str]) -> None:
    set_ = log.delta.commands.AlterTableSetPropertiesDeltaCommand
    set_(log.table_object(), log.jvm.map(properties)).run(log.jvm.session)


def _unset(log: Log, state: State, names: Sequence[str]) -> None:
    """Remove properties, in one commit; no commit if the table has none of them."""
    there = [name for name in names if name in state.properties]
    if there:
        unset = log.delta.commands.AlterTableUnsetPropertiesDeltaCommand
        unset(log.table_object(), log.jvm.seq(there), True, False).run(log.jvm.session)
