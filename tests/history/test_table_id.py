"""One table has several names: each of them finds it, and none finds another table."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakekeeper.history.table_id import TableId

EVENTS = TableId("ice", "db", "events", "iceberg")
DASHED = TableId("ice", "db", "my-table", "iceberg")
NESTED = TableId("ice", "a.b", "t", "iceberg")
ROOT = TableId("ice", "", "t", "iceberg")
SLASHED = TableId("ice", "db", "a/b", "iceberg")
TICKED = TableId("ice", "db", "a`b", "iceberg")
BY_PATH = TableId("", "", "/data/t", "delta")
GLOB = TableId("", "", "/data/t[1]", "delta")
FAR = TableId("", "", "s3a://lake/t", "delta")
USER = TableId("", "", "s3a://key:se/cret@lake/t", "delta")
CONTAINER = TableId("", "", "abfss://sales@acct/t", "delta")
ALL = (EVENTS, DASHED, NESTED, ROOT, SLASHED, TICKED, BY_PATH, GLOB, FAR, USER, CONTAINER)


@pytest.mark.parametrize(
    "table, name",
    [
        (EVENTS, "ice.db.events"),
        (EVENTS, "db.events"),
        (EVENTS, "`ice`.db.`events`"),
        (DASHED, "ice.db.my-table"),
        (DASHED, "ice.db.`my-table`"),
        (DASHED, "db.`my-table`"),
        (NESTED, "ice.a.b.t"),
        (NESTED, "a.b.t"),
        (ROOT, "ice.t"),
        (SLASHED, "ice.db.a/b"),
        (SLASHED, "ice.db.`a/b`"),
        (TICKED, "ice.db.`a``b`"),
        (TICKED, "ice.db.a`b"),
        (BY_PATH, "/data/t"),
        (BY_PATH, "/data//x/../t/"),
        (BY_PATH, "file:/data/t"),
        (BY_PATH, "file:///data/t/"),
        (BY_PATH, "delta.`/data/t`"),
        (BY_PATH, "DELTA.`file:/data/t`"),
        (GLOB, "/data/t[1]"),
        (GLOB, "file:/data/t[1]"),
        (FAR, "s3a://lake/t/"),
        (FAR, "delta.`s3a://lake//t`"),
        (USER, "s3a://key:se/cret@lake//t"),
        (USER, "delta.`s3a://key:se/cret@lake/t/`"),
        (USER, "s3a://***@lake/t"),
        (CONTAINER, "abfss://sales@acct//t/"),
    ],
)
def test_a_table_is_found_by_each_of_its_names(table: TableId, name: str) -> None:
    assert table.is_called(name)
    assert table.matches(name)
    assert [each for each in ALL if each.is_called(name)] == [table]
    assert TableId.named(name).is_called(str(table))


@pytest.mark.parametrize(
    "pattern, found",
    [
        ("ice.db.*", [EVENTS, DASHED, SLASHED, TICKED]),
        ("db.`my-*`", [DASHED]),
        ("*.events", [EVENTS]),
        ("/data/*", [BY_PATH, GLOB]),
        ("/data/t?1?", [GLOB]),
        ("s3a://lake/*", [FAR]),
        ("*", list(ALL)),
        ("", []),
        ("`", []),
        ("ice.other.*", []),
        ("other.db.events", []),
        ("ice.db.event", []),
    ],
)
def test_a_pattern_finds_the_tables_that_it_describes(pattern: str, found: list[TableId]) -> None:
    assert [each for each in ALL if each.matches(pattern)] == found


def test_a_name_without_its_catalog_means_the_table_in_any_catalog() -> None:
    known = TableId.named("db.events")
    assert known.is_called("ice.db.events")
    assert known.is_called("db.events")
    assert not TableId.named("ice.db.events").is_called("lake.db.events")
    assert not known.is_called("ice.other.events")


def test_a_relative_path_is_that_of_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert TableId.named("wh/t") == TableId("", "", str(tmp_path / "wh" / "t"))
