"""A small table and the users' changes to it, repeated in plain Python."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

import lakekeeper as lk
from tests.matrix import rows as made
from tests.matrix.rows import Row, multiset
from tests.matrix.sides import Side, side_of

Change = Callable[[list[Row]], list[Row]]

FILES = {False: 4, True: 6}
"""Files of an unpartitioned table (one group), and of a partitioned one (two groups of three)."""

_ICEBERG = {"write.distribution-mode": "none"} | {
    f"write.{verb}.mode": "merge-on-read" for verb in ("delete", "update", "merge")
}
_DEAD = (1, 4, 5)

_DELTA_TABLES: dict[str, tuple[Path, list[Row], dict[int, Counter[str]]]] = {}
"""Tables that were created once; the others are copies of them."""


@dataclass
class World:
    """A table, its current rows after the users' changes, and the rows of each version."""

    spark: SparkSession
    kind: str
    side: Side
    rows: list[Row]
    versions: dict[int, Counter[str]] = field(default_factory=dict)
    theirs: set[str] = field(default_factory=set)

    @classmethod
    def make(
        cls,
        spark: SparkSession,
        kind: str,
        folder: Path,
        *,
        partitioned: bool = False,
        deleted: bool = False,
        files: int | None = None,
    ) -> World:
        """``deleted``: three of the eight rows of each file are already masked."""
        number = files or FILES[partitioned]
        world = cls(spark, kind, side_of(spark, kind, folder), made.base(number))
        same = f"{kind} {partitioned} {deleted} {number}"
        if same in _DELTA_TABLES:
            return world.copied(*_DELTA_TABLES[same], folder)
        by = "PARTITIONED BY (p)" if partitioned else ""
        world.side.create(made.COLUMNS, more=by, properties=world.properties(deleted=deleted))
        world.run(made.insert(number))
        if deleted:
            world.run(
                f"DELETE FROM {{t}} WHERE id % {made.PER_FILE} IN {_DEAD}",
                lambda rows: [r for r in rows if r["id"] % made.PER_FILE not in _DEAD or r["id"] < 0],
            )
            if kind == "delta-copies":
                world.run("ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableDeletionVectors'='false')")
        if not world.iceberg:
            kept = Path(tempfile.mkdtemp(dir=folder.parent)) / "table"
            shutil.copytree(folder / "table", kept)
            _DELTA_TABLES[same] = kept, world.rows, dict(world.versions)
        return world

    def copied(self, table: Path, rows: list[Row], versions: dict[int, Counter[str]], folder: Path) -> World:
        """A Delta table stores paths relative to itself: a copy of the folder is a table."""
        shutil.copytree(table, folder / "table")
        self.rows, self.versions = rows, dict(versions)
        return self

    def properties(self, *, deleted: bool) -> dict[str, str]:
        if self.iceberg:
            return _ICEBERG
        return {"delta.enableDeletionVectors": str(deleted or self.kind == "delta-vectors").lower()}

    @property
    def iceberg(self) -> bool:
        return self.kind.startswith("iceberg")

    @property
    def table(self) -> lk.Table:
        return lk.table(self.spark, self.side.sql)

    def run(self, statement: str, change: Change = lambda rows: rows) -> None:
        """Run one of Spark's own statements, and apply its effect to the rows."""
        self.act(lambda: self.spark.sql(statement.replace("{t}", self.side.sql)).collect(), change)

    def act(self, act: Callable[[], object], change: Change = lambda rows: rows) -> None:
        """Run a user's action. Files that it leaves unreferenced do not count as ours."""
        before = self.side.unreferenced()
        act()
        self.theirs |= self.side.unreferenced() - before
        self.note(change)

    def note(self, change: Change = lambda rows: rows) -> None:
        """Record that users made the newest version."""
        self.rows = change(self.rows)
        self.versions[self.side.version] = multiset(self.rows)

    def check(self) -> None:
        """No version lost, regained or doubled a row, by two readers; no unreferenced file is left."""
        now = multiset(self.rows)
        assert difference(multiset(self.side.spark_records()), now) == ""
        assert difference(multiset(self.side.log_records()), now) == ""
        kept = set(self.side.versions())
        known = {v: rows for v, rows in self.versions.items() if v in kept}
        for version, rows in known.items():
            assert difference(multiset(self.side.log_records(version)), rows) == "", f"version {version}"
        for version in list(known)[-1:]:
            by_spark = multiset(self.side.spark_records(version))
            assert difference(by_spark, known[version]) == "", f"version {version}"
        assert self.side.unreferenced() <= self.theirs


def difference(found: Counter[str], expected: Counter[str]) -> str:
    """Missing and additional rows; empty if there is no difference."""
    lost, more = expected - found, found - expected
    return f"lost {dict(lost)}, too many {dict(more)}" if lost or more else ""
