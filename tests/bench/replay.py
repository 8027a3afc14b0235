"""The cost of a race: replay against rewrite, few lost rows against many rows, and a stream of deletes.

    python -m tests.bench.replay [cost] [points] [stream] [--rows N,N] [--calls N] [--kinds delta,iceberg-v3-copies]

``cost``    one recluster for each kind: wall seconds of the rewrite, of the replay of a DELETE of 1% of the rows just
            before its commit, and their ratio
``points``  seconds of the replay of five deleted rows, for tables of two sizes, and their ratio
``stream``  a user repeatedly deletes five random rows; the same number of calls of the format's own rewrite and of
            ours: how many landed, and how many of the user's statements failed, with idle and with busy cores
            (``--who native,ours,lk.sql``: in the last case, the user's statements run through ``lakekeeper.sql``)
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import lakekeeper as lk

KINDS = ("delta", "delta-row-ids", "iceberg-v2", "iceberg-v3")
COPIES = "-copies"
"""Ends the name of a kind whose statements copy on write, such as ``delta-copies`` and ``iceberg-v2-copies``."""
_FILES = 20
_FEW = 5  # rows in one small delete
_BEFORE = 3  # a user's statements before the first call


@dataclass
class Lake:
    """Tables of one kind, each with ``rows`` rows in files that all span the key."""

    spark: Any
    kind: str
    rows: int
    made: int = 0

    def table(self) -> str:
        self.made += 1
        iceberg = self.kind.startswith("iceberg")
        name = f"{'ice' if iceberg else 'spark_catalog'}.bench.{self.kind.replace('-', '_')}_{self.rows}_{self.made}"
        self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {name.rpartition('.')[0]}")
        copies, kind = self.kind.endswith(COPIES), self.kind.removesuffix(COPIES)
        mode = "copy-on-write" if copies else "merge-on-read"
        properties = {"write.delete.mode": mode, "format-version": kind[-1]}
        if not iceberg:
            vectors, row_ids = (str(each).lower() for each in (not copies, kind == "delta-row-ids"))
            properties = {"delta.enableDeletionVectors": vectors, "delta.enableRowTracking": row_ids}
        listed = ", ".join(f"'{k}'='{v}'" for k, v in properties.items())
        columns = "id bigint, k bigint, a double, b string, c timestamp, d decimal(18,2), e string"
        provider = "iceberg" if iceberg else "delta"
        self.spark.sql(f"CREATE TABLE {name} ({columns}) USING {provider} TBLPROPERTIES ({listed})")
        self.spark.range(0, self.rows, 1, _FILES).selectExpr(
            "id", "pmod(hash(id), 1000000000) AS k", "cast(id * 7919 % 100003 AS double) / 7 AS a",
            "md5(cast(id AS string)) AS b",
            "timestamp_micros(id * 1000003) AS c", "cast(id % 100000 / 100 AS decimal(18,2)) AS d",
            "concat('city-', id % 4000) AS e",
        ).writeTo(name).append()  # fmt: skip
        lk.table(self.spark, name).cluster_by("k", native=not iceberg)  # OPTIMIZE uses a native key
        return name

    def drop(self, name: str) -> None:
        self.spark.sql(f"DROP TABLE {name}{' PURGE' if self.kind.startswith('iceberg') else ''}")

    def native(self, name: str) -> None:
        """The format's own rewrite of the whole table, sorted by the key."""
        if self.kind.startswith("iceberg"):
            catalog, _, rest = name.partition(".")
            self.spark.sql(
                f"CALL {catalog}.system.rewrite_data_files(table => '{rest}', strategy => 'sort', "
                "sort_order => 'k', options => map('rewrite-all', 'true'))"
            ).collect()
        else:
            self.spark.sql(f"OPTIMIZE {name} FULL").collect()  # the table has a native key, so no ZORDER BY

    def deletes_of(self, seed: int) -> Iterator[tuple[str, tuple[int, ...]]]:
        """DELETE statements of a few random rows each, for a table named ``{t}``, with the ids of these rows."""
        ids = random.Random(seed)
        while True:
            some = tuple(sorted(ids.sample(range(self.rows), _FEW)))
            yield f"DELETE FROM {{t}} WHERE id IN ({', '.join(map(str, some))})", some


@dataclass(frozen=True)
class Raced:
    """One recluster with a replay for a DELETE just before its commit: seconds of rewrite, replay and commit."""

    rewrite: float
    replay: float
    commit: float
    deleted: int


def raced(lake: Lake, name: str, where: str) -> Raced:
    """Recluster a table during a concurrent delete; the rows are counted afterwards."""
    times: dict[str, float] = {}

    def observe(phase: str, info: Mapping[str, Any]) -> None:
        if phase == "before_commit" and info["attempt"] == 0:
            times["written"] = time.monotonic()
            lake.spark.sql(f"DELETE FROM {name} WHERE {where}")
            times["deleted"] = time.monotonic()
        times.setdefault(phase, time.monotonic())

    expected = lake.spark.table(name).where(f"NOT ({where})").count()
    quiet = {"commit.quiet-window-ms": 0}
    report = lk.table(lake.spark, name).recluster(policy="full", observer=observe, options=quiet)
    if lake.spark.table(name).count() != expected or not report.replayed_rows_count:
        raise SystemExit(f"{lake.kind}: wrong rows after the replay, or none was needed:\n{report}")
    return Raced(
        times["written"] - times["planned"],
        times["conflict"] - times["deleted"],
        times["committed"] - times["conflict"],
        report.replayed_rows_count,
    )


def cost(lake: Lake) -> str:
    """One row of the first table: seconds of the rewrite, of the replay, and their ratio."""
    name = lake.table()
    seen = raced(lake, name, "pmod(hash(id, 7), 100) = 0")
    lake.drop(name)
    return (
        f"{lake.kind:<14} {seen.rewrite:>9.1f} {seen.replay:>9.2f} {seen.replay / seen.rewrite:>7.2f} "
        f"{seen.deleted:>12,}"
    )


def points(lake: Lake, times: int) -> tuple[float, float]:
    """Median seconds of the replay of a few lost rows, and of the commit after it."""
    name = lake.table()
    found = []
    for statement, _ in zip(lake.deletes_of(lake.rows), range(times), strict=False):
        found.append(raced(lake, name, statement[0].partition(" WHERE ")[2]))
    lake.drop(name)
    return median(seen.replay for seen in found), median(seen.commit for seen in found)


@dataclass
class User:
    """A user who deletes rows every ``pause`` seconds until stopped; failures are counted by class."""

    statements: Iterator[tuple[str, tuple[int, ...]]]
    delete: Callable[[str], object]
    pause: float
    done: set[int] = field(default_factory=set)
    seconds: list[float] = field(default_factory=list)
    failed: int = 0
    errors: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @contextmanager
    def running(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self.pause):
            statement, ids = next(self.statements)
            start = time.monotonic()
            try:
                self.delete(statement)
                self.done.update(ids)
            except Exception as error:
                self.failed += 1
                self.errors.add(type(error).__name__)
            self.seconds.append(time.monotonic() - start)


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Run this many processes that use all the CPU they get."""
    command = [sys.executable, "-c", "while True: pass"]
    started = [subprocess.Popen(command) for _ in range(processes)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def stream(lake: Lake, who: str, calls: int, pause: float, others: int) -> str:
    """One row of the last table: calls that landed, the user's statements and failures."""
    from pyspark.sql import functions as F

    name = lake.table()
    through = lk.sql if who.endswith("lk.sql") else lambda spark, text: spark.sql(text)
    landed, seconds, replays, errors = 0, 0.0, 0, set()
    user = User(lake.deletes_of(17), lambda text: through(lake.spark, text.replace("{t}", name)), pause)
    with ExitStack() as stack:
        stack.enter_context(busy(others))
        stack.enter_context(user.running())
        while len(user.seconds) < _BEFORE:  # a stream in progress, not one that begins with the call
            time.sleep(0.01)
        for _ in range(calls):
            start = time.monotonic()
            try:
                if who == "native":
                    lake.native(name)
                    landed += 1
                else:
                    report = lk.table(lake.spark, name).recluster(policy="full")
                    landed += bool(report.changed)
                    replays += report.conflicts
            except Exception as error:
                errors.add(type(error).__name__)
            seconds += time.monotonic() - start
    table = lake.spark.table(name)
    back = table.where(F.col("id").isin(sorted(user.done))).count() if user.done else 0
    if back or (not user.failed and table.count() != lake.rows - len(user.done)):
        raise SystemExit(f"{lake.kind}, {who}: {back} deleted rows are back, or others are gone")
    lake.drop(name)
    of = len(user.seconds)
    return (
        f"{lake.kind:<14} {lake.rows:>10,} {pause:>5} {others:>5} {who:<13} {landed:>3} of {calls:<3} "
        f"{user.failed:>5} of {of:<4} {seconds / calls:>8.1f} {replays / calls:>9.1f} "
        f"{median(user.seconds or [0]):>9.2f}"
        f"  {', '.join(sorted(user.errors))}{'; maintenance: ' + ', '.join(sorted(errors)) if errors else ''}"
    )


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", default=["cost", "points", "stream"])
    parser.add_argument("--rows", default="", help="rows of the tables; two numbers for points and stream")
    parser.add_argument("--calls", type=int, default=3)
    parser.add_argument("--pauses", default="1.0,0.3", help="seconds between the user's statements")
    parser.add_argument("--busy", default="0,2", help="numbers of other processes that take CPU")
    parser.add_argument("--who", default="native,ours")
    parser.add_argument("--kinds", default=",".join(KINDS))
    given = parser.parse_args(arguments)
    from lakekeeper.spark.session import local_session

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        spark = local_session(
            app_name="replay",
            warehouse=place,
            catalogs={"ice": f"jdbc:sqlite:{place}/ice.db"},
            master="local[2]",
        )
        spark.sparkContext.setLogLevel("OFF")
        kinds = given.kinds.split(",")
        sizes = [int(n) for n in given.rows.split(",") if n]
        if "cost" in given.parts:
            _costs(spark, kinds, sizes or [3_000_000])
        if "points" in given.parts:
            _points(spark, kinds, sizes or [100_000, 10_000_000], given.calls)
        if "stream" in given.parts:
            _streams(spark, kinds, sizes or [1_000_000, 10_000_000], given)
        spark.stop()


def _costs(spark: Any, kinds: list[str], sizes: list[int]) -> None:
    print(f"{'kind':<14} {'rewrite s':>9} {'replay s':>9} {'ratio':>7} {'deleted rows':>12}", flush=True)
    for kind in kinds:
        for rows in sizes:
            cost(Lake(spark, kind, rows // 20))  # warms up the JVM, for the rewrite too
            print(cost(Lake(spark, kind, rows)), flush=True)


def _points(spark: Any, kinds: list[str], sizes: list[int], times: int) -> None:
    print(f"\n{'kind':<14} {'rows':>10} {'replay s':>9} {'commit s':>9} {'ratio':>7}", flush=True)
    for kind in kinds:
        points(Lake(spark, kind, sizes[0], made=100), 2)
        first = 0.0
        for rows in sizes:
            replay, commit = points(Lake(spark, kind, rows), times)
            first = first or replay
            print(f"{kind:<14} {rows:>10,} {replay:>9.3f} {commit:>9.3f} {replay / first:>7.2f}", flush=True)


def _streams(spark: Any, kinds: list[str], sizes: list[int], given: argparse.Namespace) -> None:
    print(
        f"\n{'kind':<14} {'rows':>10} {'pause':>5} {'busy':>5} {'maintenance':<13} {'landed':>8} "
        f"{'failed statements':>15} {'s a call':>8} {'conflicts':>9} {'s a stmt':>9}",
        flush=True,
    )
    for kind in kinds:
        warm = Lake(spark, kind, min(sizes) // 10, made=100)
        for who in ("native", "ours"):
            stream(warm, who, 1, 0.3, 0)
        for rows in sizes:
            for others in map(int, given.busy.split(",")):
                for pause in map(float, given.pauses.split(",")):
                    for who in given.who.split(","):
                        print(stream(Lake(spark, kind, rows), who, given.calls, pause, others), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
