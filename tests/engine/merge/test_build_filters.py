"""Files get the Bloom filters that a table sets, and no footer is read twice."""

from __future__ import annotations

from typing import Any

import pytest

from lakekeeper.core.config.options import resolve
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.model.report import MergeReport
from lakekeeper.engine.merge.build_filters import build_filters
from lakekeeper.engine.merge.request import Request
from lakekeeper.errors import AdapterError
from lakekeeper.testing.lake import MemoryTable, Settings
from lakekeeper.testing.memory import MemoryAdapter
from lakekeeper.testing.runner import MemoryRunner


@pytest.fixture
def table() -> MemoryTable:
    made = MemoryTable(
        "t", {"id": "int", "k": "int", "note": "string"}, settings=Settings(byte_scale=1 << 20)
    )
    for number in range(3):
        made.append([{"id": number, "k": number, "note": f"n{number}"}])
    made.set_property("bloom-filters", "note")
    return made


def build(table: MemoryTable, **given: Any) -> MergeReport:
    every = given.pop("every", True)
    request = Request("build_filters", (), resolve(given.pop("options", None)), **given)
    return build_filters(MemoryAdapter(table), MemoryRunner(), request, every=every)


def unfiltered(table: MemoryTable) -> set[str]:
    return {path for path, entry in table.current.files.items() if "note" not in entry.file.filters}


def rows(table: MemoryTable) -> list[Any]:
    return sorted(str(row) for row in table.rows())


def test_files_without_filters_are_rewritten_and_keep_their_rows(table: MemoryTable) -> None:
    before = rows(table)
    report = build(table)
    assert report.rewritten_data_files_count == 3
    assert unfiltered(table) == set()
    assert rows(table) == before


def test_nothing_is_read_once_all_files_are_settled(table: MemoryTable) -> None:
    build(table)
    table.touched.footers.clear()
    table.touched.data_reads.clear()
    assert not build(table).changed
    assert table.touched.footers == []
    assert table.touched.data_reads == []


def test_the_footer_of_a_new_file_is_read_once(table: MemoryTable) -> None:
    build(table)
    table.append([{"id": 9, "k": 9, "note": "n9"}])
    table.touched.footers.clear()
    assert not build(table).changed, "the writer added the filter"
    assert len(table.touched.footers) == 1
    build(table)
    assert len(table.touched.footers) == 1


def test_for_another_column_footers_are_read_again(table: MemoryTable) -> None:
    build(table)
    table.set_property("bloom-filters", "note,k")
    assert build(table).changed
    assert all({"note", "k"} <= e.file.filters for e in table.current.files.values())


def test_a_dry_run_reads_and_writes_nothing(table: MemoryTable) -> None:
    notes, files = dict(table.notes), set(table.current.files)
    report = build(table, dry_run=True)
    assert report.groups
    assert table.touched.footers == table.touched.data_reads == []
    assert (dict(table.notes), set(table.current.files)) == (notes, files)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "7", "null", '{"columns": ["note"]}', '{"columns": ["note"], "settled": "?"}']
)
def test_a_damaged_note_only_costs_another_read_of_the_footers(table: MemoryTable, text: str) -> None:
    build(table)
    table.notes["bloom-filters.json"] = text
    table.touched.footers.clear()
    assert not build(table).changed
    assert len(table.touched.footers) == len(table.current.files)


def test_a_footer_that_cannot_be_read_changes_nothing(
    table: MemoryTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(*_: object) -> None:
        raise AdapterError("the storage does not answer")

    monkeypatch.setattr("lakekeeper.testing.bloom_filters.MemoryBloomFilters.missing", down)
    version = table.current.number
    with pytest.raises(AdapterError, match="does not answer"):
        build(table)
    assert table.current.number == version
    assert "bloom-filters.json" not in table.notes


def test_without_lookups_nothing_is_due(table: MemoryTable) -> None:
    report = build(table, every=False)
    assert not report.changed
    assert report.plan is not None
    assert [item.reason.code for item in report.plan.left] == [Code.NO_WORKLOAD]
    assert table.touched.footers == []


def test_a_call_that_rewrote_single_files_completed_one_round(table: MemoryTable) -> None:
    report = build(table, where="k = 1")
    assert (report.rewritten_data_files_count, report.added_data_files_count) == (1, 1)
    assert report.ended.code == Code.ONE_ROUND


def test_a_part_of_the_table(table: MemoryTable) -> None:
    report = build(table, where="k = 1")
    assert report.rewritten_data_files_count == 1
    assert len(unfiltered(table)) == 2
    table.touched.footers.clear()
    build(table)
    assert len(table.touched.footers) == 2, "files settled by the call on a part stay settled"
    assert unfiltered(table) == set()


def test_the_budget_bounds_a_call_and_the_next_one_continues(table: MemoryTable) -> None:
    options = {"budget-bytes": 1, "single-task-bytes": "1MB", "target-file-size-bytes": "1MB"}
    calls = 0
    while unfiltered(table):
        assert build(table, options=options).rewritten_data_files_count == 1
        calls += 1
    assert calls == 3
