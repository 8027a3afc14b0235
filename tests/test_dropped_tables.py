"""Emptying the trash of dropped tables, without Spark: what is not known to be empty stays."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from lakekeeper.errors import AdapterError, NotFound, TableError, Unsupported

dropped = import_module("lakekeeper.dropped_tables")  # the package exports a function of this name


def unknown(provider: str, name: str) -> NoReturn:
    raise Unsupported(name, provider)


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements that a session runs whose catalog has two dropped tables; the files of neither must stay."""
    monkeypatch.setattr(dropped, "require_classic", lambda _spark: None)
    monkeypatch.setattr(dropped, "lakekeeper_confs", lambda _spark: {})
    monkeypatch.setattr(dropped, "resolve_name", lambda _spark, name: SimpleNamespace(provider=name))
    monkeypatch.setattr(dropped, "find_format", unknown)
    return []


def session(statements: list[str]) -> Any:
    def sql(text: str) -> SimpleNamespace:
        statements.append(text)
        names = ("t__lakekeeper_trash_1", "u__lakekeeper_trash_2")
        return SimpleNamespace(collect=lambda: [SimpleNamespace(tableName=name) for name in names])

    return SimpleNamespace(sql=sql)


def opening(monkeypatch: pytest.MonkeyPatch, failing: str, error: Exception) -> None:
    """Let a table fail to open; the others have no trash."""

    def open_adapter(_spark: object, name: str) -> NoReturn:
        raise error if failing in name else NotFound(name, "no table that lakekeeper maintains")

    monkeypatch.setattr(dropped, "open_adapter", open_adapter)


def test_a_table_whose_trash_cannot_be_looked_at_is_kept(
    monkeypatch: pytest.MonkeyPatch, statements: list[str]
) -> None:
    """Loss L53: a store that did not answer counted as an empty trash, and the table was purged."""
    opening(monkeypatch, "t__", AdapterError("ice.db.t: the catalog does not answer"))
    with pytest.raises(AdapterError, match="does not answer"):
        dropped.empty_dropped(session(statements), "ice.db")
    gone = [text for text in statements if text.startswith("DROP")]
    assert gone == ["DROP TABLE ice.db.u__lakekeeper_trash_2 PURGE"]


def test_a_table_that_lakekeeper_cannot_maintain_has_no_trash(
    monkeypatch: pytest.MonkeyPatch, statements: list[str]
) -> None:
    opening(monkeypatch, "t__", TableError("ice.db.t", "not a table that lakekeeper maintains"))
    assert [each.name for each in dropped.empty_dropped(session(statements), "ice.db")] == [
        "ice.db.t",
        "ice.db.u",
    ]
