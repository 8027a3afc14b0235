"""The Spark application of heavy tasks: ``python -m lakekeeper.heavy.application``.

It reads the confs of its session and its tasks from stdin (see :mod:`lakekeeper.heavy.process`), and ends when stdin
ends: work that is not committed by then is discarded.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from lakekeeper.api import Table, open_table
from lakekeeper.core.scheduling.heavy_call import FAILED_FILES, HeavyCall
from lakekeeper.core.units import DAY_MS
from lakekeeper.core.workload.workload import Workload
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.events import RUN_FACTS
from lakekeeper.engine.merge.backoff import Backoff
from lakekeeper.errors import HeavyError, reason
from lakekeeper.heavy.process import ALIVE_S
from lakekeeper.spark.application import core_seconds, has_ended
from lakekeeper.spark.confs import lakekeeper_confs
from lakekeeper.spark.session import end_java, local_session
from lakekeeper.spark.shims import shim
from lakekeeper.spi import Observer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CONNECT_S = 10.0
_GRACE_S = 15.0


class Answers:
    """Sends messages of this process to the service, from any thread."""

    def __init__(self, to: IO[str]) -> None:
        self._to, self._lock = to, threading.Lock()

    def say(self, **message: Any) -> None:
        """Send one message. If the service is gone, stdin is closed too, and this process ends."""
        text = json.dumps(message, default=str)
        with self._lock:
            try:
                self._to.write(text + "\n")
                self._to.flush()
            except OSError:
                return


def _sign_of_life(answers: Answers) -> None:
    """Report to the service again and again that this process runs, for as long as it does."""
    threading.Thread(target=_report_life, args=(answers,), name="lakekeeper-alive", daemon=True).start()


def _report_life(answers: Answers) -> None:
    while True:
        answers.say(alive=True)
        time.sleep(ALIVE_S)


class _Records(logging.Handler):
    """Sends log records to the service, which logs them as its own; each names the application."""

    application = ""

    def __init__(self, answers: Answers) -> None:
        super().__init__()
        self._answers = answers

    def emit(self, record: logging.LogRecord) -> None:
        """Send one record, with the facts of a run if it has them."""
        plain = {
            "name": record.name,
            "levelno": record.levelno,
            "levelname": record.levelname,
            "created": record.created,
            "msg": record.getMessage(),
            "application": self.application,
        }
        plain |= {name: getattr(record, name) for name in RUN_FACTS if hasattr(record, name)}
        self._answers.say(log=plain)


class Application:
    """The session, and the tasks that run in it."""

    def __init__(self, spark: SparkSession, answers: Answers) -> None:
        self._spark, self._answers = spark, answers
        self._confs_lock = threading.Lock()
        self._running: list[threading.Thread] = []
        self._ending = False

    def start(self, number: int, call: HeavyCall) -> None:
        """Run a task on a thread of its own."""
        thread = threading.Thread(target=self._run, args=(number, call), daemon=True)
        self._running = [each for each in self._running if each.is_alive()] + [thread]
        thread.start()

    def end(self) -> None:
        """Cancel the running tasks by stopping Spark, and wait a while until the files of their groups are deleted."""
        self._ending = True
        self._spark.stop()
        for thread in self._running:
            thread.join(_GRACE_S)

    def _run(self, number: int, call: HeavyCall) -> None:
        runs: dict[str, None] = {}

        def report_phase(phase: str, info: Mapping[str, Any]) -> None:
            runs[str(info["run_id"])] = None
            facts = {name: value for name, value in info.items() if isinstance(value, int | float | str)}
            self._answers.say(id=number, phase=phase, info=facts)

        try:
            self._set(call.confs)
            plain = carry_out(self._spark, call, report_phase)
            used = core_seconds(self._spark, list(runs)) if runs else 0.0
            self._answers.say(id=number, report=plain, core_seconds=used)
        except BaseException as error:  # of the table, the catalog or the cluster: the service reports it
            over = not self._ending and has_ended(self._spark)
            self._answers.say(id=number, error=reason(error), over=over)
            if over:  # the JVM died, or the master removed the application: the next task needs another one
                os._exit(1)
            if not isinstance(error, Exception):  # the service would have waited for an answer forever
                raise

    def _set(self, confs: Mapping[str, str]) -> None:
        """Set the confs of the service, which may have changed since this process started."""
        with self._confs_lock:
            now = lakekeeper_confs(self._spark)
            for key in now.keys() - confs.keys():
                self._spark.conf.unset(key)
            for key, value in confs.items():
                if now.get(key) != value:
                    self._spark.conf.set(key, value)


def carry_out(spark: SparkSession, call: HeavyCall, observer: Observer) -> dict[str, Any]:
    """The report of one task, without the plan."""
    backoff = _backoff(call)
    table = open_table(spark, call.table, backoff)
    plain = _VERBS[call.verb](table, call, observer).to_dict()
    failed = backoff.failing(Clock().now_ms()) - frozenset(call.failing)
    answer = {name: value for name, value in plain.items() if name != "plan"}
    return answer | {FAILED_FILES: sorted(failed)} if failed else answer


def _backoff(call: HeavyCall) -> Backoff:
    """A backoff that makes the partitions and files of the call rest for a day, longer than the call may take."""
    backoff, now_ms = Backoff(DAY_MS), Clock().now_ms()
    for partition in call.resting:
        backoff.raced(partition, now_ms)
    backoff.failed(call.failing, now_ms)
    return backoff


def _by_workload(verb: str, table: Table, call: HeavyCall, observer: Observer) -> Any:
    workload = Workload.from_json(call.workload) if call.workload else None
    return getattr(table, verb)(budget_bytes=call.budget_bytes, observer=observer, workload=workload)


_VERBS: Mapping[str, Callable[[Table, HeavyCall, Observer], Any]] = {
    "recluster": partial(_by_workload, "recluster"),
    "compact": partial(_by_workload, "compact"),
    "merge_deletes": partial(_by_workload, "merge_deletes"),
    "build_filters": partial(_by_workload, "build_filters"),
    "expire_rows": lambda table, _, observer: table.expire_rows(observer=observer),
    "compute_statistics": lambda table, _, observer: table.compute_statistics(observer=observer),
}


def _session(confs: Mapping[str, str]) -> SparkSession:
    """A session with these confs and no others, once it has an executor. Raises HeavyError."""
    _reach(confs["spark.master"])
    shim().silence_errors()
    with tempfile.TemporaryDirectory() as folder:
        nothing = Path(folder, "nothing.conf")  # spark-defaults.conf is in the confs already
        nothing.touch()
        spark = local_session(app_name="lakekeeper-heavy", conf=confs, properties_file=nothing)
    spark.range(1).count()  # waits for an executor
    return spark


def _reach(master: str) -> None:
    """Raise HeavyError if no master of a standalone cluster accepts a connection: Spark would wait for a minute."""
    if not master.startswith("spark://"):
        return
    problems = []
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), _CONNECT_S).close()
        except (OSError, ValueError) as error:
            problems.append(f"{address}: {error}")
        else:
            return
    raise HeavyError(f"no master answers ({'; '.join(problems)})")


def serve(calls: IO[str], answers: Answers) -> int:
    """Start the session, and run tasks until ``calls`` ends; the exit code."""
    first = json.loads(calls.readline())
    logger = logging.getLogger("lakekeeper")
    records = _Records(answers)
    logger.addHandler(records)
    logger.setLevel(first["log_level"])
    logger.propagate = False
    try:
        spark = _session(first["confs"])
    except Exception as error:
        answers.say(failed=reason(error))
        return 1
    context = spark.sparkContext
    records.application = str(context.applicationId)
    answers.say(ready={"application": records.application, "cores": context.defaultParallelism})
    _sign_of_life(answers)
    application = Application(spark, answers)
    for line in calls:
        message = json.loads(line)
        application.start(message["id"], HeavyCall.from_dict(message["call"]))
    application.end()
    return 0


def main() -> int:
    """Serve the pipes of the service. Other output to stdout, such as that of Java, goes to stderr."""
    calls = os.fdopen(os.dup(0), encoding="utf-8")
    answers = Answers(os.fdopen(os.dup(1), "w", encoding="utf-8"))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    try:
        return serve(calls, answers)
    finally:
        end_java()


if __name__ == "__main__":
    sys.exit(main())
