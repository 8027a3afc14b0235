"""What a service keeps from pass to pass, without Spark."""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import Any
from weakref import ref

import pytest

from lakekeeper import fleet, recording
from lakekeeper.api import Table
from lakekeeper.engine.auto_settings import AutoSettings
from lakekeeper.recording import FleetMemory
from lakekeeper.spark import confs
from lakekeeper.spark.identifiers import Expanded
from lakekeeper.spi import TableName
from lakekeeper.testing.memory import MemoryAdapter
from tests.engine.scene import overlapping


class Session:
    """A session that knows what a plan needs."""

    def __init__(self) -> None:
        self._jsparkSession = None
        self.sparkContext = SimpleNamespace(defaultParallelism=2)


def test_a_service_keeps_the_snapshots_of_a_table_and_not_its_adapter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An adapter held the listing of its table, beyond the limit of what a service keeps."""
    store = overlapping(1).table
    opened: list[ref[MemoryAdapter]] = []

    def open_table(spark: Any, name: str, *_: Any) -> Table:
        adapter = MemoryAdapter(store)
        opened.append(ref(adapter))
        return Table(spark, TableName(name, "memory", name, path=name), adapter)

    monkeypatch.setattr(fleet, "open_table", open_table)
    monkeypatch.setattr(fleet, "expand", lambda _, names: tuple(Expanded(name, (name,)) for name in names))
    for module in (confs, recording):
        monkeypatch.setattr(module, "lakekeeper_confs", lambda _: {})
    settings, memory = AutoSettings(("t",), ("recluster",), 60.0), FleetMemory()
    spark: Any = Session()
    for _pass in range(2):
        report = fleet.one_pass(spark, settings, memory=memory)
        assert [table.status for table in report.tables] == ["idle"]
        gc.collect()
        assert [adapter() for adapter in opened] == [None] * len(opened)
    assert len(opened) == 2
    assert store.touched.snapshots == 1, "the second pass continues from the snapshot of the first"
