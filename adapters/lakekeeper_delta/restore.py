"""Restores rows that one of our own deletes removed: satisfies ``spi.Restores`` with DataFrames.

The rows are read from the files of the version before the delete, with the columns that the table has now: column
mapping gives each its own name in files, whatever its name in the schema. They are added back as an append.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakekeeper.core.model.block_changes import delete_ids, differing, only_blocks
from lakekeeper.core.model.blocks import BlockSet, Snapshot
from lakekeeper.core.model.run_folders import run_folder
from lakekeeper.errors import LakekeeperError, NotFound, Rejected, Unsupported, reason
from lakekeeper.spark.predicates import check
from lakekeeper.spi import Commit, Held, Prepared
from lakekeeper_delta.blocks import read_blocks, without_key
from lakekeeper_delta.columns import physical_name
from lakekeeper_delta.commit import attempt, commit_tags, preparing, read_all_rows, register_metrics
from lakekeeper_delta.deletion_writer import rows_by_file
from lakekeeper_delta.json_commits import Since, commits_between
from lakekeeper_delta.known_state import add_files
from lakekeeper_delta.native import Log, State
from lakekeeper_delta.partition_values import refuse_changed
from lakekeeper_delta.rewrite import described, discard, write_files
from lakekeeper_delta.where import matching, table_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_IDENTITY = "delta.identity.allowExplicitInsert"
_KEPT_TOKENS = "delta.settransactionretentionduration"
_RESTORE = "RESTORE"
_VERSION = 1  # version of the SetTransaction whose application id is a run id


@dataclass(frozen=True, slots=True)
class _Copies:
    """AddFile actions of the rows, the schema with which they were written, and the version that removed the rows."""

    actions: Sequence[Any]
    schema_id: str
    removed_in: int


class DeltaRestores:
    """Restores of rows of one table."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def descendant_of(self, version: int) -> int | None:
        """The version: a RESTORE adds one to the log."""
        return version

    def around(self, version: int, where: str, later: int) -> tuple[Snapshot, Snapshot]:
        """The files that differ between ``version`` and the version before, with the columns that the delete saw."""
        log = self._log
        now = log.latest()
        states = _around(log, version, now.table_uuid)
        check(log.jvm, table_frame(log, states[0]), where, steady=True)
        before, after = _files(log, states)
        removed, added = differing(before, after)
        _refuse_returned(log, after.blocks, version, version, now)
        first, second = (
            replace(seen, blocks=only_blocks(seen.blocks, matching(log, state, where)))
            for seen, state in zip((removed, added), states, strict=True)
        )
        return first, second

    def copy(
        self, hits: Held[DataFrame] | None, whole: Collection[str], then: Snapshot, run_id: str
    ) -> Prepared:
        """Copy the rows to new files. Raises Unsupported for values that cannot be restored unchanged."""
        log = self._log
        was = log.at(-1 if then.version is None else then.version, then.table_uuid)
        now = log.latest()
        _refuse_changed(log, was, now)
        written: list[str] = []
        try:
            rows = _rows(log, was, now, hits, whole)
            run = run_folder(then.table_uuid, run_id)
            made = [] if rows is None else write_files(log, now, rows, run, checked=True)
            written += [json.loads(action.json())["add"]["path"] for action in made]
            outputs = [described(log, action)[0] for action in made]
        except LakekeeperError:
            discard(log, written)
            raise
        except Exception as error:
            discard(log, written)
            raise Rejected(
                f"{log.name}: rows of version {was.version} cannot be restored ({reason(error)}); nothing was committed"
            ) from error
        return Prepared(
            {o.path: o.rows for o in outputs}, tuple(written), _Copies(made, now.schema_id, was.version + 1)
        )

    def keep(self, copies: Prepared) -> bool:
        """Whether columns and partitioning are unchanged since the copies were written."""
        return bool(self._log.latest().schema_id == copies.native.schema_id)

    def commit(self, copies: Prepared, since: int, run_id: str) -> Commit:
        """One attempt. The run id is also the application id of a SetTransaction, which Delta commits only once.

        Raises Unsupported if a RESTORE after ``since`` has brought the rows back.
        """
        log = self._log
        with preparing(log, "the restore"):
            now = log.latest()
            transaction = log.transaction(now)
            done = int(transaction.txnVersion(run_id)) >= _VERSION
            known = _carried(log, now, since, run_id, done=done)
            if known is not None:
                return Commit(known, run_id, (), ())
            _refuse_returned_since(log, copies.native.removed_in, since, now)
            # A RESTORE that lands first conflicts with this read, and the next attempt sees it.
            read_all_rows(log, transaction)
            now_ms = log.jvm.some(time.time_ns() // 1_000_000)
            token = log.delta.actions.SetTransaction(run_id, _VERSION, now_ms)
            outputs = [described(log, action)[0] for action in copies.native.actions]
            metrics = {
                "numFiles": len(outputs),
                "numOutputRows": sum(o.rows for o in outputs),
                "numOutputBytes": sum(o.bytes for o in outputs),
            }
            register_metrics(log, transaction, metrics)
            actions = log.jvm.array_list([token, *copies.native.actions])
            tags, operation = commit_tags(log, now, run_id), log.shim.append_operation(log)
        # All restores of an entry share the run id: whose commit a winner is, only its files show.
        version = attempt(log, transaction, now, actions, operation, tags, run_id, shared=True)
        return Commit(version, run_id, (), tuple(copies.rows))


def _carried(log: Log, now: State, since: int, run_id: str, *, done: bool) -> int | None:
    """The version of an earlier commit of this run id, if one exists.

    ``done``: the table's state has the transaction. It expires transactions only if a property says so; then the log
    itself is searched, and Rejected is raised if it no longer has all commits.
    """
    forgets = any(name.lower() == _KEPT_TOKENS for name in now.properties)
    if not done and not forgets:
        return None
    try:
        winners = commits_between(log, since, now.version).winners
    except NotFound as gap:
        if done:
            return now.version
        raise Rejected(
            f"{log.name}: whether the rows are back already is not known ({gap}); nothing was committed"
        ) from gap
    found = next((winner.version for winner in winners if winner.run_id == run_id), None)
    return now.version if done and found is None else found


def _rows(
    log: Log, was: State, now: State, hits: Held[DataFrame] | None, whole: Collection[str]
) -> DataFrame | None:
    """The rows, with the columns of ``now``; columns that the table did not have yet are NULL."""
    parts: list[DataFrame] = []
    if whole:
        adds = {str(add.path()): add for add in add_files(log, was, sorted(whole))}
        refuse_changed(log, was, adds.values())
        parts.append(log.scan(now, log.jvm.array_list(adds.values()), numbered=True))
    some = [path for path, rows in hits.per_file.items() if rows] if hits else []
    if hits is not None and some:
        adds = {str(add.path()): add for add in add_files(log, was, sorted(some))}
        refuse_changed(log, was, adds.values())
        parts.append(rows_by_file(log, now, (hits.hits, "left_semi"), adds, row_ids=False))
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else parts[0].unionByName(parts[1])


def _around(log: Log, version: int, table_uuid: str) -> list[State]:
    """The version before the given one, and that one."""
    return [log.at(number, table_uuid) for number in (version - 1, version)]


def _files(log: Log, states: Sequence[State]) -> Iterator[Snapshot]:
    """All files of each state."""
    return (without_key(log, state, read_blocks(log, state, None, [])) for state in states)


def _refuse_returned_since(log: Log, version: int, since: int, now: State) -> None:
    """Like :func:`_refuse_returned`; without a RESTORE after ``since``, nothing but the commits after it is read."""
    if any(winner.operation == _RESTORE for winner in commits_between(log, since, now.version).winners):
        _, after = _files(log, _around(log, version, now.table_uuid))
        _refuse_returned(log, after.blocks, version, since, now)


def _refuse_returned(log: Log, after: BlockSet, version: int, since: int, now: State) -> None:
    """Raise Unsupported if a RESTORE after ``since`` may have brought back rows that ``version`` removed.

    ``after`` are the blocks that ``version`` left. A RESTORE to a version since then adds only files that were added
    since, or that ``after`` has under the same deletes. One to an earlier version adds another: at least each of its
    files with rows that were removed, which a rewrite before ``version`` or after the RESTORE may have moved.
    """
    left = delete_ids(after)
    commits = commits_between(log, version, now.version)
    for winner in commits.winners:
        if (
            winner.operation == _RESTORE
            and winner.version > since
            and _goes_back(commits, left, winner.version)
        ):
            raise Unsupported(
                log.name,
                f"{winner} after the drop, which may have brought its rows back",
                "a restore would add them a second time; nothing was written. Empty the trash if they are there, else "
                f"read them from version {version - 1}",
            )


def _goes_back(commits: Since, left: Mapping[str, str], version: int) -> bool:
    """Whether the RESTORE ``version`` adds a file that was not there since the first of the commits."""
    files = commits.files
    made = files.filter(pc.and_(pc.equal(files["version"], version), files["live"])).to_pylist()
    old = {
        (row["path"], row["delete_id"]) for row in made if left.get(row["path"]) != (row["delete_id"] or "")
    }
    if not old:
        return False
    actions = commits.touching(pa.array(sorted({path for path, _ in old}), pa.string())).to_pylist()
    added = {(row["path"], row["delete_id"]) for row in actions if row["live"] and row["version"] < version}
    return not old <= added


def _refuse_changed(log: Log, was: State, now: State) -> None:
    """Raise Unsupported for columns whose values cannot be restored unchanged, NotFound for a recreated table."""
    if was.table_uuid != now.table_uuid:
        raise NotFound(log.name, "another table was created in the same place")
    advice = "the dropped rows cannot be restored as they were; nothing was written. Read them from version "
    for field in now.schema["fields"]:
        if field["metadata"].get(_IDENTITY) is False:
            raise Unsupported(
                log.name,
                f"GENERATED ALWAYS AS IDENTITY (column {field['name']})",
                f"{advice}{was.version}",
            )
    if _partitioned_by(was) != _partitioned_by(now):
        # Values of partition columns are in the log, and those of other columns in the files.
        raise Unsupported(
            log.name,
            f"partitioning by {_listed(now)}, which was by {_listed(was)}",
            f"{advice}{was.version}",
        )
    types = {path: kind for path, (_, kind) in _columns(now.schema)}
    for path, (name, kind) in _columns(was.schema):
        if path not in types:
            raise Unsupported(log.name, f"column {name}, which was dropped", f"{advice}{was.version}")
        if types[path] != kind:
            raise Unsupported(
                log.name,
                f"column {name}, whose type was {kind} and is {types[path]}",
                f"{advice}{was.version}",
            )


def _partitioned_by(state: State) -> list[str]:
    """The names of the partition columns in the log, which a rename does not change."""
    return [physical_name(state, name) for name in state.partition_columns]


def _listed(state: State) -> str:
    return ", ".join(state.partition_columns) or "no column"


def _columns(
    kind: Any, path: tuple[str, ...] = (), name: str = ""
) -> Iterator[tuple[tuple[str, ...], tuple[str, str]]]:
    """(names in files, (name in the schema, type)) of all columns, including nested ones."""
    if not isinstance(kind, Mapping):
        yield path, (name, str(kind))
    elif kind["type"] == "struct":
        yield path, (name, "struct")
        for column in kind["fields"]:
            physical = column["metadata"].get("delta.columnMapping.physicalName", column["name"])
            full = f"{name}.{column['name']}" if name else column["name"]
            yield from _columns(column["type"], (*path, physical), full)
    elif kind["type"] == "array":
        yield path, (name, "array")
        yield from _columns(kind["elementType"], (*path, "element"), f"{name}.element")
    elif kind["type"] == "map":
        yield path, (name, "map")
        yield from _columns(kind["keyType"], (*path, "key"), f"{name}.key")
        yield from _columns(kind["valueType"], (*path, "value"), f"{name}.value")
    else:  # any other type, e.g. a user-defined type of Spark
        yield path, (name, json.dumps(kind, sort_keys=True))
