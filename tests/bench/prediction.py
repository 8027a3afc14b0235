"""How well files per query are predicted: against what Spark says it read, on real tables of both formats.

    python tests/bench/prediction.py [delta] [iceberg]

For each stream of files: queries are listened to, a plan is made for them, and carried out; then the same queries run
again. Three predictions are compared with the scans' own metrics ("number of files read", "result data files"):

    now        each query on the table as it is, from the bounds of its files
    after      the mean over the queries once the plan is carried out, as the plan said before it was
    no log     the mean of points and 1 % ranges on the table as it is, by a plan that knew no query
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import lakekeeper as lk
from lakekeeper.core.explain import files_predicted
from lakekeeper.core.workload import Scan
from lakekeeper.engine.maintain import look
from lakekeeper.spark.session import local_session

FILES, ROWS, DOMAIN, QUERIES = 24, 2000, 1_000_000, 30  # Iceberg looks at a file each 1,000 rows
OPTIONS = {
    "max-rows-per-file": ROWS,
    "target-file-size-bytes": 400_000_000,
    "depth-threshold": 1,
    "policy": "ranges",
}


def streams() -> dict[str, Callable[[np.random.Generator, int], np.ndarray]]:
    """Keys of the rows of file ``i``."""
    window = DOMAIN // FILES

    def late(rng: np.random.Generator, i: int) -> np.ndarray:
        fresh = rng.integers(i * window, (i + 1) * window, ROWS)
        old = rng.random(ROWS) < 0.05
        return np.where(old, rng.integers(0, (i + 1) * window, ROWS), fresh)

    def windows(rng: np.random.Generator, _i: int) -> np.ndarray:
        start = rng.integers(0, DOMAIN - 5 * window)
        return rng.integers(start, start + 5 * window, ROWS)

    return {
        "wide": lambda rng, _i: rng.integers(0, DOMAIN, ROWS),
        "late": late,
        "windows": windows,
        "time": lambda rng, i: rng.integers(i * window, (i + 1) * window, ROWS),
    }


def make(spark: Any, name: str, provider: str, keys: list[np.ndarray]) -> None:
    """A table with one file for each array of keys."""
    from pyspark.sql import functions as F

    columns = {"k": np.concatenate(keys), "f": np.repeat(np.arange(len(keys)), ROWS)}
    frame = spark.createDataFrame(pa.table({n: pa.array(c, pa.int64()) for n, c in columns.items()}))
    placed = frame.repartitionById(len(keys), F.col("f").cast("int")).select("k", (F.col("k") * 7).alias("v"))
    placed.write.format(provider).saveAsTable(name)


def ask(spark: Any, table: str, keys: np.ndarray, seed: int) -> None:
    """Points and 1 % ranges around rows, as the data lies."""
    rng = np.random.default_rng(seed)
    ordered = np.sort(keys)
    for i in range(QUERIES):
        at = int(rng.integers(0, len(ordered)))
        last = min(at + len(ordered) // 100, len(ordered) - 1)
        where = f"k = {ordered[at]}" if i % 2 else f"k BETWEEN {ordered[at]} AND {ordered[last]}"
        spark.sql(f"SELECT count(v) FROM {table} WHERE {where}").collect()
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()


def seen(table: lk.Table, after: int) -> tuple[Scan, ...]:
    """Scans of the table since the first ``after``."""
    workload = table.workload()
    return workload.scans[after:] if workload is not None else ()


def measure(spark: Any, provider: str, prefix: str, stream: str) -> tuple[float, ...]:
    """One stream on one format; relative errors of the three predictions."""
    rng = np.random.default_rng(11)
    keys = [streams()[stream](rng, i) for i in range(FILES)]
    name = f"{prefix}{stream}"
    make(spark, name, provider, keys)
    table = lk.table(spark, name)
    table.cluster_by("k")
    uniform = table.plan(options=OPTIONS).prediction
    assert uniform is not None
    every = np.concatenate(keys)
    ask(spark, name, every, seed=3)
    first = seen(table, 0)
    real = [scan.files_read or 0 for scan in first]
    snapshot = look(table._adapter, table._request("recluster"))
    told = files_predicted(snapshot, first, 0)
    now = statistics.median(abs(t - r) / max(r, 1) for t, r in zip(told, real, strict=True))
    plan = table.plan(options=OPTIONS)
    report = table.recluster(options=OPTIONS)
    assert plan.prediction is not None
    assert report.changed == bool(plan.tasks)
    ask(spark, name, every, seed=3)
    again = statistics.mean(scan.files_read or 0 for scan in seen(table, len(first)))
    after = abs(plan.prediction.worth.after.files - again) / again
    mean = statistics.mean(real)
    blind = abs(uniform.worth.before.files - mean) / mean
    print(
        f"{provider:<8} {stream:<8} {len(first):>3} queries, files: {mean:6.2f} read, "
        f"{statistics.mean(told):6.2f} predicted, "
        f"{uniform.worth.before.files:6.2f} without a log; after {again:5.2f} read, "
        f"{plan.prediction.worth.after.files:5.2f} predicted (report: {report.prediction_error})"
    )
    return now, after, blind


def main(formats: list[str]) -> None:
    """Print a line for each table, and the medians."""
    home = Path(tempfile.mkdtemp(prefix="lakekeeper-prediction-"))
    spark = local_session(
        app_name="prediction",
        warehouse=home / "wh",
        catalogs={"ice": f"jdbc:sqlite:{home}/c.db"},
        conf={"spark.driver.memory": "1g"},
        master="local[2]",
        small_data=True,
    )
    spark.sql("CREATE NAMESPACE ice.db")
    lk.observe(spark)
    wrong = [
        measure(spark, fmt, "ice.db." if fmt == "iceberg" else "", stream)
        for fmt in formats
        for stream in streams()
    ]
    for title, errors in zip(("now", "after", "no log"), zip(*wrong, strict=True), strict=True):
        print(
            f"{title:<7} median error {statistics.median(errors):.1%}, largest {max(errors):.1%} (bound 10 %)"
        )
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:] or ["delta", "iceberg"])
