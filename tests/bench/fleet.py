"""A pass that finds nothing due: 100 tables of 1,000 files each, half of them Delta, half Iceberg.

    python -m tests.bench.fleet [tables] [files]

The tables consist of metadata only: opening a data file would fail, and the table with it. Three passes run in a fresh
process for each set of verbs. The first, like a cron job, loads its classes and reads each table's log; the later ones,
like a service, read only new commits, here none, and start no Spark job. The bound is 60 s on two cores for each pass.
On a busy machine, CPU-seconds divided by two is the time on an idle one.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from lakekeeper.fleet import one_pass, service_settings
from lakekeeper.recording import fleet_memory
from tests.bench.processes import cpu

BOUND_S = 60.0
SIZE, STEP = 128 << 20, 1_000


def delta_log(root: Path, files: int) -> None:
    """A table whose files are full and do not overlap."""
    fields = [{"name": "k", "type": "long", "nullable": True, "metadata": {}}]
    meta = {
        "id": root.name,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": [],
        "configuration": {"lakekeeper.cluster-by": "k"},
        "createdTime": 0,
    }
    lines: list[dict[str, Any]] = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": meta},
    ]
    for i in range(files):
        low, high = {"k": i * STEP}, {"k": i * STEP + STEP - 1}
        stats = {"numRecords": STEP, "minValues": low, "maxValues": high, "nullCount": {"k": 0}}
        add = {
            "path": f"part-{i:05d}-c000.snappy.parquet",
            "partitionValues": {},
            "size": SIZE,
            "modificationTime": i,
            "dataChange": True,
            "stats": json.dumps(stats),
        }
        lines.append({"add": add})
    log = root / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020d}.json").write_text("".join(json.dumps(line) + "\n" for line in lines))


def iceberg_logs(catalog: str, warehouse: str, tables: int, files: int) -> None:
    """The same in Iceberg tables, through pyiceberg's manifests."""
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.conversions import to_bytes
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.schema import Schema
    from pyiceberg.typedef import Record
    from pyiceberg.types import LongType, NestedField

    home = SqlCatalog("ice", uri=f"sqlite:///{catalog}", warehouse=warehouse)
    home.create_namespace("db")
    for number in range(tables):
        schema = Schema(NestedField(1, "k", LongType(), required=False))
        table = home.create_table(f"db.t{number:03d}", schema)
        with table.transaction() as change:
            change.set_properties({"lakekeeper.cluster-by": "k"})
            with change.update_snapshot().fast_append() as append:
                for i in range(files):
                    append.append_data_file(
                        DataFile.from_args(
                            content=DataFileContent.DATA,
                            file_path=f"{table.location()}/data/{i:05d}.parquet",
                            file_format=FileFormat.PARQUET,
                            partition=Record(),
                            record_count=STEP,
                            file_size_in_bytes=SIZE,
                            column_sizes={1: 100},
                            value_counts={1: STEP},
                            null_value_counts={1: 0},
                            nan_value_counts={},
                            lower_bounds={1: to_bytes(LongType(), i * STEP)},
                            upper_bounds={1: to_bytes(LongType(), i * STEP + STEP - 1)},
                            split_offsets=[4],
                            sort_order_id=None,
                            spec_id=0,
                            equality_ids=None,
                            key_metadata=None,
                        )
                    )


def passes(home: Path, verbs: str, tables: int) -> int:
    """Three passes in this process; return the number of tables that were not idle, and of passes over a bound."""
    from lakekeeper.spark.session import local_session

    started = time.monotonic()
    spark = local_session(
        app_name="lakekeeper-fleet", master="local[2]", catalogs={"ice": f"jdbc:sqlite:{home}/catalog.db"}
    )
    print(f"{verbs}\n  session: {time.monotonic() - started:.1f} s, {cpu().total:.0f} CPU-s", flush=True)
    names = ["ice.db.*", *(str(path) for path in sorted((home / "delta").iterdir()))]
    spark.conf.set("spark.lakekeeper.auto.verbs", verbs)
    settings, memory = service_settings(spark, names, None), fleet_memory(spark)
    bad = 0
    for number in (1, 2, 3):
        started, before, used = time.monotonic(), _jobs(spark), cpu()
        report = one_pass(spark, settings, memory=memory)
        took, jobs, spent = time.monotonic() - started, _jobs(spark) - before, (cpu() - used).total
        print(f"  pass {number}: {took:.1f} s (bound {BOUND_S:.0f} s), {spent:.0f} CPU-s, {jobs} Spark jobs")
        wrong = [table for table in report.tables if table.status != "idle"]
        print(
            "".join(f"  {each.table}: {each.status}, {each.reason}\n" for each in wrong[:5]),
            end="",
            flush=True,
        )
        bad += len(wrong) + (len(report.tables) != tables) + (took > BOUND_S) + (number > 1 and jobs > 0)
    spark.stop()
    return bad


def main(tables: int, files: int) -> int:
    """Create the tables and time passes over them; return 1 if a table was not idle, or a pass exceeded the bound."""
    home = Path(tempfile.mkdtemp(prefix="lakekeeper-fleet-"))
    started = time.monotonic()
    for number in range(tables // 2):
        delta_log(home / "delta" / f"t{number:03d}", files)
    (home / "ice").mkdir()
    iceberg_logs(str(home / "catalog.db"), str(home / "ice"), tables - tables // 2, files)
    print(f"made {tables} tables of {files:,} files in {time.monotonic() - started:.0f} s", flush=True)
    bad = 0
    for verbs in ("recluster,compact,merge_deletes", "recluster,compact,merge_deletes,vacuum"):
        fresh = [sys.executable, "-m", "tests.bench.fleet", "--passes", str(home), verbs, str(tables)]
        bad += subprocess.run(fresh, check=False).returncode != 0
    return 1 if bad else 0


def _jobs(spark: Any) -> int:
    """The number of Spark jobs so far."""
    return int(spark._jsparkSession.sparkContext().dagScheduler().numTotalJobs())


if __name__ == "__main__":
    if sys.argv[1:2] == ["--passes"]:
        sys.exit(1 if passes(Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])) else 0)
    sys.exit(main(*(int(text) for text in (sys.argv[1:] + ["100", "1000"][len(sys.argv) - 1 :]))))
