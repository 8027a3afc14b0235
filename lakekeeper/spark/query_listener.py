"""A listener on a running session that records the table scans of its queries, without any event log.

    query ends ─► QueryExecutionListener (py4j) ─► plan as JSON ─► scans with filters and files read ─► newest kept

Spark calls listeners asynchronously to the query; errors here are only counted. Memory is bounded: the oldest scans are
dropped. Reading a plan takes some milliseconds of CPU: of many queries a sample is read (:mod:`.query_sampling`). A
listener sees the queries of its own session only, not those of ``newSession()``, and none of Spark Connect.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import timezone, tzinfo
from typing import TYPE_CHECKING, Any

from lakekeeper.core.workload.plan_scans import (
    BYTES,
    FILES,
    Cached,
    Sighting,
    known_as,
    scan_of,
    scans_table,
    sightings,
)
from lakekeeper.core.workload.workload import Workload, collect
from lakekeeper.errors import reason
from lakekeeper.spark.callbacks import JavaObject, listen_for_callbacks
from lakekeeper.spark.jvm import Jvm
from lakekeeper.spark.query_sampling import Sampling
from lakekeeper.time_zones import zone_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from typing_extensions import Self  # in typing from Python 3.11 on

MOST_SCANS = 10_000
_COMMAND = "org.apache.spark.sql.catalyst.plans.logical.Command"
_QUERIES = frozenset(
    {"collect", "collectToPython", "collectAsArrowToPython", "toArrow", "count", "head", "take", "tail"}
)
"""Actions of Spark that run no command."""
_LOG = logging.getLogger("lakekeeper")


class Listening:
    """Scans of a session's queries since :meth:`start`; may be read from any thread.

    ``seen`` counts scans, ``failed`` counts queries whose plan could not be read. Of queries, those are read that
    ``sampling`` chooses; without one, each :meth:`start` begins a new one.
    """

    def __init__(
        self, spark: SparkSession, *, most: int = MOST_SCANS, sampling: Sampling | None = None
    ) -> None:
        self._jvm = Jvm(spark)
        self._scans: deque[tuple[Sighting, int, dict[int, int], float]] = deque(maxlen=most)
        self._given, self._sampling = sampling, sampling or Sampling()
        self._lock = threading.Lock()
        self._cached = Cached()
        self._started = 0
        self._ended: int | None = None
        self._listener: Any = None
        self._mapper: Any = None
        self._zone: tzinfo = timezone.utc
        self._recording = False
        self._wrote: Callable[[str], object] | None = None
        self.seen = 0
        self.failed = 0

    def start(self) -> Self:
        """Start recording; drops what was recorded before, unless automatic runs kept the listener in use."""
        self._recording = True
        self._register()
        return self

    def stop(self) -> None:
        """Stop recording, unless automatic runs still need the listener; the recorded scans are kept."""
        self._recording = False
        self._unregister_unused()

    def report_writes(self, wrote: Callable[[str], object] | None) -> None:
        """Record, and call ``wrote`` with the plan of each command, such as a write, as text; None ends this.

        The names or paths of its tables are somewhere in the text. What :meth:`start` began goes on.
        """
        self._wrote = wrote
        self._unregister_unused() if wrote is None else self._register()

    def _register(self) -> None:
        if self._listener is not None:
            return
        self._sampling = self._given or Sampling()
        listen_for_callbacks(self._jvm)
        self._mapper = self._jvm.view.com.fasterxml.jackson.databind.ObjectMapper()
        self._mapper.registerModule(self._jvm.object("com.fasterxml.jackson.module.scala.DefaultScalaModule"))
        self._zone = zone_of(str(self._jvm.view.java.util.TimeZone.getDefault().getID()))
        # Java gets a new proxy each time a Python object is passed to it, and listeners are unregistered by identity:
        # only an object returned by the JVM itself is the same object in both calls.
        held = self._jvm.view.java.util.ArrayList()
        held.add(_Listener(self))
        self._listener = held.get(0)
        with self._lock:  # of the time between two recordings, nothing is known
            self._scans.clear()
            self.seen = 0
            self._started, self._ended = _now_ms(), None
        self._jvm.session.listenerManager().register(self._listener)

    def _unregister_unused(self) -> None:
        if self._recording or self._wrote is not None:
            return
        listener, self._listener = self._listener, None
        if listener is not None:
            self._jvm.session.listenerManager().unregister(listener)
            self._ended = _now_ms()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def workload(self, table: str, names: Collection[str]) -> Workload:
        """The workload of a table that plans refer to by one of ``names``."""
        known = known_as(*names)
        with self._lock:
            kept = list(self._scans)
            dropped = self.seen > len(kept)
        # Of the time before the oldest scan, of whatever table, nothing is known once scans were dropped.
        start = kept[0][1] if kept and dropped else self._started
        scans = [
            replace(scan_of(seen, at, values), weight=weight)
            for seen, at, values, weight in kept
            if scans_table(seen, known)
        ]
        end = _now_ms() if self._ended is None else self._ended
        return collect(table, scans, source="the running session", start_ms=start, end_ms=end)

    def note(self, name: str, execution: Any, seconds: float) -> None:
        """Record the scans of a successful query, by the name of its action; never raises."""
        try:
            if name not in _QUERIES:
                self._report_commands(execution.analyzed())
            weight = self._sampling.weight(seconds)
            if weight:
                with self._sampling.reading():
                    self._read(execution, weight)
        except Exception as error:  # an unreadable plan must not affect the user's query
            self.failed += 1
            _LOG.debug("a query's plan could not be read: %s", reason(error))

    def _read(self, execution: Any, weight: float) -> None:
        info = self._jvm.view.org.apache.spark.sql.execution.SparkPlanInfo.fromSparkPlan(
            execution.executedPlan()
        )
        plan = json.loads(self._mapper.writeValueAsString(info))
        with self._lock:
            found = self._cached.counted(sightings(plan, self._zone))
        at = _now_ms()
        noted = [(sighting, at, self._values(sighting), weight) for sighting in found]
        with self._lock:
            self._scans.extend(noted)
            self.seen += len(noted)

    def _report_commands(self, plan: Any) -> None:
        from py4j.java_gateway import is_instance_of

        wrote = self._wrote
        if wrote is not None and is_instance_of(self._jvm.spark.sparkContext._gateway, plan, _COMMAND):
            wrote(str(plan.toString()))

    def _values(self, sighting: Sighting) -> dict[int, int]:
        """The number of files read and their bytes: the values of the accumulators behind a scan's metrics."""
        wanted = [number for name, number in sighting.metrics.items() if name in (*FILES, *BYTES)]
        context = self._jvm.object("org.apache.spark.util.AccumulatorContext")
        found = {}
        for number in wanted:
            accumulator = context.get(number)
            if accumulator.isDefined():
                found[number] = int(accumulator.get().value())
        return found


class _Listener(JavaObject):
    """The callback object that the JVM calls."""

    class Java:
        implements = ("org.apache.spark.sql.util.QueryExecutionListener",)

    def __init__(self, owner: Listening) -> None:
        self._owner = owner

    def onSuccess(self, name: str, execution: Any, duration_ns: int) -> None:  # noqa: N802  # Spark calls it by this name
        self._owner.note(name, execution, duration_ns / 1e9)

    def onFailure(self, _name: str, _execution: Any, _error: Any) -> None:  # noqa: N802  # Spark calls it by this name
        """Ignore a failed query: what it has read is unknown."""


def _now_ms() -> int:
    return int(time.time() * 1000)
