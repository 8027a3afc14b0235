"""A table dropped and created again under one Table object: nothing known of the first is used for the second."""

from __future__ import annotations

import pytest

import lakekeeper as lk
from tests.formats.lakes import Lake
from tests.observers import once_at


def fill(lake: Lake, name: str, start: int, end: int) -> None:
    lake.spark.range(start, end, 1, numPartitions=8).selectExpr("cast(id AS int) AS k").writeTo(name).append()


def recreated(lake: Lake) -> tuple[str, lk.Table]:
    """The second table, empty. The object has read three commits of the first, the last of which is a delete."""
    name = lake.create("k INT")
    fill(lake, name, 0, 80)
    fill(lake, name, 80, 160)
    table = lake.table(name)
    table.compact(dry_run=True)
    lake.spark.sql(f"DELETE FROM {name} WHERE k < 80")
    table.compact(dry_run=True)
    lake.spark.sql(f"DROP TABLE {name}" + (" PURGE" if lake.iceberg else ""))
    return lake.create("k INT", name=name), table


def keys(lake: Lake, name: str) -> list[int]:
    return sorted(row[0] for row in lake.spark.table(name).collect())


def test_a_delete_sees_every_commit_of_the_new_table(lake: Lake) -> None:
    """Loss L105: a commit of the first table was taken for the new table's, whose files were not searched."""
    name, table = recreated(lake)
    fill(lake, name, 0, 40)
    fill(lake, name, 40, 80)
    table.compact(dry_run=True)
    fill(lake, name, 100, 140)
    assert table.delete("k >= 60").deleted_rows_count == 60
    assert keys(lake, name) == list(range(60))


@pytest.mark.parametrize("looked", [False, True], ids=["not looked at before", "looked at before"])
def test_a_delete_that_wins_a_race_on_the_new_table_is_replayed(lake: Lake, looked: bool) -> None:
    """Loss L105: the winner was taken for a commit of the first table; deleted rows were back, others doubled."""
    name, table = recreated(lake)
    fill(lake, name, 0, 80)
    fill(lake, name, 80, 160)
    if looked:
        table.compact(dry_run=True)
    win = once_at("before_commit", lambda: lake.spark.sql(f"DELETE FROM {name} WHERE k % 2 = 0"))
    table.compact(observer=win)
    assert keys(lake, name) == list(range(1, 160, 2))
