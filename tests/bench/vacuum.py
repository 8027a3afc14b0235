"""The cost of a vacuum as a table grows: the same 1,000 dead files among 10⁴, 10⁵ and 10⁶ live ones; and the natives.

    python -m tests.bench.vacuum [--sizes 10000,100000,1000000] [--formats delta,iceberg] [--natives]

Live files exist in the log only, except with ``--natives``, the formats' own vacuums: these list, so (empty) files are
written for them. Dead files always exist. Each size begins with a warm-up vacuum with dead files of its own. Seconds
are wall seconds and CPU seconds of driver and JVM together; memory is the JVM's peak of live memory after a collection,
and Python's peak of allocated memory.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
import tracemalloc
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lakekeeper as lk
from lakekeeper.core.text.formatting import table as page

DEAD = 1_000
_DAY = 86_400
_PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2}
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Cost:
    """The cost of one call."""

    name: str
    live: int
    wall: float
    cpu: float
    python_mb: float
    deleted: int
    lists: int | None = None


def _now() -> float:
    return time.time()


def _name(number: int) -> str:
    return f"part-{number % 100_000:05d}-{uuid.UUID(int=number)}-c000.snappy.parquet"


def _add(path: str, size: int, at: float) -> str:
    stats = {"numRecords": 1000, "minValues": {"k": 1}, "maxValues": {"k": 9}, "nullCount": {"k": 0}}
    add = {
        "path": path,
        "partitionValues": {},
        "size": size,
        "modificationTime": int(at * 1000),
        "dataChange": True,
        "stats": json.dumps(stats),
    }
    return json.dumps({"add": add})


def _remove(path: str, size: int, at: float) -> str:
    made = {"path": path, "deletionTimestamp": int(at * 1000), "dataChange": True, "size": size}
    return json.dumps({"remove": made})


@dataclass
class DeltaBench:
    """A Delta table written by hand; every commit is about 30 days old, each slightly younger than the previous one."""

    spark: Any
    root: Path
    live: int
    version: int = 0
    meta: Any = None

    def make(self, on_disk: bool) -> None:
        (self.root / "_delta_log").mkdir(parents=True)
        fields = [{"name": "k", "type": "long", "nullable": True, "metadata": {}}]
        meta = {
            "id": str(uuid.uuid4()),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
            "partitionColumns": [],
            "configuration": {},
            "createdTime": 0,
        }
        self.meta = meta
        lines = [json.dumps({"protocol": _PROTOCOL}), json.dumps({"metaData": meta})]
        at = self._at()
        self._commit([*lines, *(_add(_name(i), 1 << 20, at) for i in range(self.live))])
        if on_disk:
            for i in range(self.live):
                (self.root / _name(i)).touch()
        # Readers, including ours, start from a checkpoint, as on any real table of that size.
        jvm = self.spark._jvm
        log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(self.spark._jsparkSession, str(self.root))
        log.checkpoint(
            log.update(False, jvm.scala.Option.empty(), jvm.scala.Option.empty()), jvm.scala.Option.empty()
        )

    def kill(self, batch: int) -> None:
        """One commit that adds files, and one that removes them."""
        names = [f"dead-{batch}-{i:05d}.parquet" for i in range(DEAD)]
        old = _now() - 20 * _DAY
        for name in names:
            (self.root / name).write_bytes(b"x" * 1000)
            os.utime(self.root / name, (old, old))
        self._commit([_add(name, 1000, self._at()) for name in names])
        self._commit([_remove(name, 1000, self._at()) for name in names])

    def _at(self) -> float:
        return _now() - 30 * _DAY + 60 * self.version

    def _file(self, version: int) -> Path:
        return self.root / "_delta_log" / f"{version:020d}.json"

    def _commit(self, lines: list[str]) -> None:
        while self._file(self.version).exists():  # the native VACUUM commits, too
            self.version += 1
        at = self._at()
        info = json.dumps({"commitInfo": {"timestamp": int(at * 1000), "operation": "WRITE"}})
        path = self._file(self.version)
        with path.open("w") as out:
            out.writelines(f"{line}\n" for line in [info, *lines])
        os.utime(path, (at, at))
        # As Delta's own writers leave it: the table's totals, without a read of its state.
        known = {"tableSizeBytes": self.live << 20, "numFiles": self.live, "numMetadata": 1, "numProtocol": 1}
        summary = known | {"metadata": self.meta, "protocol": _PROTOCOL}
        path.with_suffix(".crc").write_text(json.dumps(summary))
        self.version += 1

    @property
    def name(self) -> str:
        return str(self.root)

    def natives(self) -> dict[str, Callable[[], object]]:
        at = f"delta.`{self.root}`"
        return {
            "VACUUM LITE": lambda: self.spark.sql(f"VACUUM {at} LITE").collect(),
            "VACUUM (FULL)": lambda: self.spark.sql(f"VACUUM {at}").collect(),
        }

    def ours(self) -> Callable[[], int]:
        opened = lk.table(self.spark, self.name)
        return lambda: opened.vacuum(options={"vacuum.max-share": 1}).deleted_files_count

    def dead_left(self) -> int:
        return sum(1 for _ in self.root.glob("dead-*"))


@dataclass
class IcebergBench:
    """An Iceberg table whose live files are appended through pyiceberg, 50,000 per commit."""

    spark: Any
    root: Path
    live: int
    catalog: str
    table: Any = None

    def make(self, on_disk: bool) -> None:
        from pyiceberg.catalog.sql import SqlCatalog
        from pyiceberg.schema import Schema
        from pyiceberg.types import LongType, NestedField

        tables = SqlCatalog("ice", uri=f"sqlite:///{self.catalog}", warehouse=self.root.as_uri())
        tables.create_namespace_if_not_exists("db")
        self.table = tables.create_table(
            self.name.partition(".")[2], Schema(NestedField(1, "k", LongType(), required=False))
        )
        for start in range(0, self.live, 50_000):
            stop = min(start + 50_000, self.live)
            self._append([f"live-{i:08d}.parquet" for i in range(start, stop)], 1 << 20)
        if on_disk:
            for i in range(self.live):
                self._path(f"live-{i:08d}.parquet").touch()

    def kill(self, batch: int) -> None:
        """One append, and one commit that removes the same files."""
        names = [f"dead-{batch}-{i:05d}.parquet" for i in range(DEAD)]
        for name in names:
            self._path(name).write_bytes(b"x" * 1000)
        files = self._append(names, 1000)
        with self.table.transaction() as change, change.update_snapshot().overwrite() as over:
            for file in files:
                over.delete_data_file(file)

    def _path(self, name: str) -> Path:
        place = Path(self.table.location().removeprefix("file://")) / "data" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        return place

    def _append(self, names: list[str], size: int) -> list[Any]:
        from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
        from pyiceberg.typedef import Record

        files = []
        with self.table.transaction() as change, change.update_snapshot().fast_append() as append:
            for name in names:
                file = DataFile.from_args(
                    content=DataFileContent.DATA,
                    file_path=f"{self.table.location()}/data/{name}",
                    file_format=FileFormat.PARQUET,
                    partition=Record(),
                    record_count=1000,
                    file_size_in_bytes=size,
                    column_sizes={},
                    value_counts={},
                    null_value_counts={},
                    nan_value_counts={},
                    lower_bounds={},
                    upper_bounds={},
                    split_offsets=[4],
                    sort_order_id=None,
                    spec_id=0,
                    equality_ids=None,
                    key_metadata=None,
                )
                file._spec_id = 0  # pyiceberg's own writers set this
                append.append_data_file(file)
                files.append(file)
        return files

    @property
    def name(self) -> str:
        return f"ice.db.t{self.live}"

    def natives(self) -> dict[str, Callable[[], object]]:
        given = f"table => '{self.name[4:]}', older_than => TIMESTAMP '2999-01-01', retain_last => 1"
        call = f"CALL ice.system.expire_snapshots({given})"

        def act() -> object:
            # The session caches it from before the other commits.
            self.spark.sql(f"REFRESH TABLE {self.name}")
            return self.spark.sql(call).collect()

        return {"expire_snapshots": act}

    def ours(self) -> Callable[[], int]:
        opened = lk.table(self.spark, self.name)
        call: dict[str, Any] = {
            "retention_hours": 0,
            "allow_unsafe_retention": True,
            "options": {"vacuum.max-share": 1},
        }
        return lambda: opened.vacuum(**call).deleted_by_kind.get("data", (0, 0))[0]

    def dead_left(self) -> int:
        return sum(1 for _ in self._path("x").parent.glob("dead-*"))


@contextmanager
def costs(spark: Any, name: str, live: int, into: list[Cost]) -> Iterator[Cost]:
    """Measure the block."""
    pid = int(spark.sparkContext._jvm.ProcessHandle.current().pid())
    cost = Cost(name, live, 0.0, 0.0, 0.0, 0)
    tracemalloc.start()
    cpu, wall = _cpu(pid), time.perf_counter()
    yield cost
    cost.wall, cost.cpu = time.perf_counter() - wall, _cpu(pid) - cpu
    cost.python_mb = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    into.append(cost)


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS + time.process_time()


def run(spark: Any, bench: DeltaBench | IcebergBench, natives: bool, found: list[Cost]) -> None:
    """Run our vacuum, then each native one, each on dead files of its own."""
    kind = type(bench).__name__.removesuffix("Bench")
    bench.make(on_disk=natives)
    lk.table(spark, bench.name).vacuum(retention_hours=None)  # the first reads the whole log, at any cost
    for batch in range(2):  # the first one is a warm-up
        bench.kill(batch)
        act = bench.ours()
        with costs(spark, f"{kind}, ours", bench.live, found if batch else []) as cost:
            cost.deleted = act()
        assert cost.deleted == DEAD, f"{cost.deleted} of {DEAD} were deleted"
        assert bench.dead_left() == 0
    if natives:
        for number, (name, act_natively) in enumerate(bench.natives().items()):
            bench.kill(10 + number)
            before = bench.dead_left()
            with costs(spark, f"{kind}, {name}", bench.live, found) as cost:
                act_natively()
            cost.deleted = before - bench.dead_left()
            assert cost.deleted == DEAD, f"{name} deleted {cost.deleted} of {DEAD}"


def show(found: list[Cost]) -> str:
    rows = [["", "live files", "wall s", "CPU s", "Python MB", "deleted", "wall, to the smallest"]]
    least: dict[str, float] = {}
    for cost in found:
        base = least.setdefault(cost.name, cost.wall)
        rows.append(
            [cost.name, f"{cost.live:,}", f"{cost.wall:.2f}", f"{cost.cpu:.2f}", f"{cost.python_mb:.1f}",
             f"{cost.deleted:,}", f"{cost.wall / base:.2f}"]
        )  # fmt: skip
    return page(rows, right=frozenset(range(1, 7)))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default="10000,100000,1000000")
    parser.add_argument("--formats", default="delta,iceberg")
    parser.add_argument("--natives", action="store_true")
    arguments = parser.parse_args()
    from lakekeeper.spark.session import local_session

    home = Path(tempfile.mkdtemp(prefix="lakekeeper-vacuum-"))
    spark = local_session(
        app_name="vacuum",
        warehouse=home / "warehouse",
        catalogs={"ice": f"jdbc:sqlite:{home / 'catalog.db'}"},
        conf={"spark.driver.memory": "3g", "spark.databricks.delta.snapshotPartitions": "2"},
        master="local[2]",
    )
    spark.sql("CREATE NAMESPACE IF NOT EXISTS ice.warm")
    found: list[Cost] = []
    for form in arguments.formats.split(","):
        for size in map(int, arguments.sizes.split(",")):
            bench: DeltaBench | IcebergBench
            if form == "delta":
                bench = DeltaBench(spark, home / f"delta-{size}", size)
            else:
                bench = IcebergBench(spark, home / "warehouse", size, str(home / "catalog.db"))
            run(spark, bench, arguments.natives, found)
            print(show(found), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
