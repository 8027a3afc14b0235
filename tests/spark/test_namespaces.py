"""Patterns of names in namespaces that need quotes, in a session without a JVM."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from pyspark.sql import Row

from lakekeeper.spark.identifiers import expand

_TABLES = {"`my-db`": ["t", "a-b"], "`we``ird`": ["t"], "db": ["t"]}


def session(listed: list[Row]) -> Any:
    """A session whose catalog lists these namespaces, each with its tables."""
    known = {f"SHOW TABLES IN `ice`.`{name.strip('`')}`": tables for name, tables in _TABLES.items()}

    def sql(text: str) -> SimpleNamespace:
        if text.startswith("SHOW NAMESPACES"):
            return SimpleNamespace(collect=lambda: listed)
        rows = [Row(tableName=name, isTemporary=False) for name in known[text]]
        return SimpleNamespace(collect=lambda: rows)

    return SimpleNamespace(sql=sql, catalog=SimpleNamespace(currentCatalog=lambda: "ice"))


QUOTED = [Row(namespace=name) for name in _TABLES]
LEGACY = [Row(databaseName=name) for name in ("my-db", "we`ird", "db")]


@pytest.mark.parametrize("listed", [QUOTED, LEGACY], ids=["quoted", "legacy"])
@pytest.mark.parametrize(
    "pattern, expected",
    [
        ("ice.my-db.*", ["ice.`my-db`.`a-b`", "ice.`my-db`.t"]),
        ("ice.`my-db`.a*", ["ice.`my-db`.`a-b`"]),
        ("my-db.t*", ["ice.`my-db`.t"]),
        ("ice.we*.t", ["ice.`we``ird`.t"]),
        ("ice.*.t", ["ice.`my-db`.t", "ice.`we``ird`.t", "ice.db.t"]),
    ],
)
def test_a_namespace_is_matched_by_its_name_without_quotes(
    monkeypatch: pytest.MonkeyPatch, listed: list[Row], pattern: str, expected: list[str]
) -> None:
    monkeypatch.setattr("lakekeeper.spark.identifiers.Jvm", Mock())
    [found] = expand(session(listed), (pattern,))
    assert (found.error, sorted(found.names)) == ("", expected)


def test_a_pattern_with_an_open_quote_is_an_error() -> None:
    [found] = expand(session(QUOTED), ("ice.`my-db.*",))
    assert found.names == ()
    assert "catalog.namespace.pattern" in found.error
