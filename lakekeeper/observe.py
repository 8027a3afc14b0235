"""Where a table's workload comes from: what the caller gives, a session that is listened to, or event logs."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from lakekeeper.core.config.options import Options
from lakekeeper.core.workload.workload import Workload
from lakekeeper.engine.event_log import read_workload
from lakekeeper.spark.identifiers import aliases
from lakekeeper.spark.jvm import require_classic
from lakekeeper.spark.query_listener import MOST_SCANS, Listening
from lakekeeper.spi import TableName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Queries = Workload | str | PathLike[str] | Sequence[str | PathLike[str]]
"""A workload, or the path or paths that one is read from: Spark event logs, or what ``Workload.to_json`` wrote."""

_LISTENING: WeakKeyDictionary[Any, Listening] = WeakKeyDictionary()
"""Sessions that are listened to."""


def observe(spark: SparkSession, *, most: int = MOST_SCANS) -> Listening:
    """Listen to what the session's queries ask of tables: plans and advice of this session rest on it from now on.

    Keeps the newest ``most`` scans. It stands beside the queries: whatever goes wrong in it never reaches one.
    ``stop()`` ends it.
    """
    require_classic(spark)
    listening = _LISTENING.get(spark)
    if listening is None:
        listening = _LISTENING[spark] = Listening(spark, most=most)
    return listening.start()


def workload_of(
    spark: SparkSession, name: TableName, source: Queries | None, options: Options
) -> Workload | None:
    """The workload that ``source`` is or names; else what was listened to, else what the option ``workload`` names.

    None where there is nothing of these. Raises OptionError for a file that is no event log.
    """
    if isinstance(source, Workload):
        return source
    listening = _LISTENING.get(spark)
    if source is None and listening is not None:
        seen = listening.workload(name.text, aliases(spark, name))
        if len(seen):
            return seen
    paths = [source] if isinstance(source, str | PathLike) else list(source or options.words("workload"))
    return read_workload(paths, name.text, aliases(spark, name)) if paths else None
