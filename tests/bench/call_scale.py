"""How calls scale with the files of a table: the same work in a table of 10⁴, 10⁵ and 10⁶ files.

    python -m tests.bench.call_scale [--formats delta,iceberg] [--files 10000,100000,1000000] [--memory 6g]

One partition has a thousand real files; all others exist in the log only, a thousand files each, so that a call that
opens one of them fails. Shown are core-seconds of the driver, the JVM and the Python workers: of the first looks, which
read the log (the files with the bounds of the key; for the first predicate on values, all statistics; for the first
plan, how the data is spread), and of each call after them in the same session; and their ratio from the smallest table
to the largest. The last plan reads a commit, and the spread again. Each table has a process of its own, whose peak
memory is shown. ``beside manifests``: without what threads of the JVM spent on reading and writing
manifests, the log of such a table: Iceberg's own, and those of a vacuum, which end with it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import lakekeeper as lk
from lakekeeper.core.text.formatting import table as page
from tests.bench.processes import cpu, peak_mb

REAL = 1_000
"""Files of each partition."""
ROWS = 100_000  # of the real files, together
SIZE = 128 << 20  # of a file that exists in the log only
_FAR = 10**9  # keys of the real rows are below it, all others above

CALLS: Mapping[str, Callable[[lk.Table], Any]] = {
    "first look": lambda t: t.clustering_depth("k"),
    "first look by value": lambda t: t.plan("k", where="k = 4711"),
    "first plan": lambda t: t.plan("k"),
    "info": lambda t: t.clustering_information("k"),
    "plan": lambda t: t.plan("k"),
    "recluster of 1,000 files": lambda t: t.recluster("k", where="p = 0", policy="full"),
    "delete of one key": lambda t: t.delete("k = 4711"),
    "drop_partition": lambda t: t.drop_partition("p = 1"),
    "vacuum of 1,000 files": lambda t: t.vacuum(
        retention_hours=0, allow_unsafe_retention=True, options={"vacuum.max-share": 1}
    ),
    "plan after a commit": lambda t: t.plan("k"),
}
OWN_THREADS = {"vacuum of 1,000 files"}
"""Calls that read manifests in threads of their own, which end with it."""


def delta(spark: Any, home: Path, files: int) -> str:
    """A Delta table of ``files`` files; its name."""
    place = home / f"delta-{files}"
    spark.sql(
        f"CREATE TABLE delta.`{place}` (k BIGINT, v STRING, p INT) USING delta PARTITIONED BY (p) "
        "TBLPROPERTIES ('delta.enableDeletionVectors'='true')"
    )
    fill(spark).write.format("delta").mode("append").save(str(place))
    version = 2
    for first in range(REAL, files, 100_000):
        with (place / "_delta_log" / f"{version:020d}.json").open("w") as out:
            for number in range(first, min(first + 100_000, files)):
                partition, low = number // REAL, _FAR + number * 1_000
                stats = {
                    "numRecords": 1000,
                    "minValues": {"k": low},
                    "maxValues": {"k": low + 999},
                    "nullCount": {"k": 0},
                }
                add = {
                    "path": f"p={partition}/part-{number:07d}-6f1c2b7e-9a53-4a0c-8a11-0d9b7c1e0000-c000.snappy.parquet",
                    "partitionValues": {"p": str(partition)}, "size": SIZE,
                    "modificationTime": time.time_ns() // 1_000_000, "dataChange": True, "stats": json.dumps(stats),
                }  # fmt: skip
                out.write(json.dumps({"add": add}) + "\n")
        version += 1
    if files > REAL:
        checksum(place / "_delta_log", version - 1, files)
    return str(place)


def checksum(log: Path, version: int, files: int) -> None:
    """The checksum file of a version, which Delta's writers leave: without it, its next commit sums all files."""
    known = json.loads((log / f"{1:020d}.crc").read_text())
    kept = {name: value for name, value in known.items() if name not in ("txnId", "allFiles")}
    size = known["tableSizeBytes"] + (files - REAL) * SIZE
    text = json.dumps({**kept, "tableSizeBytes": size, "numFiles": files})
    (log / f"{version:020d}.crc").write_text(text)


def iceberg(spark: Any, home: Path, files: int) -> str:
    """An Iceberg table of ``files`` files, the others through pyiceberg's manifests; its name."""
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.conversions import to_bytes
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record
    from pyiceberg.types import LongType

    spark.sql("CREATE NAMESPACE IF NOT EXISTS ice.db")
    name = f"db.t{files}"
    spark.sql(
        f"CREATE TABLE ice.{name} (k BIGINT, v STRING, p INT) USING iceberg PARTITIONED BY (p) "
        "TBLPROPERTIES ('write.delete.mode'='merge-on-read', 'write.distribution-mode'='none')"
    )
    fill(spark).writeTo(f"ice.{name}").option("fanout-enabled", "true").append()
    table = SqlCatalog("ice", uri=f"sqlite:///{home}/catalog.db").load_table(name)
    for first in range(REAL, files, 100_000):
        with table.transaction() as change, change.update_snapshot().fast_append() as append:
            for number in range(first, min(first + 100_000, files)):
                low = _FAR + number * 1_000
                append.append_data_file(
                    DataFile.from_args(
                        content=DataFileContent.DATA, file_format=FileFormat.PARQUET, partition=Record(number // REAL),
                        file_path=f"{table.location()}/data/p={number // REAL}/{number:07d}-6f1c2b7e-9a53.parquet",
                        record_count=1000, file_size_in_bytes=SIZE, column_sizes={1: 100}, value_counts={1: 1000},
                        null_value_counts={1: 0}, nan_value_counts={}, lower_bounds={1: to_bytes(LongType(), low)},
                        upper_bounds={1: to_bytes(LongType(), low + 999)}, split_offsets=[4], sort_order_id=None,
                        spec_id=0, equality_ids=None, key_metadata=None,
                    )
                )  # fmt: skip
    return f"ice.{name}"


def fill(spark: Any) -> Any:
    """The rows of the real files, one task for each."""
    return spark.range(0, ROWS, 1, REAL).selectExpr(
        "id * 7919 % 100003 AS k", "md5(string(id)) AS v", "0 AS p"
    )


def measured(table: lk.Table, what: str) -> dict[str, float]:
    """Core-seconds of each call."""
    found = {}
    for name, call in CALLS.items():
        before, wall = cpu(), time.perf_counter()
        report = call(table)
        used = cpu() - before
        if name.startswith("recluster"):
            assert sum(group.files_in for group in report.groups) == REAL, report
        found[name] = used.total
        manifests = used.ended if name in OWN_THREADS else used.manifests
        if manifests and what.startswith("iceberg"):
            found[f"{name}, beside manifests"] = used.total - manifests
        print(
            f"{what}, {name}: {found[name]:.1f} core-s, {time.perf_counter() - wall:.1f} s", file=sys.stderr
        )
        if getattr(report, "changed", True) is False:
            raise AssertionError(f"{name} changed nothing: {report}")
    return found


def one(format_: str, files: int, memory: str) -> dict[str, float]:
    """Core-seconds of each call on one table."""
    from lakekeeper.spark.session import local_session

    with tempfile.TemporaryDirectory(prefix="lakekeeper-scale-") as folder:
        home = Path(folder)
        spark = local_session(
            warehouse=home / "warehouse",
            catalogs={"ice": f"jdbc:sqlite:{home}/catalog.db"},
            conf={"spark.driver.memory": memory, "spark.ui.enabled": "false"},
            master="local[2]",
        )
        spark.sparkContext.setLogLevel("OFF")
        make = {"delta": delta, "iceberg": iceberg}[format_]
        measured(lk.table(spark, make(spark, home, 2 * REAL)), "warm-up")
        found = measured(lk.table(spark, make(spark, home, files)), f"{format_}, {files:,} files")
        found["peak MB, driver"], found["peak MB, JVM"] = peak_mb()
        spark.stop()
    return found


def main() -> None:
    """Print a table for each format."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--formats", default="delta,iceberg")
    parser.add_argument("--files", default="10000,100000,1000000")
    parser.add_argument("--memory", default="6g", help="heap of the JVM")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(one(given.one[0], int(given.one[1]), given.memory)))
        return
    counts = [int(each) for each in given.files.split(",")]
    for format_ in given.formats.split(","):
        columns = [_measured(format_, files, given.memory) for files in counts]
        rows = [[format_, *(f"{files:,}" for files in counts), "ratio"]]
        for what in dict.fromkeys(what for column in columns for what in column):
            values = [column.get(what, column.get(what.partition(",")[0], 0.0)) for column in columns]
            shown = [f"{value:,.0f}" if "MB" in what else f"{value:.2f}" for value in values]
            rows.append([what, *shown, f"{values[-1] / max(values[0], 0.01):.1f}"])
        print(page(rows, right=frozenset(range(1, len(counts) + 2))), flush=True)


def _measured(format_: str, files: int, memory: str) -> dict[str, float]:
    command = [
        sys.executable,
        "-m",
        "tests.bench.call_scale",
        "--one",
        format_,
        str(files),
        "--memory",
        memory,
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    main()
