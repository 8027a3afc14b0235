"""Sources of a table's workload: the caller, an observed session, or event logs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from os import PathLike
from threading import Lock
from typing import TYPE_CHECKING

from lakekeeper.core.config.options import Options
from lakekeeper.core.workload.workload import Workload
from lakekeeper.engine.event_log import read_workload, read_workloads
from lakekeeper.spark.identifiers import aliases
from lakekeeper.spark.jvm import require_classic
from lakekeeper.spark.query_listener import MOST_SCANS, Listening
from lakekeeper.spi import TableName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Queries = Workload | str | PathLike[str] | Sequence[str | PathLike[str]]
"""A workload, or the path or paths to read it from: Spark event logs, or the output of ``Workload.to_json``."""

_LISTENER = "_lakekeeper_listener"
"""Attribute of an observed session: a map elsewhere would keep the session, to which its listener refers."""
_CREATING = Lock()


def listen(spark: SparkSession, *, most: int = MOST_SCANS) -> Listening:
    """Record the table scans of the session's queries; later plans and advice in this session use them.

    Keeps the newest ``most`` scans; a session has one listener, for which the first call decides. A failure of the
    listener never affects a query. ``stop()`` ends the recording, unless automatic runs of :func:`install` record too.
    """
    return listener_of(spark, most).start()


def listener_of(spark: SparkSession, most: int = MOST_SCANS) -> Listening:
    """The listener that a session has in common for all who listen to it; it may not have started."""
    require_classic(spark)
    with _CREATING:
        listening = _known(spark)
        if listening is None:
            listening = Listening(spark, most=most)
            setattr(spark, _LISTENER, listening)
    return listening


def _known(spark: SparkSession) -> Listening | None:
    return getattr(spark, _LISTENER, None)


class EventLogs:
    """Event logs that are parsed once for all tables of a pass. ``names`` says what plans call each of the tables.

    Logs that cannot be read fail each table that needs them, but are not parsed for each of them: that takes minutes.
    """

    def __init__(
        self,
        names: Callable[[], Mapping[str, Collection[str]]],
        read: Callable[..., Mapping[str, Workload]] = read_workloads,
    ) -> None:
        self._names = names
        self._read = read
        self._lock = Lock()
        self._found: dict[tuple[str, ...], Mapping[str, Workload] | Exception] = {}

    def of(self, paths: Sequence[str], table: str) -> Workload | None:
        """The workload of a table in these logs; None for a table that is not of the pass.

        Raises what reading them raised, in each call.
        """
        key = tuple(paths)
        with self._lock:
            if key not in self._found:
                self._found[key] = self._read_once(paths)
            found = self._found[key]
        if isinstance(found, Exception):
            raise found
        return found.get(table)

    def _read_once(self, paths: Sequence[str]) -> Mapping[str, Workload] | Exception:
        try:
            return self._read(paths, self._names())
        except Exception as error:
            return error  # raised now and for each other table


def workload_of(
    spark: SparkSession,
    name: TableName,
    source: Queries | None,
    options: Options,
    logs: EventLogs | None = None,
) -> Workload | None:
    """The workload that ``source`` is or names; else the one observed, else the one that the option ``workload`` names.

    None if there is no workload. Raises OptionError for a file that is not an event log.
    """
    if isinstance(source, Workload):
        return source
    listening = _known(spark)
    if source is None and listening is not None:
        seen = listening.workload(name.text, aliases(spark, name))
        if len(seen):
            return seen
    named = options.workload.sources
    if source is None and logs is not None and named:
        found = logs.of(named, name.text)
        if found is not None:
            return found
    paths = [source] if isinstance(source, str | PathLike) else list(source or named)
    if not paths:
        return None
    # The option is one for many tables, and a saved workload is of one; a call names it for its own table.
    return read_workload(paths, name.text, aliases(spark, name), any_table=source is not None)
