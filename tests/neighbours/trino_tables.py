"""Tables that Spark creates and Trino changes, with their expected rows."""

from __future__ import annotations

import hashlib
import itertools
import random
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

import lakekeeper as lk
from tests.neighbours.trino_server import Trino

Row = tuple[int, int, str]
KINDS = ("delta-vectors", "delta-plain", "iceberg-v2", "iceberg-v3")
FORMAT = {
    "delta-vectors": "Delta, deletion vectors",
    "delta-plain": "Delta, no deletion vectors",
    "iceberg-v2": "Iceberg v2",
    "iceberg-v3": "Iceberg v3",
}
_PROPERTIES = {
    "delta-vectors": "'delta.enableDeletionVectors'='true'",
    "delta-plain": "'delta.enableDeletionVectors'='false'",
    "iceberg-v2": "'format-version'='2', 'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read'",
    "iceberg-v3": "'format-version'='3', 'write.delete.mode'='merge-on-read'",
}
_COLUMNS = "id", "cast(pmod(id * 919, 1000) AS int) AS k", "md5(cast(id AS string)) AS v"
"""As ``_appended`` computes them."""
OURS = 10
"""Rows whose id modulo a hundred is below this are deleted only by lakekeeper: no Trino statement touches them."""
_numbers = itertools.count()


@dataclass
class Shared:
    """A table by its name in Spark and in Trino, and the rows of all statements so far, by id."""

    spark: SparkSession
    trino: Trino
    kind: str
    name: str
    in_trino: str
    rows: dict[int, Row] = field(default_factory=dict)
    next_id: int = 0
    deleted: int = 0
    turn: threading.Lock = field(default_factory=threading.Lock)
    """Who changes rows: this object or Trino. Only lakekeeper's maintenance runs beside statements."""

    @property
    def vectors_hidden(self) -> bool:
        """Whether Trino cannot read deletes of this table: Trino 476 does not support Iceberg v3's deletion vectors."""
        return self.kind == "iceberg-v3"

    def append(self, files: int, rows: int) -> None:
        """Append ``count`` files by Spark, each over the whole range of ``k``."""
        with self.turn:
            self._append(files, rows)

    def _append(self, files: int, rows: int) -> None:
        first, self.next_id = self.next_id, self.next_id + files * rows
        self.spark.range(first, self.next_id, 1, files).selectExpr(*_COLUMNS).writeTo(self.name).append()
        self.rows |= {row[0]: row for row in _appended(first, self.next_id)}

    def delete_some(self) -> None:
        """Delete one row in a hundred of every file, by lakekeeper's own delete."""
        digit, self.deleted = self.deleted % OURS, self.deleted + 1
        where = f"id < {self.next_id} AND id % 100 = {digit}"
        with self.turn:
            lk.table(self.spark, self.name).delete(where)
            for key in [key for key in self.rows if key < self.next_id and key % 100 == digit]:
                del self.rows[key]

    def by_spark(self) -> dict[int, Row]:
        self.spark.catalog.refreshTable(self.name)  # Spark's catalog caches tables for a while
        columns = self.spark.table(self.name).select("id", "k", "v").toArrow().columns
        return _by_id(list(zip(*(column.to_pylist() for column in columns), strict=True)))

    def by_trino(self) -> dict[int, Row]:
        return _by_id([tuple(row) for row in self.trino.run(f"SELECT id, k, v FROM {self.in_trino}")])

    def wrong(self) -> str:
        """How the rows differ from the expected ones, by both engines if both can read; empty if they do not."""
        readers = {"Spark": self.by_spark} | ({} if self.vectors_hidden else {"Trino": self.by_trino})
        texts = []
        for reader, read in readers.items():
            found = read()
            bad = [key for key in found.keys() | self.rows.keys() if found.get(key) != self.rows.get(key)]
            if bad:
                texts.append(f"{reader}: {len(bad)} rows, as id {bad[0]}: {found.get(bad[0])}")
        return "; ".join(texts)


def _appended(first: int, end: int) -> Iterator[Row]:
    """The rows of these ids."""
    return (
        (key, key * 919 % 1000, hashlib.md5(str(key).encode(), usedforsecurity=False).hexdigest())
        for key in range(first, end)
    )


def _by_id(rows: list[Row]) -> dict[int, Row]:
    found = {row[0]: row for row in rows}
    assert len(found) == len(rows), "duplicate rows"
    return found


def made(spark: SparkSession, trino: Trino, warehouse: Path, kind: str, partitioned: str = "") -> Shared:
    """An empty table of a kind."""
    short = f"{kind.replace('-', '_')}_{next(_numbers)}"
    path = warehouse / "shared" / short
    delta = kind.startswith("delta")
    name = f"spark_catalog.shared.{short}" if delta else f"ice.shared.{short}"
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {name.rpartition('.')[0]}")
    by = f"PARTITIONED BY ({partitioned})" if partitioned else ""
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT, k INT, v STRING) USING {'delta' if delta else 'iceberg'} {by} "
        f"LOCATION 'file://{path}' TBLPROPERTIES ({_PROPERTIES[kind]})"
    )
    return Shared(spark, trino, kind, name, trino.register(path, short) if delta else name)


class Statements:
    """Trino's statements on a table, one after the other: inserts, updates, deletes and merges of single rows."""

    def __init__(self, table: Shared, seed: int = 21) -> None:
        self._table, self._random = table, random.Random(seed)
        self._new = itertools.count(10_000_010)
        self.done = 0

    def one(self) -> None:
        """The next statement. Raises TrinoFailed."""
        with self._table.turn:
            self._next()

    def delete(self) -> None:
        """Delete one row. Raises TrinoFailed."""
        with self._table.turn:
            self._run(*self._delete(self._some_id()))

    def _some_id(self) -> int:
        """The id of a row that only Trino changes."""
        some = self._random.choices(tuple(self._table.rows), k=100)
        return next(key for key in some if key % 100 >= OURS)

    def _next(self) -> None:
        inserts_only = self._table.vectors_hidden
        verbs = [self._insert] if inserts_only else [self._insert, self._update, self._delete, self._merge]
        self._run(*verbs[self.done % len(verbs)](self._some_id()))

    def _run(self, changes: dict[int, Row | None], statement: str) -> None:
        self._table.trino.run(statement)
        self.done += 1
        for key, row in changes.items():
            if row is None:
                del self._table.rows[key]
            else:
                self._table.rows[key] = row

    def _insert(self, _key: int) -> tuple[dict[int, Row | None], str]:
        new = [(next(self._new), self._random.randrange(1000), f"i{self.done}") for _ in range(3)]
        return {row[0]: row for row in new}, f"INSERT INTO {self._table.in_trino} VALUES {_values(new)}"

    def _update(self, key: int) -> tuple[dict[int, Row | None], str]:
        after = (key, self._table.rows[key][1], f"u{self.done}")
        return {key: after}, f"UPDATE {self._table.in_trino} SET v = '{after[2]}' WHERE id = {key}"

    def _delete(self, key: int) -> tuple[dict[int, Row | None], str]:
        return {key: None}, f"DELETE FROM {self._table.in_trino} WHERE id = {key}"

    def _merge(self, key: int) -> tuple[dict[int, Row | None], str]:
        old, new = (key, self._table.rows[key][1], f"m{self.done}"), (next(self._new), 5, f"m{self.done}")
        statement = (
            f"MERGE INTO {self._table.in_trino} t USING (VALUES {_values([old, new])}) AS s(id, k, v) ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (id, k, v) VALUES (s.id, s.k, s.v)"
        )
        return {key: old, new[0]: new}, statement


def _values(rows: list[Row]) -> str:
    return ", ".join(f"(BIGINT '{row[0]}', {row[1]}, '{row[2]}')" for row in rows)
