"""Run a user's DELETE, UPDATE or MERGE so that maintenance does not make it fail.

Spark runs the statement unchanged. If it loses a race only to lakekeeper's own rewrites, which change no row, the
statement has the same effect on the new files and is retried. If another writer committed too, the error is raised,
because only the user can decide whether the statement still applies.

With ``spark.wap.branch`` or ``spark.wap.id`` set, Iceberg's writers may commit to a branch or to a staged snapshot, of
which the table's versions say nothing: the statement is then run as it would be without lakekeeper. So is a statement
that names a branch.

A table that lakekeeper cannot open, or a property that it does not know, does not make the statement fail: it then runs
as it would without lakekeeper, and a warning is logged.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakekeeper.core.config.options import Options
from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.planning.changes import Changes
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.commit_loop import CommitLoop, Retry
from lakekeeper.engine.events import Events
from lakekeeper.errors import AdapterError, Conflict, NotFound, reason
from lakekeeper.opening import Opened, open_adapter
from lakekeeper.redaction import without_user
from lakekeeper.spark.confs import table_options
from lakekeeper.spi import Observer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LOG = logging.getLogger("lakekeeper")
_WRITE_AUDIT_PUBLISH = ("spark.wap.branch", "spark.wap.id")


def run_guarded(
    spark: SparkSession,
    statement: str,
    target: str,
    observer: Observer | None,
    options: Mapping[str, Any] | None,
) -> DataFrame:
    """Run a statement that changes ``target``, and retry it if it loses only to lakekeeper's own rewrites.

    Each retry is logged and reported to ``observer`` as ``conflict``. After the last retry, and for every other
    failure, raises the statement's own error.
    """
    guard = None if _writes_elsewhere(spark, target) else _guard(spark, target, options)
    if guard is None:
        return spark.sql(statement)
    adapter = guard.opened.adapter
    events = Events(adapter.table, "", observer)
    clock = Clock()
    before: Snapshot | None = None
    error: Exception | None = None

    def attempt() -> DataFrame:
        nonlocal before, error
        before = guard.version()
        try:
            return spark.sql(statement)
        except Exception as failed:
            error = failed
            changes = guard.lost_to_our_rewrites(before, failed) if before else None
            if changes is None:
                raise
            winners = ", ".join(map(str, changes.winners))
            raise Conflict(f"lost to {winners}", winners) from failed

    def after(lost: Conflict) -> Retry:
        _LOG.warning(
            "%s: the statement lost to %s, which changed no row, and is run again (attempt %d)",
            adapter.table, lost.winner, loop.lost + 2,
        )  # fmt: skip
        return Retry()

    loop = CommitLoop(events, guard.options, clock, "the statement", "it changed no row")
    try:
        return loop.run(attempt, after)
    except Conflict:
        if error is None:
            raise
        raise error from None


@dataclass(frozen=True, slots=True)
class _Guard:
    """The state needed to retry a statement: the table that it changes, and the options."""

    opened: Opened
    options: Options

    def version(self) -> Snapshot | None:
        """The table's newest version; None if it cannot be read."""
        try:
            return self.opened.adapter.version()
        except Exception as error:
            _unguarded(self.opened.adapter.table, error)
            return None

    def lost_to_our_rewrites(self, before: Snapshot, error: Exception) -> Changes | None:
        """The commits since ``before``, if the statement lost to them and all of them are our own rewrites.

        None in doubt: the statement's own error is then raised.
        """
        try:
            if not self.opened.format.lost_race(error):
                return None
            changes = self.opened.adapter.changes_since(before)
            return changes if changes.only_our_rewrites else None
        except Exception:
            return None


def _writes_elsewhere(spark: SparkSession, target: str) -> bool:
    """Whether the session's statements may not change the version of the table that all others read."""
    found = next((key for key in _WRITE_AUDIT_PUBLISH if spark.conf.get(key, None) is not None), None)
    if found is not None:
        shown = without_user(target)
        _LOG.debug("%s: the statement is not run again if it loses to a rewrite: %s is set", shown, found)
    return found is not None


def _guard(spark: SparkSession, target: str, options: Mapping[str, Any] | None) -> _Guard | None:
    """None if the table cannot be opened or the session's options are invalid: the statement then runs unguarded."""
    try:
        opened = open_adapter(spark, target)
        properties = opened.adapter.properties()
        return _Guard(opened, table_options(spark, target, properties, options, lenient=True))
    except Exception as error:
        _unguarded(target, error)
        return None


def _unguarded(table: str, error: Exception) -> None:
    not_ours = isinstance(error, NotFound) or (isinstance(error, AdapterError) and error.missing)
    level = logging.DEBUG if not_ours else logging.WARNING
    shown = without_user(table)
    _LOG.log(level, "%s: the statement is not run again if it loses to a rewrite: %s", shown, reason(error))
