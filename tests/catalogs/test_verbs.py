"""Each verb on tables of each kind of catalog: by two readers, the rows are those that Spark's statements leave."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import lakekeeper as lk
from lakekeeper.errors import NotFound, RetentionError, Unsupported
from lakekeeper.spark.identifiers import expand
from lakekeeper.testing.values import text
from tests.catalogs.kinds import Catalog
from tests.tables import TableUnderTest

pytestmark = [pytest.mark.iceberg, pytest.mark.delta]
NOW: dict[str, Any] = {"retention_hours": 0, "allow_unsafe_retention": True}


@pytest.fixture
def table(catalog: Catalog, name: str) -> TableUnderTest:
    """Six files of ten rows that overlap in ``k``, and one deleted row."""
    made = catalog.table(name)
    properties = {"delta.enableDeletionVectors": "true"} if catalog.delta else {}
    made.create("id BIGINT, k INT, v STRING", properties=properties)
    append(catalog, made, 0, 60, files=6)
    return made.run("DELETE FROM {t} WHERE id = 3")


def append(catalog: Catalog, table: TableUnderTest, start: int, stop: int, *, files: int = 1) -> None:
    rows = catalog.spark.range(start, stop, 1, numPartitions=files)
    made = rows.selectExpr("id", "cast(pmod(id * 37, 101) AS int) AS k", "concat('v', id) AS v")
    made.writeTo(table.sql).append()


def rows_of(table: TableUnderTest) -> Counter[str]:
    """The rows, on which both readers agree."""
    rows = Counter(map(text, table.spark_records()))
    assert Counter(map(text, table.log_records())) == rows
    return rows


def blocks_of(table: TableUnderTest) -> set[str]:
    """Paths of the current data files."""
    return set(table.adapter().snapshot().blocks.path.to_pylist())


def opened(catalog: Catalog, table: TableUnderTest) -> lk.Table:
    return lk.table(catalog.spark, table.sql)


def test_info_and_plan_write_nothing(catalog: Catalog, table: TableUnderTest) -> None:
    versions, files = table.versions(), table.files()
    found = opened(catalog, table)
    info = found.clustering_information("k")
    assert (info.total_partition_count, info.average_depth) == (6, 6.0)
    assert [len(task.inputs) for task in found.plan("k").tasks] == [6]
    assert "6" in str(found.report())
    assert (table.versions(), table.files()) == (versions, files)


VERBS: dict[str, Callable[[lk.Table], int]] = {
    "recluster": lambda t: t.recluster("k").rewritten_data_files_count - 6,
    "compact": lambda t: t.compact(options={"min-input-files": 2}).rewritten_data_files_count - 6,
    "merge_deletes": lambda t: t.merge_deletes().rewritten_data_files_count - 1,
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_rewrite_keeps_the_rows(catalog: Catalog, table: TableUnderTest, verb: str) -> None:
    if verb == "merge_deletes":
        table.run("DELETE FROM {t} WHERE id IN (1, 2, 4, 5)")
    rows, version = rows_of(table), table.version
    assert VERBS[verb](opened(catalog, table)) == 0
    assert rows_of(table) == rows
    assert table.version != version
    assert Counter(map(text, table.spark_records(version))) == rows


def test_concurrent_commits_of_a_user_are_kept(catalog: Catalog, table: TableUnderTest) -> None:
    rows = rows_of(table)

    def race(phase: str, _: Any) -> None:
        if phase == "before_commit":
            table.run("DELETE FROM {t} WHERE id = 14", "INSERT INTO {t} VALUES (100, 5, 'v100')")

    report = opened(catalog, table).recluster("k", policy="full", observer=race)
    assert report.replayed_rows_count == 1
    deleted = Counter(row for row in rows if "'v14'" in row)
    assert deleted.total() == 1
    assert rows_of(table) == rows - deleted + Counter([text({"id": 100, "k": 5, "v": "v100"})])


def test_delete(catalog: Catalog, table: TableUnderTest) -> None:
    rows = rows_of(table)
    assert opened(catalog, table).delete("id IN (14, 33, 59)").deleted_rows_count == 3
    left = Counter({row: n for row, n in rows.items() if not any(f"'v{i}'" in row for i in (14, 33, 59))})
    assert rows_of(table) == left
    assert left.total() == rows.total() - 3


def test_vacuum(catalog: Catalog, table: TableUnderTest) -> None:
    opened(catalog, table).recluster("k")
    rows, files = rows_of(table), table.files()
    if catalog.shares:
        with pytest.raises(RetentionError, match="nothing was deleted"):
            opened(catalog, table).vacuum(**NOW)
        assert (rows_of(table), table.files()) == (rows, files)
        return
    predicted = opened(catalog, table).vacuum(dry_run=True, **NOW)
    assert table.files() == files
    report = opened(catalog, table).vacuum(**NOW)
    assert report.failed_files_count == 0
    assert report.deleted_files_count == predicted.deleted_files_count >= 6
    assert table.unreferenced() == set()
    assert rows_of(table) == rows


def test_undo(catalog: Catalog, table: TableUnderTest) -> None:
    rows, blocks = rows_of(table), blocks_of(table)
    [run] = opened(catalog, table).recluster("k", policy="full").run_ids
    done = opened(catalog, table).undo(run, allow_rollback=True)
    assert done.restored_data_files_count == 6
    assert rows_of(table) == rows
    assert blocks_of(table) == blocks


def test_a_dropped_table_can_be_restored(catalog: Catalog, table: TableUnderTest) -> None:
    opened(catalog, table).recluster("k")
    rows, name = rows_of(table), table.sql
    if not catalog.renames:
        with pytest.raises(Unsupported, match=rf"{name}: .*catalog '{catalog.name}' cannot rename"):
            lk.drop_table(catalog.spark, name)
        assert rows_of(table) == rows
        return
    lk.drop_table(catalog.spark, name)
    with pytest.raises(NotFound, match="no such table"):
        lk.table(catalog.spark, name)
    assert name in [dropped.name for dropped in lk.dropped_tables(catalog.spark, catalog.namespace)]
    lk.restore_table(catalog.spark, name)
    assert rows_of(table) == rows
    assert opened(catalog, table).compact(dry_run=True).table == name
    kept = lk.drop_table(catalog.spark, name, force=True)
    assert kept.kept_as in [dropped.kept_as for dropped in lk.empty_dropped(catalog.spark, catalog.namespace)]
    assert not catalog.spark.catalog.tableExists(kept.kept_as)


def test_a_pattern_finds_the_table_and_a_wrong_name_is_reported(
    catalog: Catalog, table: TableUnderTest
) -> None:
    [found] = expand(catalog.spark, (f"{table.sql}*",))
    assert table.sql in str(found)
    missing = f"{catalog.namespace}.no_such"
    with pytest.raises(NotFound, match=rf"{missing}: no such table"):
        lk.table(catalog.spark, missing)
    with pytest.raises(NotFound, match=rf"{catalog.name}\.no_such\.t: .* has no namespace 'no_such'"):
        lk.table(catalog.spark, f"{catalog.name}.no_such.t")
