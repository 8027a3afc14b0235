"""The state of each table after automatic runs: the work that is due, and what prevents it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from lakekeeper.core.scheduling.debt import NO_DEBT, Debt
from lakekeeper.core.scheduling.task import Task
from lakekeeper.core.text.controls import visible
from lakekeeper.core.text.formatting import size, wrapped
from lakekeeper.core.text.formatting import table as aligned
from lakekeeper.core.text.result import Result


@dataclass(frozen=True, slots=True)
class TableStatus:
    """One table: ``failed`` where it could not be opened or a verb failed, ``parked`` where one failed repeatedly,
    ``waiting`` where work is due, else ``idle``.

    debt    of the verb that would gain most, among those that are due
    """

    table: str
    status: str
    debt: Debt
    tasks: tuple[Task, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        tasks = [task.to_dict() for task in self.tasks]
        return {"table": self.table, "status": self.status, "debt": self.debt.to_dict(), "tasks": tasks}


@dataclass(frozen=True, slots=True)
class Status(Result):
    """The tables of automatic runs, as the last passes left them.

    unmatched  names and patterns that mean none of the tables
    """

    tables: tuple[TableStatus, ...]
    unmatched: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """1 if a table failed or is parked, or if a name or pattern means no table."""
        wrong = any(each.status in ("failed", "parked") for each in self.tables)
        return 1 if wrong or self.unmatched else 0

    @property
    def debt(self) -> Debt:
        """The debt of all tables."""
        return sum((each.debt for each in self.tables), NO_DEBT)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        tables = [each.to_dict() for each in self.tables]
        return {"debt": self.debt.to_dict(), "tables": tables, "unmatched": list(self.unmatched)}

    def __str__(self) -> str:
        unmatched = [f"no table matches {pattern}" for pattern in self.unmatched]
        if not self.tables:
            return "\n".join(unmatched) or "no automatic run is recorded"
        return "\n".join([*self._page(), str(self.debt), *unmatched])

    def _page(self) -> list[str]:
        rows = [("status", "query-s/day", "to rewrite", "table")]
        rows += [
            (
                each.status,
                f"{each.debt.query_seconds_per_day:,.0f}",
                size(each.debt.bytes),
                visible(each.table),
            )
            for each in self.tables
        ]
        head, line, *lines = aligned(rows, right=frozenset({1, 2})).splitlines()
        page = [head, line]
        for text, each in zip(lines, self.tables, strict=True):
            page.append(text)
            page += [
                wrapped(str(task.reason), first="  ", rest="  ")
                for task in each.tasks
                if task.reason is not None and task.state in ("queued", "failed")
            ]
        return page


@dataclass(frozen=True, slots=True)
class Released(Result):
    """Tables that were parked or had failed, and run again in the next pass.

    unmatched  names and patterns that mean none of them
    unknown    those of them that mean no table of automatic runs at all
    """

    tables: tuple[str, ...]
    unmatched: tuple[str, ...]
    unknown: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """1 if a name or pattern means no table; a table that was not parked runs in the next pass anyway."""
        return 1 if self.unknown else 0

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "released": list(self.tables),
            "unmatched": list(self.unmatched),
            "unknown": list(self.unknown),
        }

    def __str__(self) -> str:
        released = [f"released: {visible(name)}" for name in self.tables]
        parked = [f"no parked table matches {each}" for each in self.unmatched if each not in self.unknown]
        return "\n".join([*released, *parked, *(f"no table matches {each}" for each in self.unknown)])


def status_of(tasks: Iterable[Task], now_ms: int, unmatched: tuple[str, ...] = ()) -> Status:
    """The status of each table that has tasks, by name; ``unmatched`` as in :class:`Status`."""
    by_table = groupby(sorted(tasks, key=lambda task: task.table), key=lambda task: task.table)
    return Status(tuple(_of(name, tuple(group), now_ms) for name, group in by_table), unmatched)


def _of(name: str, tasks: tuple[Task, ...], now_ms: int) -> TableStatus:
    due = [task for task in tasks if task.state in ("queued", "running", "failed")]
    debts = [Debt(task.query_seconds_per_day, task.bytes) for task in due]
    debt = max(debts, key=lambda each: (each.query_seconds_per_day, each.bytes), default=NO_DEBT)
    wrong = [task for task in due if task.failures and task.state != "running"]
    if any(task.is_parked(now_ms) for task in wrong):
        status = "parked"
    elif wrong:
        status = "failed"
    else:
        status = "waiting" if due else "idle"
    return TableStatus(name, status, debt, tasks)
