"""The history and the cost of all tables, for SQL: ``lakekeeper_history()`` without a table."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from lakekeeper import arguments
from lakekeeper.core.config.options import resolve
from lakekeeper.core.config.run_options import HistoryOptions
from lakekeeper.history.costs import Costs, costs_of
from lakekeeper.history.history import History
from lakekeeper.recording import configured_store, prices_of
from lakekeeper.spark.confs import lakekeeper_confs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def history(spark: SparkSession, limit: int | None = None) -> History:
    """Operations on all tables, newest first, at most ``limit``. Raises as ``Table.history``."""
    return History(configured_store(_options(spark)).operations(limit=arguments.row_limit(limit)))


def cost(spark: SparkSession, since: datetime | None = None) -> Costs:
    """What operations on all tables have cost, by table and verb. Raises as ``Table.cost``."""
    options, since_ms = _options(spark), arguments.time_ms(since, "since")
    done = configured_store(options).operations(since_ms=since_ms, details=False)
    return costs_of(done, prices_of(options))


def is_configured(spark: SparkSession) -> bool:
    """Whether the session has a history."""
    return _options(spark).file is not None


def _options(spark: SparkSession) -> HistoryOptions:
    return resolve(conf=lakekeeper_confs(spark)).history
