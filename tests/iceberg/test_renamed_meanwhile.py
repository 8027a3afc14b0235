"""Columns that are renamed while a merge by rows reads keep their values: a name is no identity."""

from __future__ import annotations

from typing import Any

import pyarrow.parquet as pq
import pytest

import lakekeeper as lk
from tests.iceberg.scene import Scene
from tests.observers import once_at

pytestmark = pytest.mark.iceberg

CHANGES: dict[str, tuple[list[str], dict[str, str | None]]] = {
    "swapped": (
        ["RENAME COLUMN a TO x", "RENAME COLUMN b TO a", "RENAME COLUMN x TO b"],
        {"a": "b{}", "b": "a{}"},
    ),
    "renamed, and another added under its name": (
        ["RENAME COLUMN a TO old", "ADD COLUMN a STRING"],
        {"old": "a{}", "a": None, "b": "b{}"},
    ),
    "dropped and added": (["DROP COLUMN a", "ADD COLUMN a STRING"], {"a": None, "b": "b{}"}),
    "added": (["ADD COLUMN c STRING"], {"a": "a{}", "b": "b{}", "c": None}),
    "renamed": (["RENAME COLUMN a TO c"], {"c": "a{}", "b": "b{}"}),
}


@pytest.mark.parametrize("any_schema", [False, True], ids=["", "any schema"])
@pytest.mark.parametrize("change", CHANGES)
def test_values_stay_in_their_column(scene: Scene, change: str, any_schema: bool) -> None:
    """Loss L108: Spark matches the rows that were read to the table by name, as it was at the write."""
    scene.create("k INT, a STRING, b STRING")
    scene.run(*(f"INSERT INTO {{t}} VALUES ({k}, 'a{k}', 'b{k}')" for k in range(4)))
    if any_schema:
        scene.run("ALTER TABLE {t} SET TBLPROPERTIES ('write.spark.accept-any-schema' = 'true')")
    statements, columns = CHANGES[change]

    def alter() -> None:
        scene.run(*(f"ALTER TABLE {{t}} {each}" for each in statements))

    table = lk.table(scene.spark, scene.sql)
    report = table.compact(observer=once_at("read", alter), options={"merge-engine": "spark"})
    expected: list[dict[str, Any]] = [
        {"k": k} | {name: value and value.format(k) for name, value in columns.items()} for k in range(4)
    ]
    found = scene.spark.table(scene.sql).orderBy("k").collect()
    assert [row.asDict() for row in found] == expected
    assert scene.spark_rows() == scene.log_rows()
    assert report.rewritten_data_files_count in (0, 4)  # a merge may lose to the change, but not mix values


@pytest.mark.parametrize(
    "change, name",
    [("swapped", "b"), ("renamed", "c"), ("renamed, and another added under its name", "old")],
)
@pytest.mark.parametrize("engine", ["auto", "spark"])
def test_no_file_is_sorted_by_a_column_that_took_over_the_name_of_the_key(
    scene: Scene, change: str, name: str, engine: str
) -> None:
    """Its sort order would name the column of the key, and a reader that trusts it would join unsorted rows."""
    scene.create("k INT, a STRING, b STRING")
    scene.run("ALTER TABLE {t} WRITE ORDERED BY a NULLS FIRST")
    scene.run(*(f"INSERT INTO {{t}} VALUES ({k}, 'a{k}', 'b{9 - k}')" for k in range(4)))

    def alter() -> None:
        scene.run(*(f"ALTER TABLE {{t}} {each}" for each in CHANGES[change][0]))

    table = lk.table(scene.spark, scene.sql)
    options = {"merge-engine": engine}
    report = table.recluster(policy="full", observer=once_at("planned", alter), options=options)
    rows = scene.spark.table(scene.sql).orderBy("k").collect()
    assert [row[name] for row in rows] == ["a0", "a1", "a2", "a3"]
    if engine == "auto":
        (file,) = scene.spark.table(f"{scene.sql}.files").collect()
        assert file.sort_order_id == 1
        assert pq.read_table(file.file_path.removeprefix("file:")).column(1).to_pylist() == [
            "a0", "a1", "a2", "a3",
        ]  # fmt: skip
    else:
        assert not report.changed
        assert [group.status for group in report.groups] == ["failed"]
        assert f"renamed to {name} after the plan was made; plan again" in str(report.groups[0].detail)


def test_rows_that_are_added_before_columns_are_swapped_are_deleted_too(scene: Scene) -> None:
    """Loss L12 with a swap: Iceberg looked for conflicting rows by a name that meant another column."""
    scene.create("k INT, a STRING, b STRING")
    scene.run(*(f"INSERT INTO {{t}} VALUES ({k}, 'a{k}', 'b{k}')" for k in range(4)))

    def act() -> None:
        scene.run("INSERT INTO {t} VALUES (50, 'zz', 'a1')")
        for change in CHANGES["swapped"][0]:
            scene.run(f"ALTER TABLE {{t}} {change}")

    table = lk.table(scene.spark, scene.sql)
    table.delete("a = 'a1'", observer=once_at("before_commit", act))
    left = {row.k: row.a for row in scene.spark.table(scene.sql).collect()}
    assert "a1" not in left.values()
