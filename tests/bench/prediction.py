"""How well files per query are predicted: against the files that Spark reports, on real tables of both formats.

    python -m tests.bench.prediction [--formats delta,iceberg] [--streams wide,nulls,…] [--commits 60] [--file-mb 0.25]

The streams of the ingest benchmark, and three more made of ``wide`` (``SHAPES``): eight partitions, a key of which a
third is NULL, and a Hilbert curve over two columns. The default policy maintains them after each tenth commit. Before
the last maintenance, queries are observed, and a plan is made for them and executed; then the same queries run again.
Three predictions are compared with the scans' own metrics ("number of files read", "result data files"):

    now        each query on the table as it is, from the bounds of its files
    after      the mean over the queries after the plan is executed, as the plan predicted it
    no log     the mean of the 1% ranges on the table as it is, by a plan without a workload
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import lakekeeper as lk
from lakekeeper.core.cost.prediction import files_predicted
from lakekeeper.core.cost.reads import reads_of
from lakekeeper.core.simulation.commit_streams import STREAMS
from lakekeeper.core.workload.workload import Workload
from lakekeeper.engine.merge.planning import look
from lakekeeper.engine.merge.request import Request
from lakekeeper.spark.identifiers import aliases, resolve
from lakekeeper.spark.query_listener import Listening
from lakekeeper.spark.query_sampling import Sampling
from lakekeeper.spark.session import local_session
from tests.bench.ingest import MB, Runner
from tests.bench.inputs import Inputs, write_inputs
from tests.opening import adapter_of

QUERIES, EVERY = 60, 10
_SPREAD = "(xxhash64(id) & 1048575) / 1048576D"


@dataclass(frozen=True)
class Shape:
    """A table made of the rows of a stream, and its queries.

    columns     SQL of its columns, over those of the input
    clause      of CREATE TABLE
    key, layout   how it is clustered
    ``filters``   WHERE clauses, which the queries use in turn; "{row}" is a condition for one key, "{range}" and
                "{tenth}" for 1% and 10% of the keys, and "{n}" the number of the query
    no_query    numbers of the clauses that match the queries assumed without a workload
    """

    stream: str
    columns: tuple[str, ...] = ("k", "id", "payload")
    clause: str = ""
    key: tuple[str, ...] = ("k",)
    layout: str = "linear"
    filters: tuple[str, ...] = ("{range}", "{row}")
    no_query: tuple[int, ...] = (0,)


SHAPES = {
    **{stream: Shape(stream) for stream in STREAMS},
    "partitions": Shape(
        "wide",
        ("k", "id", "payload", "CAST(id % 8 AS int) AS p"),
        "PARTITIONED BY (p)",
        filters=(
            "p = {n} % 8 AND {range}",
            "p = {n} % 8 AND {row}",
            "p IN (1, {n} % 8) AND {range}",
            "{row}",
        ),
    ),
    "nulls": Shape(
        "wide",
        ("IF(id % 3 = 0, NULL, k) AS k", "id", "payload"),
        filters=("{range}", "{row}", "k IS NULL", "{range} OR k IS NULL"),
    ),
    "curve": Shape(
        "wide",
        ("k", "id", "payload", f"({_SPREAD}) AS j"),
        key=("k", "j"),
        layout="hilbert",
        filters=(
            "{range}",
            "j BETWEEN {n} / 64D AND ({n} + 1) / 64D",
            "{tenth} AND j > {n} / 64D AND j < ({n} + 6) / 64D",
        ),
        no_query=(),
    ),
}


def ask(spark: Any, table: str, shape: Shape, keys: np.ndarray, seed: int) -> None:
    """The queries of a shape, each around a row, spread like the data."""
    rng = np.random.default_rng(seed)

    def between(at: int, around: int) -> str:
        first, last = keys[max(at - around, 0)], keys[min(at + around, len(keys) - 1)]
        return f"k BETWEEN {float(first)!r}D AND {float(last)!r}D"

    for n in range(QUERIES):
        at = int(rng.integers(0, len(keys)))
        where = shape.filters[n % len(shape.filters)].format(
            n=n,
            row=f"k = {float(keys[at])!r}D",
            range=between(at, len(keys) // 200),
            tenth=between(at, len(keys) // 20),
        )
        spark.sql(f"SELECT count(payload) FROM {table} WHERE {where}").collect()
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()


def seen(listening: Listening, spark: Any, table: str) -> Workload:
    """All queries on the table so far."""
    return listening.workload(table, aliases(spark, resolve(spark, table)))


def arrive(runner: Runner, provider: str, shape: Shape, inputs: Inputs, options: Mapping[str, Any]) -> str:
    """A table that received all commits, maintained after each tenth except the last; return its name."""
    spark = runner.spark
    runner.made += 1
    name = f"{'ice' if provider == 'iceberg' else 'spark_catalog'}.bench.t{runner.made}"
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {name.rpartition('.')[0]}")
    arrived = spark.read.parquet(inputs.parts(0)[0]).selectExpr(*shape.columns)
    columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in arrived.schema)
    codec = "TBLPROPERTIES ('write.parquet.compression-codec'='snappy')" if provider == "iceberg" else ""
    spark.sql(f"CREATE TABLE {name} ({columns}) USING {provider} {shape.clause} {codec}")
    table = lk.table(spark, name)
    table.cluster_by(*shape.key, layout=shape.layout)
    for commit in range(inputs.commits):
        (part,) = inputs.parts(commit)
        rows = spark.read.parquet(part).selectExpr(*shape.columns).coalesce(1)
        rows.sortWithinPartitions(*(["p"] if "p" in rows.columns else ["id"])).writeTo(name).append()
        if (commit + 1) % EVERY == 0 and commit + 1 < inputs.commits:
            table.recluster(options=options)
    return name


def measure(
    runner: Runner, provider: str, name: str, inputs: Inputs, options: Mapping[str, Any]
) -> tuple[float, float, float | None]:
    """One shape on one format; relative errors of the three predictions."""
    spark, shape = runner.spark, SHAPES[name]
    bench = arrive(runner, provider, shape, inputs, options)
    table = lk.table(spark, bench)
    uniform = table.plan(options=options).prediction
    assert uniform is not None
    assert inputs.arrivals.keys is not None
    keys = np.sort(inputs.arrivals.keys, axis=None)
    # A listener of its own reads every query, and knows the rate at which this table is queried.
    listening = Listening(spark, sampling=Sampling(always=sys.maxsize)).start()
    ask(spark, bench, shape, keys, seed=3)
    workload = seen(listening, spark, bench)
    first = workload.scans
    assert len(first) == QUERIES
    real = [scan.files_read or 0 for scan in first]
    snapshot = look(adapter_of(spark, bench), Request("recluster", (), table.options({})))
    predicted = files_predicted(reads_of(snapshot, workload, 0), first)
    now = statistics.median(abs(t - r) / max(r, 1) for t, r in zip(predicted, real, strict=True))
    plan = table.plan(options=options, workload=workload)
    report = table.recluster(options=options, workload=workload)
    assert plan.prediction is not None
    assert report.changed == bool(plan.tasks)
    ask(spark, bench, shape, keys, seed=3)
    later = seen(listening, spark, bench).scans[len(first) :]
    listening.stop()
    again = statistics.mean(scan.files_read or 0 for scan in later)
    after = abs(plan.prediction.worth.after.files - again) / again
    blind, unasked = None, ""
    if shape.no_query:
        ranges = statistics.mean(real[n] for n in range(QUERIES) if n % len(shape.filters) in shape.no_query)
        blind = abs(uniform.worth.before.files - ranges) / ranges
        unasked = f"; ranges {ranges:6.2f} read, {uniform.worth.before.files:6.2f} predicted without a log"
    print(
        f"{provider:<8} {name:<10} {len(first):>3} queries, files: {statistics.mean(real):6.2f} read, "
        f"{statistics.mean(predicted):6.2f} predicted{unasked}; after {len(plan.tasks)} tasks {again:5.2f} read, "
        f"{plan.prediction.worth.after.files:5.2f} predicted (report: {report.prediction_error})",
        flush=True,
    )
    return now, after, blind


def main(arguments: list[str]) -> None:
    """Print a line for each table, and the medians."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--formats", default="delta,iceberg")
    parser.add_argument("--streams", default=",".join(SHAPES))
    parser.add_argument("--commits", type=int, default=60)
    parser.add_argument("--file-mb", type=float, default=0.25)
    given = parser.parse_args(arguments)
    target = int(given.file_mb * MB)
    options = {
        "target-file-size-bytes": target,
        "max-file-group-size-bytes": 128 * target,  # 128 files of the target size, as by default
        "commit.quiet-window-ms": 0,
        "queries-per-hour": 1_000_000,  # the tables are seconds old
    }
    with tempfile.TemporaryDirectory(prefix="lakekeeper-prediction-") as folder:
        home = Path(folder)
        spark = local_session(
            app_name="prediction", warehouse=home, catalogs={"ice": f"jdbc:sqlite:{home}/ice.db"}, master="local[2]",
            conf={"spark.sql.parquet.compression.codec": "snappy"}, small_data=True,
        )  # fmt: skip
        runner = Runner(spark, home, EVERY)
        wrong = []
        for name in given.streams.split(","):
            inputs = write_inputs(home / "inputs" / name, SHAPES[name].stream, given.commits, 1, target)
            wrong += [measure(runner, fmt, name, inputs, options) for fmt in given.formats.split(",")]
        spark.stop()
    for title, found in zip(("now", "after", "no log"), zip(*wrong, strict=True), strict=True):
        errors = [error for error in found if error is not None]
        print(
            f"{title:<7} median error {statistics.median(errors):.1%}, largest {max(errors):.1%} (bound 10%)"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
