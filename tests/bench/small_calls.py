"""The cost of a call on a table of a few megabytes, beside the equivalent native call.

    python -m tests.bench.small_calls [--formats delta,iceberg] [--verbs recluster,compact,merge_deletes] [--runs 5]
        [--files 12] [--rows 20000]

The table has twelve files of 20,000 rows that all span the key; for ``merge_deletes`` a hundredth of its rows are
deleted by deletion vectors or position deletes. Both run in turn on the same state, warm. Shown are medians: wall
seconds, core-seconds of the driver, the JVM and the Python workers, and Spark jobs. With ``--files 100 --rows 100000``,
the table has 430 MB (Delta) or 240 MB (Iceberg).
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import lakekeeper as lk
from lakekeeper.core.text.formatting import table as page
from tests.bench.processes import Cpu, cpu

WARM_UPS = 4
VERBS = ("recluster", "compact", "merge_deletes")


@dataclass
class Calls:
    """The calls of one contestant."""

    name: str
    walls: list[float] = field(default_factory=list)
    used: list[Cpu] = field(default_factory=list)
    jobs: list[int] = field(default_factory=list)

    def row(self) -> list[str]:
        parts = (
            median(getattr(each, part) for each in self.used)
            for part in ("total", "driver", "jvm", "workers")
        )
        return [
            self.name,
            f"{median(self.walls):.2f}",
            *(f"{x:.2f}" for x in parts),
            f"{median(self.jobs):.0f}",
        ]


@dataclass
class Bench:
    spark: Any
    root: Path
    files: int
    rows: int

    def jobs(self) -> int:
        """Spark jobs so far."""
        context = self.spark.sparkContext._jsc.sc()
        context.listenerBus().waitUntilEmpty()
        return int(context.statusStore().jobsList(None).size())

    def measure(self, calls: Calls, run: Callable[[], object]) -> None:
        jobs, before, wall = self.jobs(), cpu(), time.perf_counter()
        run()
        calls.walls.append(time.perf_counter() - wall)
        calls.used.append(cpu() - before)
        calls.jobs.append(self.jobs() - jobs)

    def fill(self, name: str, verb: str) -> None:
        for number in range(self.files):
            self.spark.range(0, self.rows, 1, 1).selectExpr(
                f"abs(xxhash64(id, {number})) % 1000000000 AS k",
                f"id + {number * self.rows} AS id",
                f"md5(string(id * {number + 1})) AS v",
            ).writeTo(name).append()
        if verb == "merge_deletes":
            self.spark.sql(f"DELETE FROM {name} WHERE id % 100 = 7").collect()

    def delta(self, verb: str) -> Iterator[tuple[str, Callable[[], object]]]:
        """Contestants of one verb, each on a fresh copy of the table."""
        origin = self.root / f"delta-{verb}"
        self.spark.sql(
            f"CREATE TABLE d_{verb} (k BIGINT, id BIGINT, v STRING) USING delta LOCATION '{origin}' "
            "TBLPROPERTIES ('delta.enableDeletionVectors'='true')"
        )
        self.fill(f"spark_catalog.default.d_{verb}", verb)

        def on_a_copy(run: Callable[[str], object]) -> Callable[[], object]:
            place = self.root / "copies" / f"{time.monotonic_ns()}"
            shutil.copytree(origin, place)
            return lambda: run(str(place))

        statement = {
            "recluster": "OPTIMIZE delta.`{}` ZORDER BY (k)",
            "compact": "OPTIMIZE delta.`{}`",
            "merge_deletes": "REORG TABLE delta.`{}` APPLY (PURGE)",
        }[verb]
        while True:
            yield "native", on_a_copy(lambda place: self.spark.sql(statement.format(place)).collect())
            yield "lakekeeper", on_a_copy(lambda place: self.ours(place, verb))

    def iceberg(self, verb: str) -> Iterator[tuple[str, Callable[[], object]]]:
        """Contestants of one verb; the table is rolled back before each."""
        name = f"ice.db.i_{verb}"
        self.spark.sql(
            f"CREATE TABLE {name} (k BIGINT, id BIGINT, v STRING) USING iceberg "
            "TBLPROPERTIES ('format-version'='2', 'write.delete.mode'='merge-on-read')"
        )
        self.fill(name, verb)
        start = self.spark.sql(
            f"SELECT snapshot_id FROM {name}.history ORDER BY made_current_at DESC"
        ).first()[0]
        given = {
            "recluster": "strategy => 'sort', sort_order => 'k', options => map('rewrite-all', 'true')",
            "compact": "options => map('min-input-files', '2')",
            "merge_deletes": "options => map('delete-file-threshold', '1')",
        }[verb]

        def back(run: Callable[[], object]) -> Callable[[], object]:
            self.spark.sql(f"CALL ice.system.rollback_to_snapshot('{name}', {start})").collect()
            return run

        call = f"CALL ice.system.rewrite_data_files(table => '{name}', {given})"
        while True:
            yield "native", back(lambda: self.spark.sql(call).collect())
            yield "lakekeeper", back(lambda: self.ours(name, verb))

    def ours(self, name: str, verb: str) -> None:
        table = lk.table(self.spark, name)
        if verb == "recluster":
            report = table.recluster("k", policy="full")
        elif verb == "compact":
            report = table.compact(options={"min-input-files": 2})
        else:
            report = table.merge_deletes(options={"delete-ratio-threshold": 0.0})
        assert report.changed, report

    def run(self, format_: str, verb: str, runs: int) -> list[Calls]:
        found = {name: Calls(name) for name in ("native", "lakekeeper")}
        turns = getattr(self, format_)(verb)
        for turn in range(2 * (WARM_UPS + runs)):
            name, run = next(turns)
            self.measure(found[name] if turn >= 2 * WARM_UPS else Calls(name), run)
        return list(found.values())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--formats", default="delta,iceberg")
    parser.add_argument("--verbs", default=",".join(VERBS))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--files", type=int, default=12)
    parser.add_argument("--rows", type=int, default=20_000, help="rows of a file")
    given = parser.parse_args()
    from lakekeeper.spark.session import local_session

    head = ["table", "verb", "call", "wall s", "core-s", "driver", "JVM", "workers", "jobs"]
    rows = [head]
    with tempfile.TemporaryDirectory(prefix="lakekeeper-small-") as folder:
        spark = local_session(
            warehouse=Path(folder),
            app_name="small calls",
            catalogs={"ice": f"jdbc:sqlite:{folder}/ice.db"},
            master="local[2]",
        )
        spark.sparkContext.setLogLevel("OFF")
        spark.sql("CREATE NAMESPACE IF NOT EXISTS ice.db")
        bench = Bench(spark, Path(folder), given.files, given.rows)
        for format_ in given.formats.split(","):
            for verb in given.verbs.split(","):
                for calls in bench.run(format_, verb, given.runs):
                    rows.append([format_, verb, *calls.row()])
                    print(*rows[-1], sep="  ", flush=True)
        spark.stop()
    print(page(rows, right=frozenset(range(3, 9))))


if __name__ == "__main__":
    main()
