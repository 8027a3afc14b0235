"""Maintenance of many tables: a single pass, or repeated passes from a background thread.

run(spark, "ice.db.*")
with auto(spark, every="15m"): ...
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lakekeeper.api import Table, open_table
from lakekeeper.core.config.options import resolve
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.scheduling.auto_report import AutoReport, PatternResult
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.merge.partition_backoff import Backoffs
from lakekeeper.engine.service import AutoSettings, Service, settings_from, sweep
from lakekeeper.spark.confs import lakekeeper_confs
from lakekeeper.spark.identifiers import Expanded, aliases, expand, is_pattern
from lakekeeper.spark.jvm import require_classic
from lakekeeper.spi import Observer
from lakekeeper.workloads import EventLogs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_KEPT_BYTES = 256 << 20
"""Snapshots that a pass keeps from the ranking of its tables until their turn."""


def run(
    spark: SparkSession,
    tables: str | Sequence[str] | None = None,
    *,
    verbs: Sequence[str] | None = None,
    dry_run: bool = False,
    observer: Observer | None = None,
    stopping: Callable[[], bool] = lambda: False,
) -> AutoReport:
    """Do the maintenance that is due in one pass over many tables. A failing table, pattern or catalog stops no other.

    Defaults come from ``spark.lakekeeper.auto.*``; see :func:`auto`. Once ``stopping()`` is true, the work in progress
    is finished and no further work is started.
    """
    settings = service_settings(spark, tables, verbs)
    return one_pass(spark, settings, dry_run=dry_run, observer=observer, stopping=stopping)


def auto(
    spark: SparkSession, *, every: str | None = None, tables: str | Sequence[str] | None = None
) -> Service:
    """Maintain tables from a background thread of this session, until ``stop()`` or the end of the ``with`` block.

    Settings come from confs ``spark.lakekeeper.*`` and table properties ``lakekeeper.*``; a table with
    ``lakekeeper.auto.enabled=false`` is never touched. ``every`` is the pause between passes, such as ``30s``, ``15m``
    or ``2h``. Partitions where maintenance lost a race to a user are skipped for one or more passes.
    """
    settings = service_settings(spark, tables, None, every)
    backoffs = Backoffs.between(settings.pause_seconds)
    return Service(lambda: one_pass(spark, settings, backoffs=backoffs), settings.pause_seconds).start()


def service_settings(
    spark: SparkSession,
    tables: str | Sequence[str] | None,
    verbs: Sequence[str] | None,
    every: str | None = None,
) -> AutoSettings:
    """The settings of a pass or a service: what the call gives, then the session's confs."""
    call: dict[str, Any] = {}
    if tables is not None:
        call["auto.tables"] = tables if isinstance(tables, str) else ",".join(tables)
    if verbs is not None:
        call["auto.verbs"] = ",".join(verbs)
    if every is not None:
        call["auto.every"] = every
    require_classic(spark)
    return settings_from(resolve(call, lakekeeper_confs(spark)))


def one_pass(
    spark: SparkSession,
    settings: AutoSettings,
    *,
    dry_run: bool = False,
    observer: Observer | None = None,
    stopping: Callable[[], bool] = lambda: False,
    backoffs: Backoffs | None = None,
) -> AutoReport:
    """One pass of a service; ``backoffs`` carries over from earlier passes."""
    tables: dict[str, Table | Exception] = {}
    kept: list[int] = []

    expanded = expand(spark, settings.tables)
    names = tuple(dict.fromkeys(name for found in expanded for name in found.names))

    def known_as() -> dict[str, tuple[str, ...]]:
        """What event logs may call each table of the pass that can be opened."""
        found = {}
        for name in names:
            with suppress(Exception):  # reported when its turn comes
                found[name] = aliases(spark, opened(name)._name)  # noqa: SLF001 - the table is ours
        return found

    logs = EventLogs(known_as)

    def opened(name: str) -> Table:
        """Open each table once per pass, and remember the error of one that cannot be opened."""
        if name not in tables:
            try:
                tables[name] = open_table(spark, name, backoffs.of(name) if backoffs else None, logs)
            except Exception as error:
                tables[name] = error  # reported when its turn comes
        found = tables[name]
        if isinstance(found, Exception):
            raise found
        return found

    def opened_last(name: str) -> Table:
        """Open a table for its turn: nothing of it is kept after that."""
        try:
            return opened(name)
        finally:
            tables.pop(name, None)

    def worth(name: str) -> float:
        table = opened(name)
        told = table.plan().prediction if table.automatic else None
        session = table._session  # noqa: SLF001 - the table is ours
        kept.append(session.nbytes)
        if sum(kept) > _KEPT_BYTES:
            session.forget()  # read again at its turn
            kept.pop()
        return told.worth.seconds_saved if told else 0.0

    report = sweep(
        names,
        opened_last,
        settings,
        Clock(),
        dry_run=dry_run,
        observer=observer,
        stopping=stopping,
        worth=worth,
    )
    return replace(report, patterns=tuple(_result(found) for found in expanded if is_pattern(found.pattern)))


def _result(found: Expanded) -> PatternResult:
    if found.error:
        return PatternResult(
            found.pattern, "failed", Reason.of(Code.FAILED, error=found.error), len(found.names)
        )
    if not found.names:
        return PatternResult(found.pattern, "unmatched", Reason.of(Code.NO_TABLE_MATCHES), 0)
    return PatternResult(found.pattern, "matched", None, len(found.names))
