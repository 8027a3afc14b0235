"""Tables to break: created once, restored for each case by copying files, and read by independent readers.

    base     four files in two groups of overlapping keys, one row deleted
    won      a concurrent commit upon it, made beforehand too: copying its files lands it

All rows have known ids, so the expected rows of each version are a set of numbers that comes from no reader.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyiceberg.table import StaticTable
from pyspark.sql import SparkSession

from lakekeeper.api import Table
from lakekeeper.engine.clock import Clock
from lakekeeper.spark.jvm import Jvm
from lakekeeper.spark.shims import shim
from lakekeeper.testing.values import text
from tests.opening import Wrapped, table_with
from tests.oracles import delta_log, iceberg_log

KINDS = ("delta", "iceberg-v2", "iceberg-v3")
OPTIONS = {
    "commit.quiet-window-ms": 0,
    "depth-threshold": 1.0,
    "max-concurrent-file-group-rewrites": 1,
}
READ_OFTEN = "'lakekeeper.queries-per-hour'='100000000'"
"""The tables are seconds old: at this rate, reads of overlapping files have paid for a rewrite."""
_FILES = [frozenset(range(start, start + 10)) for start in range(0, 40, 10)]
_ALREADY = frozenset({11})
USERS = frozenset({3, 14})
"""Rows that a concurrent user deletes: all in one of the two groups."""


@dataclass(frozen=True)
class Seen:
    """A version in the log, with the run id of its commit (``""`` if it is not ours)."""

    version: int
    run_id: str


@dataclass(frozen=True)
class Kept:
    """A saved state of the table: its files, its versions, and the catalog's pointer."""

    files: Path
    log: tuple[Seen, ...]
    pointer: str = ""


@dataclass
class Ground:
    """One kind of table. ``home`` is the folder of the table under test."""

    spark: SparkSession
    kind: str
    root: Path
    home: Path = field(init=False)
    base: Kept = field(init=False)
    won: dict[str, Kept] = field(default_factory=dict)
    held: list[frozenset[int]] = field(default_factory=list)
    """Ids of the rows of each version of the base, as they were written."""

    def __post_init__(self) -> None:
        self.home = self.root / "table"
        self._make()
        self.base = self._keep("base")
        self.won["delete"] = self._winner("delete", self._delete_by_user)
        self.won["layout"] = self._winner("layout", lambda: self.table().recluster("k", options=OPTIONS))

    # ---------------------------------------------------------------------------------------------- put in place

    def fresh(self) -> None:
        """Restore the table to its initial state, for all sessions."""
        shutil.rmtree(self.home)
        shutil.copytree(self.base.files, self.home)
        self._point(self.base)
        self.forget()

    def land(self, winner: str) -> None:
        """The concurrent writer's commit upon the base lands, at once."""
        kept = self.won[winner]
        add_files(kept.files, self.home)
        self._point(kept)

    def table(self, wrapped: Wrapped = lambda adapter: adapter, *, later_ms: int = 0) -> Table:
        """The table, newly opened without cached state and without waits, ``hours`` later."""
        self.forget()
        now_ms = Clock().now_ms
        patient = Clock(now_ms=lambda: now_ms() + later_ms, wait=lambda _: None)
        return table_with(self.spark, self.sql, wrapped, clock=patient)

    def _keep(self, name: str) -> Kept:
        files = self.root / name
        shutil.copytree(self.home, files)
        return Kept(files, tuple(self.log()), self._pointer())

    def _winner(self, name: str, act: Any) -> Kept:
        self.fresh()
        act()
        return self._keep(name)

    def _delete_by_user(self) -> None:
        self.spark.sql(f"DELETE FROM {self.sql} WHERE id IN ({', '.join(map(str, USERS))})")

    def _make(self) -> None:
        ids: frozenset[int] = frozenset()
        for rows in _FILES:
            made = self.spark.range(min(rows), max(rows) + 1).selectExpr(*_columns())
            self._append(made.coalesce(1))
            ids |= rows
            self.held.append(ids)
        self.spark.sql(f"DELETE FROM {self.sql} WHERE id IN ({', '.join(map(str, _ALREADY))})")
        self.held.append(ids - _ALREADY)

    def _append(self, frame: Any) -> None:
        raise NotImplementedError

    # ------------------------------------------------------------------------------------------------ looked at

    @property
    def sql(self) -> str:
        raise NotImplementedError

    def log(self) -> list[Seen]:
        """All versions, oldest first."""
        raise NotImplementedError

    def rows(self, version: int) -> Counter[str]:
        """Rows of a version without Spark and without the format's library in the JVM."""
        raise NotImplementedError

    def expected(self, ids: frozenset[int]) -> Counter[str]:
        """The rows with these ids, in the readers' representation."""
        raise NotImplementedError

    def spark_rows(self, version: int | None = None) -> Counter[str]:
        raise NotImplementedError

    def named(self) -> set[Path]:
        """Files that any version references."""
        raise NotImplementedError

    def live(self) -> set[Path]:
        """Data files of the newest version."""
        raise NotImplementedError

    def needed(self) -> set[Path]:
        """Files that the newest version references."""
        raise NotImplementedError

    def on_disk(self) -> set[Path]:
        """Data files, delete files and Iceberg's manifests below the table."""
        found = (p for p in self.home.rglob("*") if p.suffix in (".parquet", ".bin", ".puffin", ".avro"))
        return {p for p in found if "_delta_log" not in p.parts and not p.name.startswith(".")}

    def _pointer(self) -> str:
        return ""

    def _point(self, kept: Kept) -> None:
        """Set the catalog's pointer to a saved state."""

    def forget(self) -> None:
        """Drop the session's cache of the table."""
        raise NotImplementedError


def _row(number: int) -> dict[str, Any]:
    return {"id": number, "k": (number * 37) % 100 + (0 if number < 20 else 1000), "v": f"v{number}"}


def _columns() -> tuple[str, ...]:
    return "id", "cast((id * 37) % 100 + if(id < 20, 0, 1000) AS int) AS k", "concat('v', id) AS v"


class DeltaGround(Ground):
    """A Delta table with deletion vectors."""

    @property
    def sql(self) -> str:
        return f"delta.`{self.home}`"

    def _append(self, frame: Any) -> None:
        if not self.held:
            properties = f"{READ_OFTEN}, 'delta.enableDeletionVectors'='true'"
            self.spark.sql(
                f"CREATE TABLE {self.sql} (id BIGINT, k INT, v STRING) USING delta TBLPROPERTIES ({properties})"
            )
            self.held.append(frozenset())
        frame.write.format("delta").mode("append").save(str(self.home))

    def log(self) -> list[Seen]:
        return [Seen(version, self._run_id(version)) for version in delta_log.versions(self.home)]

    def _run_id(self, version: int) -> str:
        info = next(a["commitInfo"] for a in delta_log.commit(self.home, version) if "commitInfo" in a)
        return str((info.get("tags") or {}).get("lakekeeper.run", ""))

    def rows(self, version: int) -> Counter[str]:
        return delta_log.rows(self.home, version)

    def expected(self, ids: frozenset[int]) -> Counter[str]:
        return Counter(delta_log.canonical(_row(number)) for number in ids)

    def spark_rows(self, version: int | None = None) -> Counter[str]:
        reader = self.spark.read.format("delta")
        reader = reader if version is None else reader.option("versionAsOf", version)
        return Counter(
            delta_log.canonical(r) for r in shim().to_arrow(reader.load(str(self.home))).to_pylist()
        )

    def named(self) -> set[Path]:
        actions = [a for v in delta_log.versions(self.home) for a in delta_log.commit(self.home, v)]
        files = [a[kind] for a in actions for kind in ("add", "remove", "cdc") if kind in a]
        return {self.home / path for file in files for path in delta_log.files_of(file)}

    def live(self) -> set[Path]:
        return {self.home / path for path, _ in delta_log.replay(self.home).adds}

    def needed(self) -> set[Path]:
        adds = delta_log.replay(self.home).adds.values()
        return {self.home / path for add in adds for path in delta_log.files_of(add)}

    def forget(self) -> None:
        Jvm(self.spark).view.org.apache.spark.sql.delta.DeltaLog.clearCache()


class IcebergGround(Ground):
    """A table whose catalog stores its pointers in a SQLite file; its location can be copied."""

    catalog = "ice"

    @property
    def sql(self) -> str:
        return f"{self.catalog}.faults.{self.name}"

    @property
    def name(self) -> str:
        return f"{self.root.name}".replace("-", "_")

    def _append(self, frame: Any) -> None:
        if not self.held:
            self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {self.catalog}.faults")
            properties = (
                f"{READ_OFTEN}, 'format-version'='{self.kind[-1]}', 'write.delete.mode'='merge-on-read'"
            )
            self.spark.sql(
                f"CREATE TABLE {self.sql} (id BIGINT, k INT, v STRING) USING iceberg "
                f"LOCATION '{self.home}' TBLPROPERTIES ({properties})"
            )
        frame.writeTo(self.sql).append()

    def _metadata(self) -> StaticTable:
        return StaticTable.from_metadata(self._pointer())

    def log(self) -> list[Seen]:
        snapshots = self._metadata().metadata.snapshots
        found = []
        for snapshot in snapshots:
            summary: Mapping[str, str] = snapshot.summary.additional_properties if snapshot.summary else {}
            found.append(Seen(snapshot.snapshot_id, summary.get("lakekeeper.run-id", "")))
        return found

    def rows(self, version: int) -> Counter[str]:
        return iceberg_log.rows(self._pointer(), version)

    def expected(self, ids: frozenset[int]) -> Counter[str]:
        return Counter(text(_row(number)) for number in ids)

    def spark_rows(self, version: int | None = None) -> Counter[str]:
        reader = self.spark.read if version is None else self.spark.read.option("versionAsOf", version)
        return iceberg_log.canonical(shim().to_arrow(reader.table(self.sql)))

    def named(self) -> set[Path]:
        return self._named_by(self._metadata().metadata.snapshots)

    def needed(self) -> set[Path]:
        return self._named_by([self._metadata().current_snapshot()])

    def _named_by(self, snapshots: Iterable[Any]) -> set[Path]:
        table, found = self._metadata(), set()
        for snapshot in snapshots:
            found.add(snapshot.manifest_list)
            for manifest in snapshot.manifests(table.io):
                found.add(manifest.manifest_path)
                entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
                found |= {entry.data_file.file_path for entry in entries}
        return {_local(path) for path in found}

    def live(self) -> set[Path]:
        table = self._metadata()
        return {_local(task.file.file_path) for task in table.scan().plan_files()}

    def _pointer(self) -> str:
        with contextlib.closing(sqlite3.connect(self.catalog_file, timeout=60)) as catalog:
            select = (
                "SELECT metadata_location FROM iceberg_tables WHERE table_namespace='faults' AND table_name=?"
            )
            return str(catalog.execute(select, (self.name,)).fetchone()[0])

    def _point(self, kept: Kept) -> None:
        point_to(self.catalog_file, self.name, kept.pointer)

    @property
    def catalog_file(self) -> str:
        uri: str = self.spark.conf.get("spark.sql.catalog.ice.uri") or ""
        return uri.removeprefix("jdbc:sqlite:")

    def forget(self) -> None:
        self.spark.sql(f"REFRESH TABLE {self.sql}")


def _local(path: str) -> Path:
    return Path("/" + path.removeprefix("file:").lstrip("/"))


def add_files(kept: Path, home: Path) -> None:
    """Copy the missing files of a saved state; the log comes last."""
    files = [p.relative_to(kept) for p in sorted(kept.rglob("*")) if p.is_file()]
    for path in sorted(files, key=lambda p: p.suffix == ".json"):
        if not (home / path).exists():
            (home / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(kept / path, home / path)


def point_to(catalog_file: str, name: str, metadata: str) -> None:
    """Set a SQLite catalog's metadata file of the table."""
    with contextlib.closing(sqlite3.connect(catalog_file, timeout=60)) as catalog, catalog:
        update = (
            "UPDATE iceberg_tables SET metadata_location=? WHERE table_namespace='faults' AND table_name=?"
        )
        assert catalog.execute(update, (metadata, name)).rowcount == 1


def ground_of(spark: SparkSession, kind: str, root: Path) -> Ground:
    """A table of this kind below ``root``, created there and named after the table."""
    root.mkdir(parents=True)
    made = DeltaGround if kind == "delta" else IcebergGround
    return made(spark, kind, root)
