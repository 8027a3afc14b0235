"""The report on one table, without Spark: what it does if the history is missing or cannot be read."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import MagicMock

import pytest

from lakekeeper import table_report
from lakekeeper.core.config.options import resolve
from lakekeeper.history.store import HistoryStore
from lakekeeper.history.table_id import TableId
from lakekeeper.page.report import HtmlReport
from tests.history.operations import DAY_MS, EVENTS, operation
from tests.page.pages import Page, small_table, view


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history.db"


def report(path: Path, monkeypatch: pytest.MonkeyPatch, table: TableId = EVENTS) -> HtmlReport:
    context = MagicMock()
    context.options.return_value = resolve(conf={"spark.lakekeeper.history.path": str(path)})
    context.recorder.table = table
    context.name.text, context.name.provider = str(table), "memory"
    context.clock.now_ms.return_value = 0
    snapshot = small_table()
    monkeypatch.setattr(table_report, "replace", lambda request, **_: request)
    monkeypatch.setattr(table_report, "look", lambda *_: snapshot)
    monkeypatch.setattr(table_report, "plan_for", lambda *_: (snapshot, view(snapshot).plan))
    return table_report.report_of(context, None, None, None)


def test_a_damaged_history_is_noted_on_the_report_and_does_not_prevent_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_bytes(b"garbage " * 500)
    made = report(path, monkeypatch)
    said = f"{path}: the history cannot be read: DatabaseError: file is not a database"
    page = Page(made.html())
    assert said in page.text
    assert "No history is configured" not in page.text
    assert "to merge" in page.text
    assert f"without history: HistoryError: {said}" in str(made)
    assert made.exit_code == 0
    (table,) = made.to_dict()["tables"]
    assert (table["operations"], said in table["history_error"]) == (None, True)


def test_a_history_that_can_be_read_is_on_the_report(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    HistoryStore(path).add(operation(), DAY_MS)
    made = report(path, monkeypatch)
    assert "compact: 4 -> 1 file" in Page(made.html()).text
    (table,) = made.to_dict()["tables"]
    assert (table["operations"], table["history_error"]) == (1, None)
