"""What the listeners of ``lk.install(spark)`` cost the queries of an application.

    python -m tests.bench.listener [--rounds 12] [--points 40] [--scans 3]

A block is a number of point queries and of scans with an aggregation, on a Delta and on an Iceberg table of the same
rows, warm. Blocks alternate with (A) and without (B) the listeners, ABBA, so that drift affects both. Two figures are
shown:

paired      CPU of JVM and Python, and wall time, of each A relative to the adjacent B: the median, and the middle half
measured    CPU of the threads that run the listeners: the thread of Spark's bus that calls them, minus its own work in
            the blocks B, and the Python threads that py4j calls; as a share of all CPU of the blocks B
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from lakekeeper.spark.query_listener import Listening
from lakekeeper.spark.query_sampling import Sampling
from lakekeeper.spark.session import local_session
from lakekeeper.spark.stream_listener import StreamWrites
from tests.bench.processes import cpu

FILES, ROWS = 10, 1_000_000
WARM_UPS = 3
BUS = "spark-listener-group-shared"


@dataclass(frozen=True)
class Block:
    """One block: wall seconds, all CPU seconds, and those of the listener threads (JVM, Python)."""

    wall: float
    used: float
    bus: float
    python: float


class Bench:
    """A session with both tables."""

    def __init__(self, spark: Any, root: Path, points: int, scans: int) -> None:
        self._spark, self._points, self._scans = spark, points, scans
        self._threads = spark._jvm.java.lang.management.ManagementFactory.getThreadMXBean()
        self._tables = (f"delta.`{root}/delta`", "ice.db.t")
        self._next = 0
        self._sampling = Sampling()  # after the warm-up, past the queries that are always read
        rows = spark.range(0, ROWS, 1, FILES).selectExpr(
            "id", "id % 1000 AS k", "sha1(cast(id AS STRING)) AS v"
        )
        rows.write.format("delta").save(f"{root}/delta")
        spark.sql("CREATE NAMESPACE IF NOT EXISTS ice.db")
        rows.writeTo("ice.db.t").using("iceberg").create()
        self.seen = 0

    @contextmanager
    def listening(self) -> Iterator[None]:
        """The listeners of an installed lakekeeper, without its passes."""
        listening = Listening(self._spark, sampling=self._sampling)
        streams = StreamWrites(self._spark, _ignored)
        listening.report_writes(_ignored)
        try:
            yield
            self._settle()
        finally:
            listening.report_writes(None)
            streams.stop()
            self.seen += listening.seen
            assert not listening.failed

    def block(self) -> Block:
        """Run the queries of one block."""
        self._settle()
        wall, used, bus, python = time.monotonic(), cpu(), self._bus(), _others()
        for table in self._tables:
            for _ in range(self._points):
                self._next = (self._next + 7_919) % ROWS
                self._spark.sql(f"SELECT v FROM {table} WHERE id = {self._next}").collect()
            for _ in range(self._scans):
                self._spark.sql(f"SELECT k, count(*), max(v) FROM {table} GROUP BY k").collect()
        took = time.monotonic() - wall
        self._settle()
        spent = cpu() - used
        return Block(took, spent.jvm + spent.driver, self._bus() - bus, _others() - python)

    def _settle(self) -> None:
        self._spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()

    def _bus(self) -> float:
        """CPU of the thread that calls listeners."""
        found = 0
        for info in self._threads.getThreadInfo(self._threads.getAllThreadIds()):
            if info is not None and str(info.getThreadName()) == BUS:
                found += int(self._threads.getThreadCpuTime(info.getThreadId()))
        return found / 1e9


def _ignored(_text: str) -> None:
    """Writes start no pass here."""


def _others() -> float:
    """CPU of all threads of this process except the one that runs the queries."""
    own, total = threading.get_native_id(), 0
    for task in Path("/proc/self/task").iterdir():
        if int(task.name) != own:
            total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


def _spread(values: list[float]) -> str:
    low, _, high = quantiles(values, n=4)
    return f"{100 * (median(values) - 1):+.1f} % (middle half {100 * (low - 1):+.1f} to {100 * (high - 1):+.1f} %)"


def main(arguments: list[str]) -> None:
    """Print both figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--points", type=int, default=40)
    parser.add_argument("--scans", type=int, default=3)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        spark = local_session(
            app_name="lakekeeper-listener", master="local[2]", catalogs={"ice": f"jdbc:sqlite:{root}/ice.db"}
        )
        bench = Bench(spark, root, given.points, given.scans)
        for _ in range(WARM_UPS):
            with bench.listening():
                bench.block()
            bench.block()
        bench.seen = 0
        attached: list[Block] = []
        plain: list[Block] = []
        for number in range(given.rounds):
            for kind in "ABBA" if number % 2 == 0 else "BAAB":
                if kind == "A":
                    with bench.listening():
                        attached.append(bench.block())
                else:
                    plain.append(bench.block())
        spark.stop()
    _print(attached, plain, given, bench.seen)


def _print(attached: list[Block], plain: list[Block], given: Any, seen: int) -> None:
    queries = 2 * (given.points + given.scans)
    pairs = list(zip(attached, plain, strict=True))
    base = sum(each.used for each in plain)
    bus = sum(a.bus for a in attached) - sum(b.bus for b in plain)
    python = sum(a.python for a in attached) - sum(b.python for b in plain)
    print(
        f"{len(pairs)} pairs of blocks of {queries} queries; {seen} scans were seen; {os.cpu_count()} cores"
    )
    print(f"a query without the listeners: {1000 * base / len(plain) / queries:.1f} CPU-ms")
    print(f"paired, CPU:  {_spread([a.used / b.used for a, b in pairs])}")
    print(f"paired, wall: {_spread([a.wall / b.wall for a, b in pairs])}")
    each = 1000 / len(attached) / queries
    print(
        f"measured: {100 * (bus + python) / base:.2f} % of CPU; "
        f"a query: {bus * each:.2f} ms in the JVM, {python * each:.2f} ms in Python"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
