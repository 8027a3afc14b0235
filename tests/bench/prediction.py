"""How well files per query are predicted: against what Spark says it read, on real tables of both formats.

    python -m tests.bench.prediction [--formats delta,iceberg] [--streams wide,late,…] [--commits 60] [--file-mb 0.25]

The streams of the ingest benchmark, maintained by the default policy after each tenth commit. Before the last
maintenance queries are listened to, a plan is made for them, and carried out; then the same queries run again. Three
predictions are compared with the scans' own metrics ("number of files read", "result data files"):

    now        each query on the table as it is, from the bounds of its files
    after      the mean over the queries once the plan is carried out, as the plan said before it was
    no log     the mean of the 1 % ranges on the table as it is, by a plan that knew no query
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import lakekeeper as lk
from lakekeeper.core.explain import files_predicted
from lakekeeper.core.streams import STREAMS
from lakekeeper.core.workload import Scan
from lakekeeper.engine.maintain import look
from lakekeeper.spark.session import local_session
from tests.bench.contestants import contestants
from tests.bench.ingest import MB, Runner
from tests.bench.inputs import Inputs, write_inputs

QUERIES, EVERY = 60, 10
RANGES = range(0, QUERIES, 2)
"""Queries for 1 % of the data around a row; the others are for a row."""


def ask(spark: Any, table: str, keys: np.ndarray, seed: int) -> None:
    """Points and 1 % ranges around rows, as the data lies."""
    rng = np.random.default_rng(seed)
    for i in range(QUERIES):
        at, around = int(rng.integers(0, len(keys))), len(keys) // 200
        where = f"k = {float(keys[at])!r}D"
        if i in RANGES:
            first, last = keys[max(at - around, 0)], keys[min(at + around, len(keys) - 1)]
            where = f"k BETWEEN {float(first)!r}D AND {float(last)!r}D"
        spark.sql(f"SELECT count(payload) FROM {table} WHERE {where}").collect()
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()


def seen(table: lk.Table, after: int) -> tuple[Scan, ...]:
    """Scans of the table since the first ``after``."""
    workload = table.workload()
    return workload.scans[after:] if workload is not None else ()


def arrive(runner: Runner, provider: str, inputs: Inputs, options: Mapping[str, Any]) -> str:
    """A table that all commits came to, maintained after each tenth but the last; its name."""
    bench, _ = runner.table(provider, contestants(provider)["adaptive"], options["target-file-size-bytes"])
    table = lk.table(runner.spark, bench.name)
    table.cluster_by("k")
    for commit in range(inputs.commits):
        runner.append(bench, inputs.parts(commit))
        if (commit + 1) % EVERY == 0 and commit + 1 < inputs.commits:
            table.recluster(options=options)
    return bench.name


def measure(runner: Runner, provider: str, inputs: Inputs, options: Mapping[str, Any]) -> tuple[float, ...]:
    """One stream on one format; relative errors of the three predictions."""
    spark, name = runner.spark, arrive(runner, provider, inputs, options)
    table = lk.table(spark, name)
    uniform = table.plan(options=options).prediction
    assert uniform is not None
    assert inputs.arrivals.keys is not None
    keys = np.sort(inputs.arrivals.keys, axis=None)
    ask(spark, name, keys, seed=3)
    first = seen(table, 0)
    real = [scan.files_read or 0 for scan in first]
    snapshot = look(table._adapter, table._request("recluster"))
    told = files_predicted(snapshot, first, 0)
    now = statistics.median(abs(t - r) / max(r, 1) for t, r in zip(told, real, strict=True))
    plan = table.plan(options=options)
    report = table.recluster(options=options)
    assert plan.prediction is not None
    assert report.changed == bool(plan.tasks)
    ask(spark, name, keys, seed=3)
    again = statistics.mean(scan.files_read or 0 for scan in seen(table, len(first)))
    after = abs(plan.prediction.worth.after.files - again) / again
    ranges = statistics.mean(real[i] for i in RANGES)
    blind = abs(uniform.worth.before.files - ranges) / ranges
    print(
        f"{provider:<8} {inputs.stream:<8} {len(first):>3} queries, files: {statistics.mean(real):6.2f} read, "
        f"{statistics.mean(told):6.2f} predicted; ranges {ranges:6.2f} read, "
        f"{uniform.worth.before.files:6.2f} predicted without a log; after {len(plan.tasks)} tasks {again:5.2f} read, "
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
    parser.add_argument("--streams", default=",".join(STREAMS))
    parser.add_argument("--commits", type=int, default=60)
    parser.add_argument("--file-mb", type=float, default=0.25)
    given = parser.parse_args(arguments)
    target = int(given.file_mb * MB)
    options = {
        "target-file-size-bytes": target,
        "max-file-group-size-bytes": 128 * target,  # 128 files of the target size, as by default
        "commit.quiet-window-ms": 0,
    }
    with tempfile.TemporaryDirectory(prefix="lakekeeper-prediction-") as folder:
        home = Path(folder)
        spark = local_session(
            app_name="prediction", warehouse=home, catalogs={"ice": f"jdbc:sqlite:{home}/ice.db"}, master="local[2]",
            conf={"spark.sql.parquet.compression.codec": "snappy"}, small_data=True,
        )  # fmt: skip
        lk.observe(spark)
        runner = Runner(spark, home, EVERY)
        wrong = []
        for stream in given.streams.split(","):
            inputs = write_inputs(home / "inputs" / stream, stream, given.commits, 1, target)
            wrong += [measure(runner, fmt, inputs, options) for fmt in given.formats.split(",")]
        spark.stop()
    for title, errors in zip(("now", "after", "no log"), zip(*wrong, strict=True), strict=True):
        print(
            f"{title:<7} median error {statistics.median(errors):.1%}, largest {max(errors):.1%} (bound 10 %)"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
