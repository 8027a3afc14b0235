"""The result of one pass over many tables: what was done with each table, and what each pattern matched."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.scheduling.debt import NO_DEBT, Debt
from lakekeeper.core.scheduling.task import Task
from lakekeeper.core.text.formatting import size, table
from lakekeeper.core.text.result import Result

STATUSES = ("done", "idle", "off", "partial", "waiting", "parked", "failed", "stopped")
_WIDTH = 80


_BROKEN = frozenset({Code.ENDED_BY_ERROR, Code.GROUPS_FAILED, Code.FAILED_BEFORE})


@dataclass(frozen=True, slots=True)
class TableResult:
    """One table's part of a pass.

    status   ``done`` (something was committed), ``idle`` (nothing was due), ``off`` (switched off, or matched by a
             pattern only and of a format without adapter), ``partial`` (some groups failed or lost a race, some files
             could not be deleted, or an error ended a verb after its first commit), ``waiting`` (work is due and was
             left for later), ``parked`` (a verb failed before and is not attempted yet), ``failed``, ``stopped`` (the
             pass ended before its turn)
    reason   why; of several verbs, each is one of its parts
    score    the predicted score of its first merge with a prediction, 0 to 100; None if nothing was predicted
    tasks    one for each verb, as this pass leaves it; of a table that cannot be opened, its plan, which failed
    debt     what was due when the pass began
    attempted_bytes_count   as rewritten, with what failed or lost a race: budgets count it
    core_seconds   executor time of its tasks; an upper bound if Spark did not measure it
    """

    table: str
    status: str
    reason: Reason
    rewritten_bytes_count: int = 0
    rewritten_data_files_count: int = 0
    added_data_files_count: int = 0
    run_ids: tuple[str, ...] = ()
    score: float | None = None
    deleted_files_count: int = 0
    deleted_bytes_count: int = 0
    tasks: tuple[Task, ...] = ()
    debt: Debt = NO_DEBT
    core_seconds: float = 0.0
    attempted_bytes_count: int = 0

    @property
    def needs_attention(self) -> bool:
        """Whether it failed or is parked, or one of its verbs or groups did while others committed.

        Such a verb was ended by an error after its first commit, or has failed before.
        """
        again = any(task.state == "failed" and task.failures > 1 for task in self.tasks)
        broken = not _BROKEN.isdisjoint(self.reason.codes)
        return again or broken or self.status in ("failed", "parked")

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__}
        nested = {"reason": self.reason.to_dict(), "debt": self.debt.to_dict()}
        return {**plain, **nested, "run_ids": list(self.run_ids), "tasks": [t.to_dict() for t in self.tasks]}


@dataclass(frozen=True, slots=True)
class PatternResult:
    """The tables that one pattern of a pass matches.

    status   ``matched`` (``tables`` of them), ``unmatched`` (the catalog answered, and has no such table), ``failed``
             (not all could be listed; the tables that were found are in the pass)
    reason   why it is unmatched or failed; None where it matched
    """

    pattern: str
    status: str
    reason: Reason | None
    tables: int

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {**asdict(self), "reason": self.reason.to_dict() if self.reason else None}


@dataclass(frozen=True, slots=True)
class AutoReport(Result):
    """One pass.

    ``exit_code`` is 1 where a table needs attention, or a pattern did not match or could not be listed; else 0.
    """

    tables: tuple[TableResult, ...]
    duration_ms: int
    dry_run: bool = False
    patterns: tuple[PatternResult, ...] = ()

    @property
    def exit_code(self) -> int:
        wrong = any(t.needs_attention for t in self.tables)
        return 1 if wrong or any(p.status != "matched" for p in self.patterns) else 0

    @property
    def debt(self) -> Debt:
        """The debt of all tables, when the pass began."""
        return sum((t.debt for t in self.tables), NO_DEBT)

    @property
    def cut_short(self) -> bool:
        """Whether the pass was stopped before each table had its turn."""
        return any(t.status == "stopped" for t in self.tables)

    def to_dict(self) -> dict[str, Any]:
        """Plain data: counts by status, then each pattern and each table."""
        counts = {status: sum(t.status == status for t in self.tables) for status in STATUSES}
        totals: dict[str, Any] = {
            "duration_ms": self.duration_ms,
            "dry_run": self.dry_run,
            "exit_code": self.exit_code,
        }
        totals["debt"] = self.debt.to_dict()
        patterns = [p.to_dict() for p in self.patterns]
        return {**counts, **totals, "patterns": patterns, "tables": [t.to_dict() for t in self.tables]}

    def __str__(self) -> str:
        rows = [("table", "status", "rewritten", "why")]
        rows += [(t.table, t.status, size(t.rewritten_bytes_count), str(t.reason)) for t in self.tables]
        rows += [(p.pattern, p.status, "", str(p.reason)) for p in self.patterns if p.reason is not None]
        if len(rows) == 1:
            return "no table matches"
        page = table(rows, right=frozenset({2}), width=_WIDTH)
        return f"{page}\n{self.debt} (before the pass)" if self.debt.bytes else page
