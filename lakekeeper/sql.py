"""Run a user's DELETE, UPDATE or MERGE so that maintenance does not make it fail.

The statement is Spark's own and runs as it is. Where it lost its race to nothing but rewrites of lakekeeper's, which
change no row, it means the same on the new files and is run again; where anybody else was faster too, the error goes
to the user, who alone knows whether the statement still means what it meant.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lakekeeper.core.blocks import Snapshot
from lakekeeper.core.options import Options, resolve
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.commit import pause_seconds
from lakekeeper.engine.events import Events
from lakekeeper.errors import AdapterError, TableError
from lakekeeper.opening import Opened, open_adapter
from lakekeeper.spark.confs import lakekeeper_confs
from lakekeeper.spark.statements import changed_table
from lakekeeper.spi import Adapter, Format, Observer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LOG = logging.getLogger("lakekeeper")


def sql(
    spark: SparkSession,
    statement: str,
    *,
    observer: Observer | None = None,
    options: Mapping[str, Any] | None = None,
) -> DataFrame:
    """``spark.sql``; a DELETE, UPDATE or MERGE that loses only to rewrites of lakekeeper's is run again.

    Each further run is logged (logger ``lakekeeper``, a warning) and told to ``observer`` as ``conflict``. They are
    bounded by ``commit.retry.num-retries``; then, and for every other failure, the statement's own error is raised.
    Any other statement is handed to Spark as it is. Raises OptionError for a text that does not parse.
    """
    target = changed_table(spark, statement)
    opened = _opened(spark, target) if target else None
    if opened is None:
        return spark.sql(statement)
    format_, adapter = opened.format, opened.adapter
    resolved = resolve(options, lakekeeper_confs(spark), adapter.properties())
    events = Events(adapter.table, "", observer)
    clock = Clock()
    for attempt in range(resolved.integer("commit.retry.num-retries") + 1):
        # No block matches: the version is all that is wanted of the picture.
        before = adapter.snapshot(where="false")
        try:
            return spark.sql(statement)
        except Exception as error:
            if not _may_run_again(format_, adapter, before, error, attempt, resolved):
                raise
            lost_to = ", ".join(map(str, adapter.changes_since(before).winners))
            _LOG.warning(
                "%s: the statement lost to %s, which changed no row; it is run again (attempt %d)",
                adapter.table, lost_to, attempt + 2,
            )  # fmt: skip
            events.tell("conflict", attempt=attempt, reason=f"lost to {lost_to}", statement=statement)
            clock.wait(pause_seconds(attempt, resolved))
    raise AssertionError("the loop returns or raises")


def _may_run_again(
    format_: Format,
    adapter: Adapter[Any],
    before: Snapshot,
    error: Exception,
    attempt: int,
    options: Options,
) -> bool:
    """Was it a lost race, and to none but our own rewrites? In doubt the error is the user's to judge."""
    if attempt >= options.integer("commit.retry.num-retries") or not format_.lost_race(error):
        return False
    try:
        return adapter.changes_since(before).only_our_rewrites
    except Exception:  # the statement's own error is what matters
        return False


def _opened(spark: SparkSession, target: str) -> Opened | None:
    """A statement's table; None where lakekeeper knows none: then it made no commit there."""
    try:
        return open_adapter(spark, target)
    except (AdapterError, TableError):
        return None
