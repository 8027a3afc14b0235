"""Users of a fleet, who append, delete and stream: ``python -m tests.cluster.writers FOLDER``.

    stdin   stop       end all jobs                        stdout  {"tables": …} once they exist
            verify     compare the tables with the record          {"stopped": …}, {"verified": …}

The expected rows of each table are recorded as sets of ids; a job that fails with a conflict is retried, as a user
would do.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from lakekeeper.errors import causes
from lakekeeper.spark.session import local_session
from lakekeeper.spark.session_confs import catalog_conf

ROWS = 1_000
A_DAY = 600_000
_STREAMED = 200
_ATTEMPTS = 20
_PAUSE_S = 3.0

CONFLICTS = (
    "ConcurrentAppendException", "ConcurrentDeleteReadException", "ConcurrentDeleteDeleteException",
    "ConcurrentTransactionException", "ConcurrentWriteException", "CommitFailedException", "ValidationException",
    "DELTA_CONCURRENT",
)  # fmt: skip
"""Errors of a user's DELETE that Delta's OPTIMIZE and Iceberg's rewrite_data_files may cause."""


def iceberg_catalog(folder: Path) -> dict[str, str]:
    """A catalog in SQLite, which three processes share: each waits for the lock of the others."""
    return catalog_conf("ice", f"jdbc:sqlite:{folder}/ice.db?busy_timeout=60000", folder) | {
        "spark.sql.catalog.ice.cache-enabled": "false",
        "spark.sql.catalog.ice.warehouse": str(folder / "ice"),
    }


@dataclass
class Written:
    """One table, and the record of its users.

    deletes    whether they also delete
    stream     whether a stream writes to it
    a_day      bytes that maintenance may rewrite in 24 hours
    """

    name: str
    sql: str
    format: str
    deletes: bool = False
    stream: bool = False
    properties: str = ""
    a_day: int | None = None
    next_id: int = 0
    live: set[int] = field(default_factory=set)
    jobs: int = 0
    conflicts: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    batches: int = 0


def fleet(folder: Path) -> list[Written]:
    """Five Delta tables by path, five Iceberg tables in a catalog."""
    vectors = "'delta.enableDeletionVectors'='true'"
    merge_on_read = "'format-version'='2','write.delete.mode'='merge-on-read'"
    kinds: list[dict[str, Any]] = [
        {},
        {"a_day": A_DAY},
        {"deletes": True},
        {"deletes": True, "properties": "marked"},
        {"stream": True},
    ]
    tables = []
    for number, kind in enumerate(kinds):
        for form, marked in (("delta", vectors), ("iceberg", merge_on_read)):
            name = f"{folder}/delta/t{number}" if form == "delta" else f"ice.db.t{number}"
            sql = f"delta.`{name}`" if form == "delta" else name
            properties = f",{marked}" if kind.get("properties") else ""
            if "a_day" in kind:
                properties += f",'lakekeeper.budget-bytes-per-day'='{A_DAY}'"
            tables.append(Written(name, sql, form, **{**kind, "properties": properties}))
    return tables


class Users:
    """All jobs on the fleet, in one application."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark, self._folder = spark, folder
        self.tables = fleet(folder)
        self._stop = threading.Event()
        self._queries: list[tuple[Written, Any]] = []
        self._threads: list[threading.Thread] = []

    def create(self) -> None:
        """Create the tables, with two files each."""
        self._spark.sql("CREATE NAMESPACE IF NOT EXISTS ice.db")
        for table in self.tables:
            self._spark.sql(
                f"CREATE TABLE {table.sql} (id BIGINT, k INT, v STRING) USING {table.format} "
                f"TBLPROPERTIES ('lakekeeper.cluster-by'='k'{table.properties})"
            )

    def start(self) -> None:
        """Start streams, and two threads for all other jobs."""
        for table in self.tables:
            if table.stream:
                self._queries.append((table, self._stream(table)))
        written = [table for table in self.tables if not table.stream]
        for part in (written[::2], written[1::2]):
            thread = threading.Thread(target=self._work, args=(part,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """End all jobs; a batch of a stream is committed entirely or not at all."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        for table, query in self._queries:
            last = query.lastProgress
            table.batches = int(last["batchId"]) if last else 0
            query.stop()
            if query.exception() is not None:
                table.errors.append(str(query.exception()))

    def _stream(self, table: Written) -> Any:
        source = self._spark.readStream.format("rate-micro-batch").option("rowsPerBatch", _STREAMED)
        rows = source.load().selectExpr("value AS id").selectExpr(*_columns())
        writer = rows.writeStream.trigger(processingTime="5 seconds").outputMode("append")
        writer = writer.option("checkpointLocation", f"{self._folder}/checkpoints/{table.format}")
        if table.format == "delta":
            return writer.format("delta").start(table.name)
        return writer.format("iceberg").toTable(table.name)

    def _work(self, tables: list[Written]) -> None:
        turn = 0
        while not self._stop.is_set():
            turn += 1
            for table in tables:
                if not self._stop.is_set():
                    self._append(table)
                    if table.deletes and turn % 2 == 0:
                        self._delete(table)
            self._stop.wait(_PAUSE_S)

    def _append(self, table: Written) -> None:
        first = table.next_id
        rows = self._spark.range(first, first + ROWS, 1, 1).selectExpr(*_columns())
        if self._do(table, lambda: rows.writeTo(table.sql).append()):
            table.next_id += ROWS
            table.live.update(range(first, first + ROWS))

    def _delete(self, table: Written) -> None:
        rest = (table.jobs * 7) % 11
        last = table.next_id // 2  # rows already merged by maintenance, and newer ones
        where = f"id >= {last - ROWS} AND id < {last + ROWS} AND id % 11 = {rest}"
        if self._do(table, lambda: self._spark.sql(f"DELETE FROM {table.sql} WHERE {where}")):
            table.live.difference_update(
                each for each in range(max(last - ROWS, 0), last + ROWS) if each % 11 == rest
            )

    def _do(self, table: Written, job: Callable[[], object]) -> bool:
        """Run a job, again after a conflict; return whether it succeeded."""
        for _ in range(_ATTEMPTS):
            table.jobs += 1
            try:
                job()
            except Exception as error:
                text = " <- ".join(f"{kind}: {message[:300]}" for kind, message in causes(error)) or repr(
                    error
                )
                if not any(known in text for known in CONFLICTS):
                    table.errors.append(text)
                    return False
                table.conflicts.append(text)
            else:
                return True
        table.errors.append("gave up after conflicts")
        return False

    def verified(self, table: Written) -> dict[str, Any]:
        """Differences between a table's rows and its expected rows, and its number of files."""
        rows = [row.id for row in self._spark.sql(f"SELECT id FROM {table.sql}").collect()]
        if table.stream:
            complete = len(rows) // _STREAMED
            table.live = set(range(complete * _STREAMED))
        wrong = "k != pmod(hash(id), 1000) OR k IS NULL OR length(v) != 123"
        sums = self._spark.table(table.sql).selectExpr("coalesce(sum(crc32(concat_ws('|', id, k, v))), 0)")
        return {
            "rows": len(rows),
            "fingerprint": int(sums.collect()[0][0]),
            "duplicates": len(rows) - len(set(rows)),
            "missing": len(table.live - set(rows)),
            "extra": len(set(rows) - table.live),
            "changed": self._spark.table(table.sql).where(wrong).count(),
            "too_few_batches": max(table.batches - len(rows) // _STREAMED, 0) if table.stream else 0,
            "files": self._spark.table(table.sql).selectExpr("input_file_name()").distinct().count(),
        }


def _columns() -> list[str]:
    return [
        "id",
        "cast(pmod(hash(id), 1000) AS INT) AS k",
        "repeat(concat(sha1(cast(id AS STRING)), 'x'), 3) AS v",
    ]


def main(folder: Path) -> None:
    confs = iceberg_catalog(folder) | {
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "1",
        "spark.databricks.delta.snapshotPartitions": "1",
    }
    spark = local_session(
        app_name="writers", warehouse=folder / "managed", conf=confs, master="local[2]", small_data=True
    )
    users = Users(spark, folder)
    users.create()
    _say(tables=[table.name for table in users.tables])
    for line in sys.stdin:
        if line.strip() == "start":
            users.start()
        elif line.strip() == "stop":
            users.stop()
            _say(stopped=[_record(table) for table in users.tables])
        elif line.strip() == "verify":
            _say(verified={table.name: users.verified(table) for table in users.tables})
    spark.stop()


def _record(table: Written) -> dict[str, Any]:
    kept = ("name", "deletes", "stream", "jobs", "conflicts", "errors", "batches", "next_id")
    return {name: getattr(table, name) for name in kept}


def _say(**message: Any) -> None:
    print(json.dumps(message), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
