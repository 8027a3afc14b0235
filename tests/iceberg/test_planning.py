"""Which scan tasks are cached. No JVM."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from lakekeeper_iceberg import planning
from lakekeeper_iceberg.planning import Planner, kept_tasks


@pytest.mark.parametrize("gib, files", [(1, 50_000), (8, 262_144), (32, 1_048_576)])
def test_a_driver_with_memory_plans_a_large_table_once(gib: int, files: int) -> None:
    """Loss L17."""
    assert kept_tasks(gib << 30) == files


class _Found(dict[str, str]):
    def keySet(self) -> list[str]:  # noqa: N802 - a Java map has it
        return list(self)


def test_tasks_of_a_predicate_that_means_another_column_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loss L68: columns exchange their names without a snapshot, and the old column's files were used."""
    few: list[Any] = [_Found(f1="task of f1")]
    jvm = SimpleNamespace(few=lambda *_: few[0], texts=list, paths=lambda _: ["f2", "f3"])
    scan = SimpleNamespace(includeColumnStats=lambda: None)
    table = SimpleNamespace(newScan=lambda: SimpleNamespace(filter=lambda _: scan), schema=lambda: None)
    monkeypatch.setattr(planning, "expression", lambda *_, **__: "any")
    planner = Planner(cast(Any, jvm))
    assert cast(Any, planner.matching(table, 7, "a = 1", "0/0")).to_pylist() == ["f1"]
    assert planner.matched(7, "a = 1", "0/0") == few[0]
    assert planner.matched(7, "a = 1", "1/0") is None
    few[0] = None  # too many files
    assert cast(Any, planner.matching(table, 7, "a = 1", "0/0")).to_pylist() == ["f2", "f3"]
    assert planner.matched(7, "a = 1", "0/0") is None

    def no_form(*_: Any, **__: Any) -> None:
        raise ValueError("no form")

    few[0] = _Found(f1="task of f1")
    planner.matching(table, 7, "a = 1", "0/0")
    monkeypatch.setattr(planning, "expression", no_form)
    assert planner.matching(table, 7, "a = 1", "0/0") is None
    assert planner.matched(7, "a = 1", "0/0") is None
