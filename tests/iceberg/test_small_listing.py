"""The driver's listing of a small table has the same rows as Spark's from ``entries``."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakekeeper_iceberg import listing, small_listing
from lakekeeper_iceberg.delete_files import dangling_deletes
from lakekeeper_iceberg.native import Iceberg
from tests.iceberg.scene import Scene

pytestmark = pytest.mark.iceberg

COLUMNS = """k BIGINT, i INT, s STRING, f DOUBLE, r FLOAT, d DECIMAL(20,2), day DATE, at TIMESTAMP, b BOOLEAN,
    local TIMESTAMP_NTZ"""
ROWS = """SELECT id, cast(id AS INT), concat('ä', id), cast(id / 7 AS DOUBLE),
    if(id % 5 = 0, float('NaN'), cast(-id AS FLOAT)), cast(id - 3 AS DECIMAL(20,2)),
    date_add(date'1969-12-20', cast(id AS INT)), timestamp_micros(id * 86400000001 - 5), id % 2 = 0,
    cast(timestamp_micros(id) AS TIMESTAMP_NTZ) FROM range({0}, {1}, 1, 1)"""


def filled(scene: Scene, version: int, partitions: str = "", delete: str = "") -> Scene:
    scene.create(COLUMNS, version, more=f"PARTITIONED BY ({partitions})" if partitions else "")
    for start in (0, 10, 20):
        scene.run(f"INSERT INTO {{t}} {ROWS.format(start, start + 10)}")
    scene.run("INSERT INTO {t} (k) VALUES (NULL)")
    if delete:
        scene.run(f"DELETE FROM {{t}} WHERE {delete}")
    return scene


def both(scene: Scene, metrics: list[str]) -> tuple[tuple[pa.Table, pa.Table] | None, listing.Listing]:
    jvm = Iceberg(scene.spark)
    pinned = jvm.pinned(scene.java())
    return small_listing.list_files(jvm, pinned, metrics), listing.list_by_spark(jvm, pinned, metrics)


def assert_same(scene: Scene, metrics: list[str]) -> None:
    found, expected = both(scene, metrics)
    assert found is not None
    by = [("path", "ascending"), ("dv_offset", "ascending")]
    for mine, theirs in zip(found, (expected.data, expected.deletes), strict=True):
        assert sorted(mine.column_names) == sorted(theirs.column_names)
        same, wanted = mine.select(theirs.column_names).sort_by(by), theirs.sort_by(by)
        assert same.schema.types == wanted.schema.types
        assert str(same.to_pydict()) == str(wanted.to_pydict())  # as text, since NaN does not equal NaN


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("delete", ["", "k % 10 = 3"])
def test_bounds_of_all_types(scene: Scene, version: int, delete: str) -> None:
    filled(scene, version, delete=delete)
    for metrics in (["k", "i", "f"], ["r", "d", "day"], ["at"], []):
        assert_same(scene, metrics)


@pytest.mark.parametrize(
    "partitions", ["bucket(4, k), days(at)", "day", "i, months(at)", "truncate(s, 1)", "hours(at)"]
)
def test_partitions(scene: Scene, partitions: str) -> None:
    filled(scene, 2, partitions, "k % 10 = 3 AND i IS NOT NULL")
    if partitions.startswith("truncate"):
        scene.run("DELETE FROM {t} WHERE s IS NULL")  # null and an empty text look the same
        assert both(scene, ["k"])[0] is None, "non-ASCII text is left to Spark"
    else:
        assert_same(scene, ["k"])


def test_bounds_of_local_times(scene: Scene) -> None:
    """Some sessions lack them in ``readable_metrics``, so the two listings are not compared."""
    filled(scene, 2)
    found, _ = both(scene, ["local"])
    assert found is not None
    lows = found[0]["lower_bound_0"].drop_null().cast(pa.int64()).to_pylist()
    assert sorted(lows) == [0, 10, 20]  # microseconds since the epoch


def test_renamed_and_widened_columns(scene: Scene) -> None:
    filled(scene, 2)
    scene.run("ALTER TABLE {t} ALTER COLUMN i TYPE BIGINT")
    scene.run("ALTER TABLE {t} ALTER COLUMN d TYPE DECIMAL(30,2)")
    scene.run("ALTER TABLE {t} RENAME COLUMN i TO wide")
    scene.run("ALTER TABLE {t} ADD COLUMN late INT")
    scene.run(f"INSERT INTO {{t}} {ROWS.format(30, 40).replace(' FROM', ', 7 FROM')}")
    assert_same(scene, ["wide", "d", "late"])


def test_after_a_rewrite_of_manifests_and_an_expiry(scene: Scene) -> None:
    """A file keeps the snapshot that added it; if that snapshot has expired, the file has no time."""
    filled(scene, 2)
    scene.run(f"CALL {scene.catalog}.system.rewrite_manifests('db.{scene.name}')")
    assert_same(scene, ["k"])
    before = scene.adapter().snapshot(["k"]).blocks
    scene.run(
        f"CALL {scene.catalog}.system.expire_snapshots(table => 'db.{scene.name}', "
        "older_than => now(), retain_last => 1)"
    )
    after = scene.adapter().snapshot(["k"]).blocks
    assert sorted(before.path.to_pylist()) == sorted(after.path.to_pylist())
    assert (before.added_at > 0).all()
    assert (after.added_at == 0).all()


def test_unknown_sequence_numbers_are_0(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in Spark's listing: old manifests do not record when a file was added, and no delete file could be tidied."""
    filled(scene, 2, delete="k % 10 = 3")
    real = Iceberg.records_by

    def old(jvm: Iceberg, *given: Any) -> list[list[str]]:
        rows = real(jvm, *given)
        of_files = {"DATA", "POSITION_DELETES"}
        return [[*row[:2], "", *row[3:]] if row[0] in of_files else row for row in rows]

    monkeypatch.setattr(Iceberg, "records_by", old)
    found, _ = both(scene, [])
    assert found is not None
    assert set(found[0]["file_seq"].to_pylist()) == {0}
    assert dangling_deletes(listing.Listing(*found), frozenset({0})) == set()


@pytest.mark.parametrize(
    "partitions, values, why",
    [
        ("b", "(1, true)", "a boolean partition"),
        ("", "(1, true), (2, NULL)", "a key of booleans"),
    ],
)
def test_what_is_left_to_spark(scene: Scene, partitions: str, values: str, why: str) -> None:
    scene.create("k INT, b BOOLEAN", 2, more=f"PARTITIONED BY ({partitions})" if partitions else "")
    scene.run(f"INSERT INTO {{t}} VALUES {values}")
    assert both(scene, ["b"])[0] is None, why


@pytest.mark.parametrize("text", ["", "a\x01b", "a\0b"])
def test_texts_that_a_separator_may_split(scene: Scene, text: str) -> None:
    scene.create("k INT, s STRING")
    codes = ", ".join(f"char({ord(c)})" for c in text)
    scene.run(f"INSERT INTO {{t}} SELECT 1, {f'concat({codes})' if text else repr('')}")
    assert both(scene, ["s"])[0] is None
    assert scene.adapter().snapshot(["s"]).blocks.lo[0].to_pylist() == [text]


def test_a_table_of_many_files_is_listed_by_spark(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(scene, 2)
    monkeypatch.setattr(small_listing, "MOST_FILES", 3)
    assert both(scene, ["k"])[0] is None


def test_a_partition_by_a_date_after_the_year_9999_is_listed_by_spark(scene: Scene) -> None:
    """Loss L69: Python's dates end there, and no call could list the table."""
    scene.create("k INT, day DATE", 2, more="PARTITIONED BY (day)")
    scene.run("INSERT INTO {t} VALUES (1, date_add(date'9999-12-31', 1)), (2, date'2020-01-01')")
    found, expected = both(scene, ["k"])
    assert found is None
    assert expected.data.num_rows == 2
    assert len(scene.adapter().snapshot(["k"]).blocks) == 2
