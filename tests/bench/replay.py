"""What a race costs: replaying 1 % deleted rows against redoing the rewrite; and who survives a stream of deletes.

    python tests/bench/replay.py [cost] [stream] [--rows N] [--calls N] [--kinds delta,iceberg-v3]

``cost``: one recluster for each kind, wall seconds of the rewrite and of the replay that a DELETE in its last moment
makes necessary, and their ratio. ``stream``: somebody deletes a few rows every few seconds; the same number of calls of
the format's own rewrite and of ours: how many landed, and how many of the user's statements failed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lakekeeper as lk

KINDS = ("delta", "delta-row-ids", "iceberg-v2", "iceberg-v3")
_FILES = 16


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
        name = f"{'ice' if iceberg else 'spark_catalog'}.bench.{self.kind.replace('-', '_')}_{self.made}"
        self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {name.rpartition('.')[0]}")
        properties = {"write.delete.mode": "merge-on-read", "format-version": self.kind[-1]}
        if not iceberg:
            row_ids = str(self.kind == "delta-row-ids").lower()
            properties = {"delta.enableDeletionVectors": "true", "delta.enableRowTracking": row_ids}
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
        lk.table(self.spark, name).cluster_by("k")
        return name

    def native(self, name: str) -> None:
        """The format's own rewrite of everything, sorted by the key."""
        if self.kind.startswith("iceberg"):
            catalog, _, rest = name.partition(".")
            self.spark.sql(
                f"CALL {catalog}.system.rewrite_data_files(table => '{rest}', strategy => 'sort', "
                "sort_order => 'k', options => map('rewrite-all', 'true'))"
            ).collect()
        else:
            self.spark.sql(f"OPTIMIZE {name} FULL").collect()  # the key is the table's own, so no ZORDER BY


def cost(lake: Lake) -> str:
    """One row of the first table: seconds of the rewrite, of the replay, and their ratio."""
    name = lake.table()
    times: dict[str, float] = {}

    def observe(phase: str, info: Mapping[str, Any]) -> None:
        if phase == "before_commit" and info["attempt"] == 0:
            times["written"] = time.monotonic()
            lake.spark.sql(f"DELETE FROM {name} WHERE pmod(hash(id, 7), 100) = 0")
            times["deleted"] = time.monotonic()
        times.setdefault(phase, time.monotonic())

    expected = lake.rows - lake.spark.table(name).where("pmod(hash(id, 7), 100) = 0").count()
    quiet = {"commit.quiet-window-ms": 0}
    report = lk.table(lake.spark, name).recluster(policy="full", observer=observe, options=quiet)
    if lake.spark.table(name).count() != expected or not report.replayed_rows_count:
        raise SystemExit(f"{lake.kind}: wrong rows after the replay, or none was needed:\n{report}")
    rewrite, replay = times["written"] - times["planned"], times["conflict"] - times["deleted"]
    deleted = report.replayed_rows_count
    return f"{lake.kind:<14} {rewrite:>9.1f} {replay:>9.1f} {replay / rewrite:>7.2f} {deleted:>12,}"


@dataclass
class Stream:
    """A user who deletes some ids every ``pause`` seconds until told to stop; failures are counted by class."""

    delete: Callable[[int], object]
    pause: float
    done: list[int] = field(default_factory=list)
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
        number = 0
        while not self._stop.wait(self.pause):
            number += 1
            try:
                self.delete(number)
                self.done.append(number)
            except Exception as error:
                self.failed += 1
                self.errors.add(type(error).__name__)


def stream(lake: Lake, who: str, calls: int) -> str:
    """One row of the second table: calls that landed, the user's statements and failures."""
    from pyspark.sql import functions as F

    name = lake.table()
    statement = f"DELETE FROM {name} WHERE id % 100003 = {{}}"
    through = lk.sql if who.endswith("lk.sql") else lambda spark, text: spark.sql(text)
    landed, seconds = 0, 0.0
    user = Stream(lambda n: through(lake.spark, statement.format(n)), pause=3.0)
    with user.running():
        for _ in range(calls):
            start = time.monotonic()
            try:
                if who == "native":
                    lake.native(name)
                    landed += 1
                else:
                    landed += bool(lk.table(lake.spark, name).recluster(policy="full").changed)
            except Exception as error:
                user.errors.add(f"maintenance: {type(error).__name__}")
            seconds += time.monotonic() - start
    gone = lake.spark.table(name).where(F.expr("id % 100003").isin(user.done)).count()
    if gone:
        raise SystemExit(f"{lake.kind}, {who}: {gone} deleted rows are back")
    of = len(user.done) + user.failed
    return (
        f"{lake.kind:<14} {who:<14} {landed:>3} of {calls:<3} {user.failed:>6} of {of:<4} {seconds / calls:>8.1f}  "
        f"{', '.join(sorted(user.errors))}"
    )


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", default=["cost", "stream"])
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--calls", type=int, default=5)
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
        if "cost" in given.parts:
            print(
                f"{'kind':<14} {'rewrite s':>9} {'replay s':>9} {'ratio':>7} {'deleted rows':>12}", flush=True
            )
            for kind in kinds:
                cost(
                    Lake(spark, kind, given.rows // 20, made=100)
                )  # warms the JVM up, for the rewrite as well
                print(cost(Lake(spark, kind, given.rows)), flush=True)
        if "stream" in given.parts:
            print(
                f"\n{'kind':<14} {'maintenance':<14} {'landed':>8} {'failed statements':>15} {'s a call':>8}",
                flush=True,
            )
            for kind in [k for k in kinds if k != "delta-row-ids"]:
                for who in ("native", "ours", "ours, lk.sql"):
                    print(stream(Lake(spark, kind, given.rows, made=len(who)), who, given.calls), flush=True)
        spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
