"""Options of how a run proceeds: its budget and workload, its commits, automatic runs, and the session."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

from lakekeeper.core.config.option import option
from lakekeeper.core.units import DAY_MS, HOUR_MS
from lakekeeper.errors import OptionError

_GIB = 1 << 30
_SECOND_MS, _MINUTE_MS = 1_000, 60_000

Verb = Literal[
    "expire_rows", "recluster", "compact", "merge_deletes", "build_filters", "compute_statistics", "vacuum"
]


@dataclass(frozen=True, slots=True)
class BudgetOptions:
    """Budget."""

    bytes: int | None = option(
        "budget-bytes",
        None,
        "Maximum input size of one call. The most valuable groups come first, and at least one is rewritten. A group "
        "that is larger waits until it is the most valuable one: a budget below `max-file-group-size-bytes` may delay "
        "it. `none`: no limit.",
        unit="bytes",
        low=1,
        scope="lower",
    )
    bytes_per_day: int | None = option(
        "budget-bytes-per-day",
        None,
        "Maximum input size of all rewrites of a table within 24 hours. A call may exceed it by its first group, "
        "and rewrites nothing once it is used up. `none`: no limit.",
        unit="bytes",
        low=1,
        scope="lower",
    )

    core_seconds_per_day: int | None = option(
        "budget-core-seconds-per-day",
        None,
        "Time of executor cores that automatic runs may use for a table within 24 hours. Once it is used up, they "
        "start no task of the table. `none`: no limit.",
        unit="core-seconds",
        low=1,
        scope="lower",
    )

    def after(self, spent: int) -> BudgetOptions:
        """The budget of a call that has rewritten ``spent`` bytes; one byte is always left, which admits one group."""
        return self if self.bytes is None else replace(self, bytes=max(self.bytes - spent, 1))


@dataclass(frozen=True, slots=True)
class WorkloadOptions:
    """Workload: the queries that merges are weighed by."""

    sources: tuple[str, ...] = option(
        "workload",
        (),
        "Spark event logs (files or directories), or saved workloads, each of which counts for the table that it was "
        "saved of. Merges are weighed by the queries in them.",
        scope="session",
    )
    queries_per_hour: float = option(
        "queries-per-hour",
        60.0,
        "How often the table is queried, where no workload shows it. The value of a merge is in proportion to it; "
        "with 0, nothing is rewritten for the sake of queries.",
        unit="queries",
        low=0.0,
        high=1e9,
    )


@dataclass(frozen=True, slots=True)
class CommitOptions:
    """Commits, and conflicts with other writers."""

    bytes_per_commit: int = option(
        "partial-progress.bytes-per-commit",
        64 * _GIB,
        "Input size after which a run commits the groups that are finished. Smaller runs commit once, at the end.",
        unit="bytes",
        low=1,
    )
    max_commits: int = option(
        "partial-progress.max-commits",
        10,
        "Maximum number of commits of one round. 1: every round commits once, at its end.",
        unit="commits",
        low=1,
        high=1000,
    )
    num_retries: int = option(
        "commit.retry.num-retries",
        10,
        "Number of times that a commit is retried after a conflict.",
        unit="retries",
        low=0,
        high=100,
    )
    timeout_ms: int = option(
        "commit.retry.total-timeout-ms",
        30 * _MINUTE_MS,
        "Time after which a commit is not retried any more.",
        unit="ms",
        low=0,
        high=DAY_MS,
        scope="lower",
    )
    quiet_window_ms: int = option(
        "commit.quiet-window-ms",
        5 * _SECOND_MS,
        "If another writer changed rows within this time, a commit waits for that writer's next commit, or until this "
        "time has passed without one, so that a running statement does not fail. A commit waits for at most twice "
        "this time. 0: commits never wait.",
        unit="ms",
        low=0,
        high=HOUR_MS,
    )
    max_deleted_ratio: float = option(
        "replay.max-deleted-ratio",
        0.5,
        "A group is dropped, and planned again later, when a concurrent writer deleted more than this share of its "
        "rows. Below it, the deletes are replayed on the group's output files; more than 2,000,000 rows never are.",
        unit="of the group's rows",
        low=0.0,
        high=1.0,
    )


@dataclass(frozen=True, slots=True)
class AutoOptions:
    """Automatic runs. A table property wins even over the call, if it is stricter."""

    enabled: bool = option(
        "auto.enabled",
        True,
        "Whether automatic runs maintain the table. `lk.install` and `lakekeeper run` start automatic runs only if a "
        "conf sets this to true.",
        scope="lower",
    )
    tables: tuple[str, ...] = option(
        "auto.tables",
        (),
        "Tables of automatic runs: names, patterns such as `ice.db.*`, or paths of Delta tables.",
        scope="session",
    )
    verbs: tuple[Verb, ...] = option(
        "auto.verbs",
        ("recluster", "compact", "merge_deletes"),
        "Operations of automatic runs: `expire_rows`, then merges in the order given, then `build_filters`, "
        "`compute_statistics` and `vacuum`.",
        scope="fewer",
    )
    every_ms: int = option(
        "auto.every",
        15 * _MINUTE_MS,
        "Pause between two passes of automatic runs.",
        unit="time",
        low=_SECOND_MS,
        scope="session",
    )
    max_concurrent_tables: int = option(
        "auto.max-concurrent-tables",
        1,
        "Maximum number of tables that a pass maintains at the same time.",
        unit="tables",
        low=1,
        high=256,
        scope="session",
    )
    weight: float = option(
        "auto.weight",
        1.0,
        "Factor on the priority of the table's merges relative to those of other tables.",
        low=0.0,
        high=1000.0,
        unit="times",
    )
    quiet_hours: tuple[str, ...] = option(
        "auto.quiet-hours",
        (),
        "Hours in which automatic runs start nothing: days, hours and a time zone, such as "
        "`Mon-Fri 08:00-18:30 Europe/Berlin`, or `22:00-06:00` for every day in UTC.",
        scope="session",
    )
    budget_bytes: int | None = option(
        "auto.budget-bytes",
        None,
        "Maximum input size of all rewrites of one pass, over all tables. `none`: no limit.",
        unit="bytes",
        low=1,
        scope="session",
    )
    budget_bytes_per_day: int | None = option(
        "auto.budget-bytes-per-day",
        None,
        "Maximum input size of all rewrites of automatic runs within 24 hours, over all tables. Passes of "
        "different processes share it through the history. `none`: no limit.",
        unit="bytes",
        low=1,
        scope="session",
    )
    budget_core_seconds: int | None = option(
        "auto.budget-core-seconds",
        None,
        "Time of executor cores after which a pass starts no task. `none`: no limit.",
        unit="core-seconds",
        low=1,
        scope="session",
    )
    budget_core_seconds_per_day: int | None = option(
        "auto.budget-core-seconds-per-day",
        None,
        "Time of executor cores that automatic runs may use within 24 hours, over all tables, shared like "
        "`auto.budget-bytes-per-day`. `none`: no limit.",
        unit="core-seconds",
        low=1,
        scope="session",
    )
    alert_command: str | None = option(
        "auto.alert-command",
        None,
        "Command that automatic runs start, without a shell, when a table fails or is parked, or a pattern matches no "
        "table; it reads JSON on its standard input.",
        scope="conf",
    )


@dataclass(frozen=True, slots=True)
class HeavyOptions:
    """Heavy tasks: the Spark application in which automatic runs merge, expire rows and compute statistics."""

    master: str | None = option(
        "heavy.master",
        None,
        "Master of a Spark application of its own for the heavy tasks of automatic runs, such as `spark://host:7077`, "
        "`yarn` or `local[4]`. It is started when such a task is due. `none`: they run in the session of the "
        "automatic runs. `spark.lakekeeper.heavy.conf.<conf>` sets a Spark conf of it.",
        scope="conf",
    )
    idle_ms: int = option(
        "heavy.idle",
        _MINUTE_MS,
        "Time after its last task at which the Spark application of heavy tasks ends.",
        unit="time",
        low=0,
        high=DAY_MS,
        scope="conf",
    )
    start_timeout_ms: int = option(
        "heavy.start-timeout",
        5 * _MINUTE_MS,
        "Time within which the Spark application of heavy tasks must have an executor. After it, the tasks fail.",
        unit="time",
        low=_SECOND_MS,
        high=DAY_MS,
        scope="conf",
    )

    @property
    def own_master(self) -> str | None:
        """The master of the application of heavy tasks; None where they run in the session."""
        return None if self.master is None or self.master.lower() == "none" else self.master


@dataclass(frozen=True, slots=True)
class HistoryOptions:
    """History: what is recorded of each operation, and what it costs."""

    path: str | None = option(
        "history.path",
        None,
        "File in which each operation is recorded (SQLite, on a local disk; created where it is missing). `none`: no "
        "history.",
        scope="conf",
    )
    retention_ms: int = option(
        "history.retention",
        90 * DAY_MS,
        "Age at which an operation is deleted from the history.",
        unit="time",
        low=HOUR_MS,
        scope="conf",
    )
    per_core_hour: float | None = option(
        "cost.per-core-hour",
        None,
        "Price of one hour of an executor core, in any currency, for the costs that `cost` shows.",
        unit="units of a currency",
        low=0.0,
        scope="conf",
    )
    per_gb_written: float | None = option(
        "cost.per-gb-written",
        None,
        "Price of 10⁹ bytes written, in the same currency.",
        unit="units of a currency",
        low=0.0,
        scope="conf",
    )

    @property
    def file(self) -> str | None:
        """The file of the history; None where there is no history. Raises OptionError for one that is not local."""
        if self.path is None or self.path.lower() in ("none", "off"):
            return None
        scheme = re.match(r"([A-Za-z][A-Za-z0-9+.\-]+):/", self.path)
        if scheme is None:
            return self.path
        if scheme[1].lower() != "file":
            raise OptionError("history.path", f"{scheme[1]}:/…", "a file on the driver's local disk")
        return re.sub(r"^[^:]+:(//[^/]*)?", "", self.path)


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """Session: what the operator vouches for."""

    single_driver: bool = option(
        "single-driver",
        False,
        "Declares that no other driver writes to tables where two drivers can overwrite each other's commits: with "
        "Delta's default log store on S3, on other object stores that Delta does not know, or on a mount that machines "
        "share; with Iceberg's Hadoop catalog there or on Google Cloud Storage. Without it, commits to such tables are "
        "refused.",
        scope="session",
    )
    fixed_trino: bool = option(
        "fixed-trino",
        False,
        "Declares that every Trino server before version 482 that changes rows of Delta tables with deletion vectors "
        "has the fix of trinodb/trino 29361. Without the fix, a statement that loses to another commit deletes live "
        "data files, so commits to a table are refused for a day after such a server changed rows there.",
        scope="session",
    )
    allow_untested_versions: bool = option(
        "allow-untested-versions",
        False,
        "Opens tables with versions of Spark, Delta Lake or Iceberg that lakekeeper was not tested with, if they have "
        "all private Java members that it uses.",
        scope="conf",
    )
    sql_call_enabled: bool = option(
        "sql.call.enabled",
        False,
        "Makes `lk.install` add `CALL lakekeeper.system.…`, table functions and views of lakekeeper to plain "
        "`spark.sql` in its session (experimental).",
        scope="conf",
    )
