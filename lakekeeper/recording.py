"""Puts the history together for a session: its store by the session's confs, and the facts of its application."""

from __future__ import annotations

from contextlib import suppress
from importlib.metadata import version
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from lakekeeper.core.config.options import resolve
from lakekeeper.core.config.run_options import HistoryOptions
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.plugins import find_format
from lakekeeper.errors import OptionError
from lakekeeper.history.costs import Prices
from lakekeeper.history.operation import TableId
from lakekeeper.history.recorder import Application, Destination, Recorder
from lakekeeper.history.store import HistoryStore
from lakekeeper.redaction import HIDDEN, redacted
from lakekeeper.spark.application import core_seconds, secrets
from lakekeeper.spark.confs import lakekeeper_confs
from lakekeeper.spi import TableName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_IN_SESSION = " in session"
_APPLICATIONS: WeakKeyDictionary[SparkSession, dict[str, Application]] = WeakKeyDictionary()
"""Session → format → the application as an operation on a table of that format has seen it."""


def table_id(name: TableName) -> TableId:
    """The name under which the history keeps a table."""
    if name.path:
        return TableId("", "", name.path.removeprefix("file:").rstrip("/") or "/", name.provider)
    return TableId(name.catalog, ".".join(name.namespace), name.name, name.provider)


def recorder_of(spark: SparkSession, name: TableName, clock: Clock, origin: str) -> Recorder:
    """Records operations on this table where ``history.path`` says; looked up at each operation."""

    def destination() -> Destination | None:
        options = resolve(conf=lakekeeper_confs(spark)).history
        if options.file is None:
            return None
        hidden = secrets(spark)

        def clean(text: str) -> str:
            for secret in hidden:
                text = text.replace(secret, HIDDEN)
            return redacted(text)

        return Destination(
            HistoryStore(options.file, clean), options.retention_ms, _application(spark, name.provider)
        )

    return Recorder(
        table_id(name), origin, destination, lambda groups: core_seconds(spark, groups), clock.now_ms
    )


def configured_store(options: HistoryOptions) -> HistoryStore:
    """The store to read from. Raises OptionError where none is configured."""
    if options.file is None:
        raise OptionError("history.path", None, "a file: set the Spark conf spark.lakekeeper.history.path")
    return HistoryStore(options.file)


def prices_of(options: HistoryOptions) -> Prices:
    """The prices that the confs give."""
    return Prices(options.per_core_hour, options.per_gb_written)


def _application(spark: SparkSession, provider: str) -> Application:
    known = _APPLICATIONS.setdefault(spark, {})
    if provider not in known:
        versions = {"lakekeeper": version("lakekeeper-spark"), "Spark": str(spark.version)}
        with suppress(Exception):  # the session works; only a version is missing then
            for finding in find_format(provider, "").examine(spark):
                if finding.name.endswith(_IN_SESSION):
                    versions[finding.name.removesuffix(_IN_SESSION)] = finding.found
        context = spark.sparkContext
        known[provider] = Application(str(context.applicationId), str(context.sparkUser()), versions)
    return known[provider]
