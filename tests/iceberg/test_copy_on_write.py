"""Deletes on format 1 tables, which copy files without the deleted rows: a concurrent change of such a file wins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import lakekeeper as lk
from lakekeeper.opening import open_adapter
from lakekeeper_iceberg import IcebergTable, staging
from lakekeeper_iceberg.native import Iceberg
from tests.iceberg.scene import Scene
from tests.iceberg.swaps import tampered
from tests.opening import table_with

pytestmark = pytest.mark.iceberg

COMPACTION = "CALL ice.system.rewrite_data_files(table => '{t}', options => map('rewrite-all', 'true'))"
RIVALS = {
    "compaction": (COMPACTION, lambda k, d: (k, d)),
    "update": ("UPDATE {t} SET d = d + 10 WHERE k = 7", lambda k, d: (k, d + 10 if k == 7 else d)),
    "delete": ("DELETE FROM {t} WHERE k IN (5, 8)", lambda k, d: None if k in (5, 8) else (k, d)),
    "append": ("INSERT INTO {t} VALUES (1000, 1)", lambda k, d: (k, d)),
}


@pytest.fixture
def table(scene: Scene) -> Scene:
    scene.create("k BIGINT, d INT", 1, more="PARTITIONED BY (d)")
    for d in (0, 1):
        scene.run(f"INSERT INTO {{t}} SELECT /*+ COALESCE(1) */ id, {d} FROM range({d}, 100, 2)")
    return scene


def rows(scene: Scene) -> list[tuple[int, int]]:
    assert scene.spark_rows() == scene.log_rows()
    return sorted((row.k, row.d) for row in scene.spark.table(scene.sql).collect())


def expected(keep: Callable[[int, int], bool], rival: str, after: bool) -> list[tuple[int, int]]:
    """Rows of a table on which the delete and the rival ran one after the other."""
    change: Any = RIVALS[rival][1]
    start = [(k, k % 2) for k in range(100)] + ([(1000, 1)] if rival == "append" else [])
    left = [row for row in start if keep(*row)] if not after else start
    left = [new for row in left if (new := change(*row)) is not None]
    return sorted(left if not after else [row for row in left if keep(*row)])


VERBS: dict[str, tuple[str, Callable[[int, int], bool]]] = {
    "delete": ("k = 1", lambda k, _: k != 1),
    "drop_partition": ("d = 1", lambda _, d: d != 1),
    "part of a partition": ("d = 1 AND k < 50", lambda k, d: not (d == 1 and k < 50)),
}


@pytest.mark.parametrize("rival", RIVALS)
@pytest.mark.parametrize("verb", ["delete", "part of a partition"])
def test_a_rival_commits_after_files_were_copied(
    table: Scene, rival: str, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    where, keep = VERBS[verb]
    left, real = [RIVALS[rival][0]], staging.copy_live_rows

    def late(*args: Any, **named: Any) -> Any:
        made = real(*args, **named)
        if left:
            table.run(left.pop())
        return made

    monkeypatch.setattr(staging, "copy_live_rows", late)
    lk.table(table.spark, table.sql).delete(where)
    assert not left
    assert rows(table) == expected(keep, rival, after=True)


@pytest.mark.parametrize("rival", RIVALS)
@pytest.mark.parametrize("verb", VERBS)
def test_a_rival_commits_before_the_swap(table: Scene, rival: str, verb: str) -> None:
    """After all checks that are possible before the snapshot is created."""
    where, keep = VERBS[verb]
    left = [RIVALS[rival][0]]
    adapter, swaps = tampered(table.spark, table.sql)
    opened = table_with(table.spark, table.sql, lambda _: adapter)

    def race(real: Any, base: Any, updated: Any) -> None:
        if left:
            table.run(left.pop())
        real.commit(base, updated)

    act = opened.drop_partition if verb == "drop_partition" else opened.delete
    with swaps.acting(race):
        act(where)
    assert not left
    assert rows(table) == expected(keep, rival, after=True)


class Unchecked:
    """A pending overwrite before the fix: nothing is validated, so a file to remove may already be gone."""

    def __init__(self, pending: Any) -> None:
        self._pending = pending

    def __getattr__(self, name: str) -> Any:
        if name.startswith("validate") or name == "conflictDetectionFilter":
            return lambda *_: self
        call = getattr(self._pending, name)
        return call if name == "set" else lambda *given: Unchecked(call(*given))


class Transaction:
    """An Iceberg transaction that passes its overwrites through ``wrap``."""

    def __init__(self, real: Any, wrap: Callable[[Any], Any]) -> None:
        self._real = real
        self._wrap = wrap

    def newOverwrite(self) -> Any:  # noqa: N802  # Iceberg's name
        return self._wrap(self._real.newOverwrite())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class Raced:
    """A table object whose ``rival`` commits just before its first transaction begins."""

    def __init__(self, table: Any, rival: Callable[[], Any], wrap: Callable[[Any], Any]) -> None:
        self._table = table
        self._rival = [rival]
        self._wrap = wrap

    def newTransaction(self) -> Any:  # noqa: N802  # Iceberg's name
        while self._rival:
            self._rival.pop()()
            self._table.refresh()
        return Transaction(self._table.newTransaction(), self._wrap)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # py4j checks whether an argument is a list or a map
            raise AttributeError(name)
        return getattr(self._table, name)


@pytest.mark.parametrize(
    "wrap, left", [(lambda pending: pending, 99), (Unchecked, 149)], ids=["fixed", "not"]
)
def test_a_compaction_commits_after_all_our_own_checks(
    table: Scene, wrap: Callable[[Any], Any], left: int
) -> None:
    """Only Iceberg's validation remains. Without it, the copies of 49 rows are added to the files of the compaction."""
    name, jvm = open_adapter(table.spark, table.sql).name, Iceberg(table.spark)
    adapter = IcebergTable(jvm, name, Raced(jvm.load(name.sql), lambda: table.run(COMPACTION), wrap))
    table_with(table.spark, table.sql, lambda _: adapter).delete("k = 1")
    found = rows(table)
    assert len(found) == left
    assert (found == expected(VERBS["delete"][1], "compaction", after=True)) == (left == 99)


def test_a_table_that_is_upgraded_while_files_are_copied(
    table: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A delete file on a copied file would no longer apply: the deleted row reappears with the copy."""
    upgrade = "ALTER TABLE {t} SET TBLPROPERTIES ('format-version'='2', 'write.delete.mode'='merge-on-read')"
    left, real = [upgrade, "DELETE FROM {t} WHERE k = 7"], staging.copy_live_rows

    def late(*args: Any, **named: Any) -> Any:
        made = real(*args, **named)
        while left:
            table.run(left.pop(0))
        return made

    monkeypatch.setattr(staging, "copy_live_rows", late)
    lk.table(table.spark, table.sql).delete("k = 1")
    assert rows(table) == [(k, d) for k, d in sorted((k, k % 2) for k in range(100)) if k not in (1, 7)]


@pytest.mark.parametrize("rival", RIVALS)
def test_the_delete_commits_first(table: Scene, rival: str) -> None:
    lk.table(table.spark, table.sql).delete("k = 1")
    table.run(RIVALS[rival][0])
    assert rows(table) == expected(VERBS["delete"][1], rival, after=False)
