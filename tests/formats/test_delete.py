"""``t.delete(where)`` on all kinds of tables: it deletes exactly the matching rows and changes no older version."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import functions as F

from lakekeeper.errors import OptionError
from tests.formats.lakes import Lake
from tests.observers import once_at


def ids(lake: Lake, name: str) -> list[int]:
    return sorted(row.id for row in lake.spark.table(name).select("id").collect())


@pytest.mark.parametrize(
    "where, doomed",
    [
        ("id % 7 = 3", lambda i: i % 7 == 3),
        ("id BETWEEN 90 AND 110", lambda i: 90 <= i <= 110),
        ("id < 100", lambda i: i < 100),  # a whole file
        ("id = 5 OR v IS NULL", lambda i: i == 5),
        ("true", lambda i: i >= 0),
    ],
)
def test_exactly_the_matching_rows_are_deleted(lake: Lake, where: str, doomed: Any) -> None:
    name = lake.overlapping(3, 100)
    versions = {v: lake.fingerprint(name, v) for v in lake.versions(name)}
    report = lake.table(name).delete(where)
    expected = [i for i in range(300) if not doomed(i)]
    assert ids(lake, name) == expected
    assert report.deleted_rows_count == 300 - len(expected)
    assert report.changed
    assert (report.retries, report.winners) == (0, ())
    assert {v: lake.fingerprint(name, v) for v in versions} == versions
    assert lake.versions(name)[-1] == report.version_after


def test_a_column_selects_the_same_rows_as_text(lake: Lake) -> None:
    name = lake.overlapping(3, 100)
    report = lake.table(name).delete((F.col("id") % 7 == 3) | (F.col("v") == "it's"))
    assert report.deleted_rows_count == 43
    assert ids(lake, name) == [i for i in range(300) if i % 7 != 3]
    assert lake.table(name).drop_partition(lake.spark.table(name)["id"] < 100, force=True).changed
    assert min(ids(lake, name)) == 100


def test_nothing_is_committed_where_nothing_matches(lake: Lake) -> None:
    name = lake.overlapping(2, 50)
    table, versions, files = lake.table(name), lake.versions(name), lake.on_disk(name)
    for where in ("id = 1000", "k IS NULL", "false"):
        report = table.delete(where)
        assert (report.changed, report.deleted_rows_count, report.run_id) == (False, 0, "")
        assert "no row matches" in str(report)
    assert (lake.versions(name), lake.on_disk(name)) == (versions, files)


def test_rows_that_are_deleted_already_are_not_counted_twice(lake: Lake) -> None:
    name = lake.overlapping(2, 50)
    table = lake.table(name)
    assert table.delete("id < 10").deleted_rows_count == 10
    assert table.delete("id < 15").deleted_rows_count == 5
    lake.spark.sql(f"DELETE FROM {name} WHERE id = 20")
    assert table.delete("id < 30").deleted_rows_count == 14
    assert ids(lake, name) == list(range(30, 100))


def test_partitions_nested_columns_and_odd_names(lake: Lake) -> None:
    name = lake.create("id bigint, p string, s struct<a: int, `b.c`: string>", partitioned="p")
    made = (
        "id",
        "if(id % 2 = 0, 'a b', 'ä%20+#:') p",
        "named_struct('a', cast(id as int), 'b.c', if(id % 5 = 0, null, 'x')) s",
    )
    lake.append(name, lake.spark.range(40).selectExpr(*made).sortWithinPartitions("p"))
    table = lake.table(name)
    assert table.delete("p = 'ä%20+#:' AND s.a < 20").deleted_rows_count == 10
    assert table.delete("s.`b.c` IS NULL").deleted_rows_count == len([0, 10, 20, 25, 30, 35])
    gone = {i for i in range(40) if (i % 2 and i < 20) or i % 5 == 0}
    assert ids(lake, name) == sorted(set(range(40)) - gone)


def test_a_delete_whose_files_were_rewritten_finds_its_rows(lake: Lake) -> None:
    name = lake.overlapping(4, 100)
    table = lake.table(name)
    table.cluster_by("k")

    def rival() -> None:
        assert lake.table(name).recluster(options={"commit.quiet-window-ms": 0}).changed

    report = table.delete("id % 4 = 1", observer=once_at("before_commit", rival))
    assert ids(lake, name) == [i for i in range(400) if i % 4 != 1]
    assert (report.deleted_rows_count, report.retries) == (100, 1)
    assert report.followed_rows_count == 100
    assert len(report.winners) == 1
    assert "found again after" in str(report)


@pytest.mark.parametrize(
    "where, said",
    [
        ("", "'true' deletes every row"),
        ("  ", "'true' deletes every row"),
        (None, "'true' deletes every row"),
        ("idd = 1", "did you mean 'id'"),
        ("id =", "it cannot be parsed"),
        ("id IN (SELECT 1)", "not a subquery"),
        ("rand() < 0.5", "not deterministic"),
        ("id < unix_timestamp()", "depends on the current time"),
        ("v = current_user()", "depends on the session"),
    ],
)
def test_a_bad_where_is_refused_before_anything_is_written(lake: Lake, where: Any, said: str) -> None:
    name = lake.overlapping(1, 10)
    table, versions, files = lake.table(name), lake.versions(name), lake.on_disk(name)
    with pytest.raises(OptionError, match=said) as raised:
        table.delete(where)
    assert raised.value.key == "where"
    with pytest.raises(OptionError, match=r"did you mean 'commit\.retry\.num-retries'"):
        table.delete("id = 1", options={"commit.retry.num-retires": 1})
    assert (lake.versions(name), lake.on_disk(name)) == (versions, files)
