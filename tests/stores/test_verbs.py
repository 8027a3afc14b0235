"""Each verb on each kind of table: the rows are those that Spark's own statements leave, by two readers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import lakekeeper as lk
from lakekeeper.core.vacuum.vacuum_report import VacuumReport
from lakekeeper.errors import Unsupported
from tests.opening import table_later
from tests.stores.kinds import ON_AZURE, ON_GCS, ON_S3, Kind, StoreTable, of_kinds
from tests.stores.outcomes import Outcomes
from tests.stores.rows import NOW, append, same_rows


def test_info_plan_and_report(table: StoreTable, kind: Kind, outcomes: Outcomes) -> None:
    before = table.store.entries(table.prefix)
    opened = table.table()
    info = opened.clustering_information("k")
    assert (info.total_partition_count, info.average_depth) == (6, 6.0)
    plan = opened.plan("k")
    assert [len(task.inputs) for task in plan.tasks] == [6]
    assert "6" in str(opened.report())
    assert table.store.entries(table.prefix) == before, "a call that only reads has written"
    outcomes[kind.name, "info, plan, report"] = "nothing written"


def test_recluster(table: StoreTable, kind: Kind, outcomes: Outcomes) -> None:
    rows = table.spark_rows()
    report = table.table().recluster("k")
    assert (report.rewritten_data_files_count, report.added_data_files_count) == (6, 1)
    assert report.depth_after == 1
    outcomes[kind.name, "recluster"] = same_rows(table, rows)


def test_compact(table: StoreTable, kind: Kind, outcomes: Outcomes) -> None:
    rows = table.spark_rows()
    report = table.table().compact(options={"min-input-files": 2})
    assert report.rewritten_data_files_count == 6
    outcomes[kind.name, "compact"] = same_rows(table, rows)


def test_merge_deletes(table: StoreTable, kind: Kind, outcomes: Outcomes) -> None:
    table.delete("id BETWEEN 10 AND 15")
    rows = table.spark_rows()
    assert table.table().merge_deletes().rewritten_data_files_count >= 1
    outcomes[kind.name, "merge_deletes"] = same_rows(table, rows)


def test_delete(table: StoreTable, kind: Kind, outcomes: Outcomes) -> None:
    rows = table.spark_rows()
    report = table.table().delete("id IN (14, 33, 59)")
    assert report.deleted_rows_count == 3
    left = Counter({row: n for row, n in rows.items() if not any(f"v{i}'" in row for i in (14, 33, 59))})
    assert left.total() == rows.total() - 3
    outcomes[kind.name, "delete"] = same_rows(table, left)


def test_vacuum(table: StoreTable, kind: Kind, outcomes: Outcomes) -> None:
    table.table().recluster("k")
    rows = table.spark_rows()
    before = table.store.keys(table.prefix)
    predicted = table.table().vacuum(dry_run=True, **NOW)
    assert table.store.keys(table.prefix) == before, "a dry run has changed the table"
    report = table.table().vacuum(**NOW)
    assert report.failed_files_count == 0
    assert report.deleted_files_count == predicted.deleted_files_count >= 6
    assert len(before - table.store.keys(table.prefix)) == report.deleted_files_count
    assert table.leftovers() == set()
    outcomes[kind.name, "vacuum"] = same_rows(table, rows)


def test_vacuum_of_orphans(table: StoreTable, kind: Kind, outcomes: Outcomes) -> None:
    """Copies of data files under new names are deleted; other tables and unknown files stay."""
    rows = table.spark_rows()
    [live, *_] = sorted(key for key in table.store.keys(table.prefix) if key.endswith(".parquet"))
    folder, _, file = live.rpartition("/")
    orphan, unknown = f"{folder}/{file.replace('0000', '0001', 1)}", f"{folder}/notes.txt"
    for key in (orphan, unknown):
        table.store.put(key, table.store.get(live))
    young = table.table().vacuum(orphans=True, **NOW)
    assert orphan in table.store.keys(table.prefix), f"it may be of a commit in progress:\n{young}"
    old = table_later(table.spark, table.sql, hours=100)
    report: VacuumReport = old.vacuum(orphans=True, **NOW)
    keys = table.store.keys(table.prefix)
    assert orphan not in keys, f"an orphan was left:\n{report}"
    assert unknown in keys, "a file that no writer of the format made is gone"
    outcomes[kind.name, "vacuum of orphans"] = same_rows(table, rows)


def test_a_dropped_partition_comes_back(table: StoreTable, kind: Kind, outcomes: Outcomes) -> None:
    rows, opened = table.spark_rows(), table.table()
    assert opened.drop_partition("id < 20").deleted_rows_count == 19
    [entry] = opened.trash()
    opened.restore(entry.name)
    outcomes[kind.name, "drop_partition, restore"] = same_rows(table, rows)


@of_kinds(ON_S3 | ON_AZURE | ON_GCS)
def test_the_trash_is_refused(table: StoreTable, kind: Kind, outcomes: Outcomes) -> None:
    table.table().recluster("k")
    before = table.store.keys(table.prefix)
    with pytest.raises(Unsupported, match=r"renames a file by copying it.*nothing was deleted"):
        table.table().vacuum(trash=True, **NOW)
    assert table.store.keys(table.prefix) == before
    outcomes[kind.name, "vacuum into the trash"] = "refused"


def test_metadata(table: StoreTable, kind: Kind, outcomes: Outcomes) -> None:
    rows = table.spark_rows()
    for start in range(60, 74, 2):
        append(table, start, start + 2)
    rows = table.spark_rows()
    done = table.table().compact_metadata()
    outcomes[kind.name, "compact_metadata"] = (
        same_rows(table, rows) if done.changed else "left, as the catalog may repeat commits"
    )
    assert done.changed or kind.name == "iceberg-rest"


WRITES: dict[str, Callable[[lk.Table], Any]] = {
    "recluster": lambda t: t.recluster("k"),
    "delete": lambda t: t.delete("id = 5"),
}


@of_kinds(ON_S3)
@pytest.mark.parametrize("verb", WRITES)
def test_a_listing_in_many_pages(table: StoreTable, kind: Kind, verb: str, s3: Any) -> None:
    """A page of a listing ends after two keys, as one of a large table ends after a thousand."""
    rows = table.spark_rows()
    s3.page = 2
    try:
        WRITES[verb](table.table())
        done = table.table().vacuum(orphans=True, **NOW)
    finally:
        s3.page = 1_000
    assert done.failed_files_count == 0
    assert table.leftovers() == set()
    assert table.spark_rows().total() == rows.total() - (verb == "delete")
