"""Operations in one SQLite file, which several processes may write at the same time.

    operations ─┬─ merge_groups    inputs, outputs and outcome of each group of a merge
                └─ decisions       blocks that its plan left, by reason
    tasks           of automatic runs, as of the last pass

Write-ahead logging lets readers read while an operation is written; a writer waits for another one for up to ten
seconds. The file must be on a local disk: SQLite's locks do not work on network file systems. Of consecutive idle
operations of one verb on one table only the newest is kept, and operations past their retention are deleted with later
writes.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.report import GroupResult
from lakekeeper.core.scheduling.last_day import LastDay
from lakekeeper.core.scheduling.task import Task
from lakekeeper.core.units import DAY_MS
from lakekeeper.errors import MALFORMED
from lakekeeper.history.database import transaction
from lakekeeper.history.operation import CORE_SECONDS, Decision, Operation, epoch_ms, utc
from lakekeeper.history.table_id import TableId
from lakekeeper.redaction import without_user

_TASKS_KEPT_MS = 30 * DAY_MS
_LATEST_UNTIL = (
    "SELECT max(at) FROM (SELECT max(end_time) AS at FROM operations WHERE end_time <= :until"
    " UNION ALL SELECT max(updated) FROM tasks WHERE updated <= :until)"
)
_TASKS = "SELECT table_name, verb, task FROM tasks ORDER BY table_name, verb"
_ENDED_IN = "end_time > ? AND end_time <= ?"
_NEWEST_UNTIL = "SELECT max(end_time) FROM operations WHERE end_time <= ?"
_IDENTITIES = frozenset(
    {
        "operation_id",
        "operation_type",
        "operation_status",
        "start_time",
        "end_time",
        "usage_unit",
        "origin",
        "run_ids",
        "catalog_name",
        "schema_name",
        "table_name",
        "table_format",
        "application_id",
        "group_id",
        "group_status",
    }
)
"""Columns that are looked up by their value. A secret conf may be equal to one: it must not hide whose row it is."""
_SAME = "catalog_name = ? AND schema_name = ? AND table_name = ?"


class HistoryStore:
    """The operations in a file. Each call opens the file and closes it: nothing is shared between threads.

    ``clean`` is applied to every text before it is written, but not to names, ids, verbs and states; of a table's name,
    only the credentials in a path are left out. Each call raises HistoryError.
    """

    def __init__(self, path: str | Path, clean: Callable[[str], str] = str) -> None:
        self.path = Path(path).expanduser()
        self._clean = clean

    def add(self, operation: Operation, keep_ms: int) -> None:
        """Write an operation in one transaction, and delete those that ended ``keep_ms`` before it.

        More exactly, before the newest one that ended a day before it: a clock that is ahead deletes nothing on its
        first day.
        """
        with transaction(self.path, write=True) as db:
            if operation.operation_status == "idle":
                self._drop_idle(db, operation)
            number = self._insert(db, "operations", self._operation_row(operation))
            for at, group in enumerate(operation.groups):
                self._insert(
                    db, "merge_groups", {"operation": number, "number": at, **self._group_row(group)}
                )
            for at, left in enumerate(operation.decisions):
                row = {
                    "blocks": left.blocks,
                    "bytes": left.bytes,
                    "reason": left.reason.to_dict(),
                }
                self._insert(db, "decisions", {"operation": number, "number": at, **row})
            [confirmed] = db.execute(_NEWEST_UNTIL, (_time(operation.end_ms - DAY_MS),)).fetchone()
            if confirmed is not None:
                db.execute(
                    "DELETE FROM operations WHERE end_time < ?", (_time(epoch_ms(confirmed) - keep_ms),)
                )

    def tables(self) -> tuple[TableId, ...]:
        """The tables that have operations, sorted by name."""
        with transaction(self.path, write=False) as db:
            rows = db.execute(
                "SELECT catalog_name, schema_name, table_name, max(table_format) FROM operations GROUP BY 1, 2, 3"
            )
            return tuple(sorted((TableId(*row) for row in rows), key=str))

    def operations(
        self,
        table: TableId | None = None,
        *,
        since_ms: int | None = None,
        limit: int | None = None,
        details: bool = True,
    ) -> tuple[Operation, ...]:
        """Operations of one table or of all, newest first; ``since_ms`` is compared with their ends.

        Without ``details``, they have no groups and no decisions, and take a fraction of the time.
        """
        where: list[str] = ["1 = 1"]
        given: list[str | int] = []
        if table is not None:
            where.append(_SAME)
            given += [table.catalog, table.schema, table.name]
        if since_ms is not None:
            where.append("end_time >= ?")
            given.append(_time(since_ms))
        given.append(-1 if limit is None else limit)
        chosen = f"FROM operations WHERE {' AND '.join(where)} ORDER BY end_time DESC, number DESC LIMIT ?"
        parts: dict[str, dict[int, list[sqlite3.Row]]] = {"merge_groups": {}, "decisions": {}}
        with transaction(self.path, write=False) as db:
            for name, of in parts.items() if details else ():
                query = f"SELECT * FROM {name} WHERE operation IN (SELECT number {chosen}) ORDER BY number"  # noqa: S608 - the clauses are constants, the values are bound
                for row in db.execute(query, given):
                    of.setdefault(row["operation"], []).append(row)
            rows = db.execute(f"SELECT * {chosen}", given)
            return tuple(
                _operation(row, *(of.get(row["number"], ()) for of in parts.values())) for row in rows
            )

    def rewritten_bytes(
        self, day: LastDay, *, origin: str | None = None, table: TableId | None = None
    ) -> int:
        """Bytes that operations of one origin or of all have rewritten that day, on one table or on all.

        What failed or lost a race counts too, where the file says so: earlier versions recorded what was committed.
        """
        where, given = _ENDED_IN, [_time(day.since_ms), _time(day.until_ms)]
        if origin is not None:
            where += " AND origin = ?"
            given.append(origin)
        if table is not None:
            where += f" AND {_SAME}"
            given += [table.catalog, table.schema, table.name]
        parts = [
            f"coalesce(json_extract(operation_metrics, '$.{name}'), 0)"
            for name in ("attempted_bytes_count", "rewritten_bytes_count")
        ]
        size = f"coalesce(sum(max({', '.join(parts)})), 0)"
        query = f"SELECT {size} FROM operations WHERE {where}"  # noqa: S608 - the clauses are constants, the values are bound
        with transaction(self.path, write=False) as db:
            return int(db.execute(query, given).fetchone()[0])

    def core_seconds(self, origin: str, day: LastDay, table: TableId | None = None) -> float:
        """Core-seconds of operations of this origin that day, on one table or on all.

        An operation that was not measured counts with its duration, which estimates the driver's.
        """
        where, given = f"{_ENDED_IN} AND origin = ?", [_time(day.since_ms), _time(day.until_ms), origin]
        if table is not None:
            where += f" AND {_SAME}"
            given += [table.catalog, table.schema, table.name]
        lasted = "(julianday(end_time) - julianday(start_time)) * 86400"
        query = f"SELECT coalesce(sum(coalesce(usage_quantity, {lasted})), 0) FROM operations WHERE {where}"  # noqa: S608 - the clauses are constants, the values are bound
        with transaction(self.path, write=False) as db:
            return float(db.execute(query, given).fetchone()[0])

    def tasks(self) -> tuple[Task, ...]:
        """The tasks of automatic runs, by table and verb; a task that cannot be read is left out."""
        with transaction(self.path, write=False) as db:
            rows = db.execute(_TASKS).fetchall()
        return tuple(task for row in rows if (task := _task(row)) is not None)

    def release(self, tables: Collection[str]) -> tuple[str, ...]:
        """Reset the failures of these tables' tasks, so that the next pass runs them; returns the tables released."""
        with transaction(self.path, write=True) as db:
            named = set(map(without_user, tables))
            found = [(row, task) for row in db.execute(_TASKS).fetchall() if (task := _task(row)) is not None]
            held = [(row, task) for row, task in found if task.failures and task.table in named]
            for row, task in held:
                free = self._task_json(replace(task, failures=0, parked_until_ms=0))
                key = (row["table_name"], row["verb"])
                db.execute("UPDATE tasks SET task = ? WHERE table_name = ? AND verb = ?", (free, *key))
        return tuple(dict.fromkeys(task.table for _, task in held))

    def keep_tasks(
        self, tasks: Iterable[Task], now_ms: int, before: Mapping[tuple[str, str], Task] | None = None
    ) -> None:
        """Replace the tasks of these tables and verbs; tasks that no pass has renewed for 30 days are deleted.

        More exactly, for 30 days before the newest operation or pass that is at least a day old, as in :meth:`add`.
        ``before`` are the tasks as the pass read them: one that did not run in it, and that another pass or a release
        has changed since then, stays as it is.
        """
        with transaction(self.path, write=True) as db:
            [confirmed] = db.execute(_LATEST_UNTIL, {"until": _time(now_ms - DAY_MS)}).fetchone()
            if confirmed is not None:
                oldest = _time(epoch_ms(confirmed) - _TASKS_KEPT_MS)
                db.execute("DELETE FROM tasks WHERE updated < ?", (oldest,))
            rows = () if before is None else db.execute(_TASKS).fetchall()
            now = {task.key: task for task in map(_task, rows) if task is not None}
            for task in tasks:
                ran = task.state in ("done", "failed")
                if before is not None and not ran and now.get(task.key) != before.get(task.key):
                    continue
                # Earlier versions kept the credentials of a path in the name of the row.
                db.execute("DELETE FROM tasks WHERE table_name = ? AND verb = ?", (task.table, task.verb))
                values = (*task.key, self._task_json(task), utc(now_ms))
                db.execute("INSERT OR REPLACE INTO tasks VALUES (?, ?, ?, ?)", values)

    def _drop_idle(self, db: sqlite3.Connection, operation: Operation) -> None:
        """Delete the newest operation of this verb and table if it is idle too."""
        table = operation.table
        newest = db.execute(
            f"SELECT number, operation_status FROM operations WHERE {_SAME} AND operation_type = ? "  # noqa: S608 - constants
            "ORDER BY number DESC LIMIT 1",
            (table.catalog, table.schema, table.name, operation.operation_type),
        ).fetchone()
        if newest is not None and newest["operation_status"] == "idle":
            db.execute("DELETE FROM operations WHERE number = ?", (newest["number"],))

    def _insert(self, db: sqlite3.Connection, into: str, row: Mapping[str, Any]) -> int | None:
        values = [self._stored(name, value) for name, value in row.items()]
        holes = ", ".join("?" * len(row))
        statement = f"INSERT INTO {into} ({', '.join(row)}) VALUES ({holes})"  # noqa: S608 - names are constants
        return db.execute(statement, values).lastrowid

    def _stored(self, column: str, value: Any) -> Any:
        """A value as the file has it: cleaned, then as JSON, since cleaning the JSON could remove a closing quote."""
        cleaned = value if column in _IDENTITIES else self._cleaned(value)
        return json.dumps(cleaned, sort_keys=True) if isinstance(cleaned, Mapping | list) else cleaned

    def _operation_row(self, operation: Operation) -> Mapping[str, Any]:
        plain = operation.to_dict()
        del plain["groups"], plain["decisions"]
        return plain

    def _group_row(self, group: GroupResult) -> Mapping[str, Any]:
        plain = group.to_dict()
        named = {"group_id": plain.pop("id"), "group_status": plain.pop("status")}
        return {**named, **plain}

    def _task_json(self, task: Task) -> str:
        plain = task.to_dict()
        known = {"table": without_user(task.table), "reason": self._cleaned(plain["reason"])}
        return json.dumps({**plain, **known}, sort_keys=True)

    def _cleaned(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._clean(str(value))
        if isinstance(value, Mapping):
            return {name: each if name == "code" else self._cleaned(each) for name, each in value.items()}
        return [self._cleaned(each) for each in value] if isinstance(value, Sequence) else value


def _time(ms: int) -> str:
    """A bound on times as the file has them; all of them are after 1970, and a longer retention keeps them all."""
    return utc(max(ms, 0))


def _operation(
    row: sqlite3.Row, groups: Iterable[sqlite3.Row], decisions: Iterable[sqlite3.Row]
) -> Operation:
    if row["usage_unit"] != CORE_SECONDS:
        raise ValueError(f"the history has usage in {row['usage_unit']}, expected {CORE_SECONDS}")
    return Operation(
        operation_id=row["operation_id"],
        operation_type=row["operation_type"],
        operation_status=row["operation_status"],
        table=TableId(row["catalog_name"], row["schema_name"], row["table_name"], row["table_format"]),
        start_ms=epoch_ms(row["start_time"]),
        end_ms=epoch_ms(row["end_time"]),
        reason=_reason(row["reason"]),
        operation_metrics=dict(json.loads(row["operation_metrics"])),
        core_seconds=row["usage_quantity"],
        origin=row["origin"],
        policies=tuple(json.loads(row["policies"])),
        cluster_key=row["cluster_key"],
        version_before=row["version_before"],
        version_after=row["version_after"],
        run_ids=tuple(json.loads(row["run_ids"])),
        groups=tuple(map(_group, groups)),
        decisions=tuple(Decision(_reason(d["reason"]), d["blocks"], d["bytes"]) for d in decisions),
        application_id=row["application_id"],
        user=row["user_name"],
        versions=dict(json.loads(row["versions"])),
    )


def _task(row: sqlite3.Row) -> Task | None:
    """A task under the name and verb of its row; None if it cannot be read."""
    try:
        return replace(Task.from_json(row["task"]), table=without_user(row["table_name"]), verb=row["verb"])
    except MALFORMED:
        return None


def _group(row: sqlite3.Row) -> GroupResult:
    plain = {name: row[name] for name in row.keys()}  # noqa: SIM118 - iterating a Row gives its values
    del plain["operation"], plain["number"]
    named = {"id": plain.pop("group_id"), "status": plain.pop("group_status")}
    reasons = {name: _reason(text) if (text := plain[name]) else None for name in ("reason", "detail")}
    return GroupResult(**{**named, **plain, **reasons})


def _reason(text: str) -> Reason:
    """A reason; if a later version wrote it with an unknown code, only its text."""
    plain = json.loads(text)
    try:
        return Reason.from_dict(plain)
    except (KeyError, ValueError):
        return Reason.of(str(plain["code"]), "{text}", text=str(plain["text"]))
