"""The cost of merging a byte: core-seconds and wall seconds of the natives, both of our paths, DuckDB and Polars.

    python -m tests.bench.merge [--mb 400] [--inputs unsorted,sorted] [--formats delta,iceberg] [--runs 1]
                                [--wide] [--nested] [--cluster] [--warm-ups 2] [--warm-up-mb 200]

All merge the same rows: ten files of six columns, by one BIGINT key of random values, into files compressed by zstd;
``--wide`` has 100 columns, and ``--nested`` a struct, a list and a map more. Core-seconds are the CPU of the driver,
the JVM and all Python workers; ``--cluster`` runs a standalone cluster of two workers with a core each. Each contestant
first merges a table of ``--warm-up-mb``, ``--warm-ups`` times. A few thousand rows do not warm up a JVM: in the
measured run, it (on a cluster, each of three) would still compile code and touch parts of its heap for the first time.
DuckDB and Polars run if they are installed; Polars, which sorts in memory, only up to 1,500 MB.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import lakekeeper as lk
from lakekeeper.core.text.formatting import table as page
from tests.bench.processes import Cpu, cpu, peak_of_workers_mb
from tests.cluster.standalone import cluster

FILES = 10
ROW_BYTES = {"narrow": 19, "wide": 410, "nested": 40}  # compressed
_DUCKDB_MEMORY = "8GB"  # beside a cluster, its default of 80% of the machine has the kernel kill the bench
POLARS_MB = 1_500  # Polars sorts in memory: at 2,600 MB it takes 20 GB, and the kernel kills the bench


@dataclass
class Cost:
    inputs: str
    name: str
    mb: float
    cpu: Cpu = field(default_factory=Cpu)
    wall: float = 0.0
    files: int = 0
    peak: int = 0

    def row(self) -> list[str]:
        per_mb = [f"{1000 * x / self.mb:.1f}" for x in (self.cpu.total, self.wall)]
        shares = [f"{x:.1f}" for x in (self.cpu.total, self.cpu.jvm, self.cpu.workers, self.cpu.kernel)]
        peak = f"{self.peak:,}" if self.peak else ""
        return [
            self.inputs,
            self.name,
            f"{self.mb:.0f}",
            *shares,
            f"{self.wall:.1f}",
            *per_mb,
            str(self.files),
            peak,
        ]


@contextmanager
def measured(inputs: str, name: str, mb: float, into: list[Cost]) -> Iterator[Cost]:
    gc.collect()
    cost = Cost(inputs, name, mb)
    before, wall = cpu(), time.perf_counter()
    yield cost
    cost.wall, cost.cpu = time.perf_counter() - wall, cpu() - before
    into.append(cost)
    print(*cost.row(), sep="  ", flush=True)


@dataclass
class Bench:
    spark: Any
    root: Path
    shape: str = "narrow"

    def rows(self, number: int, rows: int, order: str) -> Any:
        """The rows of one input file."""
        frame = self.spark.range(0, rows, 1, 1).selectExpr(
            f"abs(xxhash64(id, {number})) % 1000000000000 AS k",
            f"timestamp_micros(1700000000000000 + id * 1000 + xxhash64(id, 1, {number}) % 1000) AS at",
            f"100 + (xxhash64(id, 2, {number}) % 1000000) / 7 AS amount",
            f"int(abs(xxhash64(id, 3, {number})) % 50) AS qty",
            f"concat('customer ', lpad(abs(xxhash64(id, 4, {number})) % 20000, 6, '0')) AS who",
            f"cast(abs(xxhash64(id, 5, {number})) % 10000000 / 100 AS decimal(18,2)) AS price",
            *_MORE[self.shape](number),
        )
        return frame.sortWithinPartitions("k") if order == "sorted" else frame

    def delta(self, name: str, rows: int, order: str) -> Path:
        place = self.root / f"{name}-{order}-{uuid.uuid4().hex}"
        # Version 0, so that the last input writes the checkpoint of version 10, and no contestant does.
        self.rows(0, 1, order).limit(0).write.format("delta").save(str(place))
        for number in range(FILES):
            frame = self.rows(number, rows // FILES, order)
            frame.write.format("delta").mode("append").option("compression", "zstd").save(str(place))
        return place

    def iceberg(self, name: str, rows: int, order: str) -> str:
        table = f"ice.db.{name}_{order}"
        self.spark.sql(f"DROP TABLE IF EXISTS {table}")
        self.rows(0, 1, order).limit(0).writeTo(table).using("iceberg").create()
        for number in range(FILES):
            self.rows(number, rows // FILES, order).writeTo(table).append()
        return table

    def of_delta(self, inputs: str, rows: int, found: list[Cost]) -> None:
        origin = self.delta(f"d{rows}", rows, inputs)
        data = sorted(path for path in origin.glob("*.parquet") if pq.read_metadata(path).num_rows)
        mb = sum(path.stat().st_size for path in data) / 1e6

        def native(place: Path) -> None:
            self.spark.sql(f"OPTIMIZE delta.`{place}` ZORDER BY (k)").collect()

        runs: list[tuple[str, Callable[[Path], None]]] = [("Delta OPTIMIZE ZORDER", native)]
        runs += [(f"Delta, {name}", self.ours(engine)) for name, engine in _PATHS]
        for name, run in runs:
            place = self.root / "copy"
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(origin, place)
            with measured(inputs, name, mb, found) as cost:
                run(place)
            cost.files = len(self.spark.read.format("delta").load(str(place)).inputFiles())
            cost.peak = peak_of_workers_mb() if "columns" in name else 0
        for name, run_alone in alone():
            if name == "Polars" and mb > POLARS_MB:
                continue
            with measured(inputs, name, mb, found) as cost:
                cost.files = run_alone([str(path) for path in data], self.root / "alone")
        shutil.rmtree(origin)

    def of_iceberg(self, inputs: str, rows: int, found: list[Cost]) -> None:
        table = self.iceberg(f"i{rows}", rows, inputs)
        first = self.spark.sql(f"SELECT sum(file_size_in_bytes) b FROM {table}.files").first()
        start = self.spark.sql(
            f"SELECT snapshot_id FROM {table}.snapshots ORDER BY committed_at DESC"
        ).first()[0]

        def native(name: str) -> None:
            self.spark.sql(
                f"CALL ice.system.rewrite_data_files(table => '{name}', strategy => 'sort', sort_order => "
                "'k ASC NULLS FIRST', options => map('rewrite-all', 'true', 'target-file-size-bytes', '134217728'))"
            ).collect()

        runs: list[tuple[str, Callable[[Any], None]]] = [("Iceberg sort", native)]
        runs += [(f"Iceberg, {name}", self.ours(engine)) for name, engine in _PATHS]
        for name, run in runs:
            with measured(inputs, name, first["b"] / 1e6, found) as cost:
                run(table)
            cost.files = self.spark.sql(f"SELECT count(*) FROM {table}.files").first()[0]
            cost.peak = peak_of_workers_mb() if "columns" in name else 0
            self.spark.sql(f"CALL ice.system.rollback_to_snapshot('{table}', {start})").collect()

    def ours(self, engine: str) -> Callable[[Any], None]:
        def run(table: Any) -> None:
            opened = lk.table(self.spark, str(table))
            report = opened.recluster("k", policy="full", options={"merge-engine": engine})
            assert report.changed, report
            assert [group.detail for group in report.groups] == [None], report.to_dict()

        return run


def _wide(number: int) -> list[str]:
    """94 columns: text of ten random digits, text that repeats, doubles, and small numbers."""
    kinds = (
        "lpad(abs(xxhash64(id, {seed})) % 10000000000, 10, '0')",
        "concat('city ', abs(xxhash64(id, {seed})) % 4000)",
        "xxhash64(id, {seed}) / 7",
        "int(abs(xxhash64(id, {seed})) % 1000)",
    )
    return [f"{kinds[c % 4].format(seed=1_000 * number + c)} AS c{c}" for c in range(94)]


def _nested(number: int) -> list[str]:
    digits = f"cast(abs(xxhash64(id, 7, {number})) % 1000000 AS string)"
    at = "timestamp_micros(1700000000000000 + id)"
    return [
        f"named_struct('x', xxhash64(id, 6, {number}) / 7, 'at', {at}, 'tag', {digits}) AS s",
        "transform(sequence(1, int(id % 5) + 1), i -> i * (id % 1000)) AS l",
        f"map('a', {digits}, 'b', 'x') AS m",
    ]


_MORE: dict[str, Callable[[int], list[str]]] = {"narrow": lambda _: [], "wide": _wide, "nested": _nested}
_PATHS = (("by rows", "spark"), ("by columns", "auto"))


def alone() -> list[tuple[str, Callable[[Sequence[str], Path], int]]]:
    """Columnar engines without Spark, if installed: read, sort, write."""
    found: list[tuple[str, Callable[[Sequence[str], Path], int]]] = []
    if importlib.util.find_spec("duckdb"):
        found.append(("DuckDB", _duckdb))
    if importlib.util.find_spec("polars"):
        found.append(("Polars", _polars))
    return found


def _duckdb(paths: Sequence[str], out: Path) -> int:
    import duckdb  # installed for this bench only

    shutil.rmtree(out, ignore_errors=True)
    duckdb.sql(f"SET memory_limit = '{_DUCKDB_MEMORY}'")
    duckdb.sql(
        f"COPY (FROM read_parquet({list(paths)}) ORDER BY k) TO '{out}.parquet' (FORMAT parquet, CODEC zstd)"
    )
    return 1


def _polars(paths: Sequence[str], out: Path) -> int:
    import polars as pl  # installed for this bench only

    pl.read_parquet(list(paths)).sort("k").write_parquet(f"{out}.parquet", compression="zstd")
    return 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=int, default=400)
    parser.add_argument("--inputs", default="unsorted,sorted")
    parser.add_argument("--formats", default="delta,iceberg")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--memory", default="3g", help="memory of the driver")
    parser.add_argument("--wide", dest="shape", action="store_const", const="wide", default="narrow")
    parser.add_argument("--nested", dest="shape", action="store_const", const="nested")
    parser.add_argument("--cluster", action="store_true")
    parser.add_argument("--warm-ups", type=int, default=2)
    parser.add_argument("--warm-up-mb", type=int, default=200)
    given = parser.parse_args()
    from lakekeeper.spark.session import local_session

    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="lakekeeper-merge-"))
        # All write the codec of the inputs. Delta's OPTIMIZE takes that of the session, by default snappy.
        conf = {"spark.driver.memory": given.memory, "spark.sql.parquet.compression.codec": "zstd"}
        master = "local[2]"
        if given.cluster:
            master = stack.enter_context(cluster(Path(folder), memory=given.memory)).master
            conf["spark.executor.memory"] = given.memory
        spark = local_session(
            warehouse=Path(folder),
            app_name="merge",
            catalogs={"ice": f"jdbc:sqlite:{folder}/ice.db"},
            conf=conf,
            master=master,
        )
        spark.sparkContext.setLogLevel("OFF")
        spark.sql("CREATE NAMESPACE IF NOT EXISTS ice.db")
        bench = Bench(spark, Path(folder), given.shape)
        found: list[Cost] = []

        def rows(mb: int) -> int:
            return mb * 1_000_000 // ROW_BYTES[given.shape]

        for inputs in given.inputs.split(","):
            for name in given.formats.split(","):
                run = getattr(bench, f"of_{name}")
                for _ in range(given.warm_ups):
                    run(inputs, rows(given.warm_up_mb), [])
                for _ in range(given.runs):
                    run(inputs, rows(given.mb), found)
        spark.stop()
    head = [
        "inputs",
        "merge",
        "MB",
        "core-s",
        "of JVM",
        "of workers",
        "of kernel",
        "wall s",
        "core-ms/MB",
        "wall ms/MB",
        "files",
        "worker MB",
    ]
    print(page([head, *(cost.row() for cost in found)], right=frozenset(range(2, 12))))


if __name__ == "__main__":
    main()
