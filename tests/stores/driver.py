"""A second driver: ``python -m tests.stores.driver <json>``, a process of its own with its own session.

It prints ``ready`` and the number of its JVM's process, waits for a line, does its errand, and prints ``done`` or the
error.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.stores.session import Places

_HOME = Path(__file__).parents[2]
_WAIT = 300  # seconds for an answer: a start of Spark on a busy machine


@dataclass(frozen=True)
class Errand:
    """What to do on a table: ``append`` rows by Spark, or ``recluster`` it and die at a phase of the observer."""

    places: Places
    sql: str
    act: str
    times: int = 1
    log_store: str = ""
    phase: str = ""


@dataclass
class Driver:
    """A running second driver."""

    process: subprocess.Popen[str]
    java: int = 0

    def go(self) -> None:
        """Start its errand."""
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def wait_for(self, word: str) -> str:
        """The rest of the next line that begins with ``word``. Raises AssertionError if the process ends first."""
        assert self.process.stdout is not None
        seen = []
        for line in self.process.stdout:
            seen.append(line)
            if line.startswith(word):
                return line.removeprefix(word).strip()
        raise AssertionError(f"the second driver ended: {''.join(seen)}")

    def kill(self) -> None:
        """End it at once, JVM first."""
        os.kill(self.java, signal.SIGKILL)
        self.process.kill()

    def running(self) -> bool:
        """Whether it still runs."""
        return self.process.poll() is None

    def ended(self) -> int:
        """Its exit code."""
        return self.process.wait(_WAIT)


@contextmanager
def second_driver(errand: Errand) -> Iterator[Driver]:
    """A second driver that is ready."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.stores.driver", json.dumps(asdict(errand))],
        cwd=_HOME,
        env={**os.environ, "PYTHONPATH": f"{_HOME}{os.pathsep}{_HOME / 'adapters'}"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        driver = Driver(process)
        driver.java = int(driver.wait_for("ready"))
        yield driver
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()


def main(errand: Errand) -> None:
    from tests.stores.log_stores import use_log_store
    from tests.stores.session import stores_session

    spark = stores_session(errand.places)
    if errand.log_store:
        use_log_store(spark, errand.log_store)
    spark.range(1).count()
    gateway: Any = spark.sparkContext._gateway
    print(f"ready {gateway.proc.pid}", flush=True)
    sys.stdin.readline()
    try:
        _recluster(spark, errand) if errand.act == "recluster" else _append(spark, errand)
    except Exception as error:
        print(f"failed {type(error).__name__}: {str(error)[:2000]!r}", flush=True)
    else:
        print("done", flush=True)
    spark.stop()


def _append(spark: Any, errand: Errand) -> None:
    rows = spark.range(1_000, 1_010, 1, numPartitions=1)
    rows = rows.selectExpr("id", "cast(id % 101 AS int) AS k", "concat('v', id) AS v")
    for _ in range(errand.times):
        rows.writeTo(errand.sql).append()


def _recluster(spark: Any, errand: Errand) -> None:
    import lakekeeper as lk

    java = spark.sparkContext._gateway.proc.pid

    def die(phase: str, _: Any) -> None:
        if phase == errand.phase:
            os.kill(java, signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)

    options = {"commit.quiet-window-ms": 0, "single-driver": True}
    lk.table(spark, errand.sql).recluster("k", policy="full", observer=die, options=options)


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    main(Errand(**given | {"places": Places(**given["places"])}))
