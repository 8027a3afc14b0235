from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from lakekeeper.spi import Capabilities, TableName
from lakekeeper.testing.contract import AdapterContract
from lakekeeper.testing.harness import Selected, needs
from lakekeeper.testing.lake import MemoryTable, Settings
from lakekeeper.testing.memory import Lake, MemoryAdapter, MemoryFormat
from lakekeeper.testing.runner import MemoryRunner
from lakekeeper.testing.samples import SAMPLES
from lakekeeper.testing.values import Row
from lakekeeper.testing.versions import Kinds


class MemoryContractTable:
    def __init__(self, lake: Lake, store: MemoryTable) -> None:
        self.lake = lake
        self.store = store

    def adapter(self) -> MemoryAdapter:
        name = self.store.name
        return MemoryFormat(self.lake).open(None, TableName(name, "memory", name, name=name))

    def append(self, rows: Sequence[Row]) -> None:
        self.store.append(rows)

    def delete(self, where: str) -> None:
        self.store.delete(where)

    def overwrite(self, rows: Sequence[Row]) -> None:
        self.store.overwrite(rows)

    def rewrite_foreign(self) -> None:
        self.store.rewrite_foreign()

    def set_property(self, name: str, value: str) -> None:
        self.store.set_property(name, value)

    def rows(self, version: int | None = None) -> list[Row]:
        return self.store.rows(version)

    def leftovers(self) -> set[str]:
        return self.store.leftovers()


class MemoryHarness:
    def __init__(self, settings: Settings) -> None:
        self.lake = Lake()
        self.settings = settings
        self.runner = MemoryRunner()

    def create(
        self, kinds: Kinds, batches: Sequence[Sequence[Row]], *, partition_by: Sequence[str] = ()
    ) -> MemoryContractTable:
        name = f"db.t{len(self.lake.tables)}"
        store = self.lake.create(name, kinds, partition_by=partition_by, settings=self.settings)
        for batch in batches:
            store.append(batch)
        return MemoryContractTable(self.lake, store)


def _capabilities(**changed: bool) -> Capabilities:
    every = {
        "row_deletes": True,
        "stores_level": True,
        "row_lineage": True,
        "time_travel": True,
        "native_key": True,
    }
    return Capabilities(**(every | changed))


class TestMemory(AdapterContract):
    capabilities = _capabilities()
    kinds = tuple(SAMPLES)

    @pytest.fixture
    def harness(self) -> MemoryHarness:
        return MemoryHarness(Settings())


class TestMemoryWithCoarseStatistics(AdapterContract):
    capabilities = _capabilities()
    kinds = tuple(SAMPLES)

    @pytest.fixture
    def harness(self) -> MemoryHarness:
        return MemoryHarness(Settings(truncate=4, milliseconds=True))


class TestMemoryOfAPoorFormat(AdapterContract):
    """No row-level deletes and no stored level: their tests are not collected."""

    capabilities = _capabilities(row_deletes=False, stores_level=False)
    kinds = ("int",)

    @pytest.fixture
    def harness(self) -> MemoryHarness:
        return MemoryHarness(Settings(row_deletes=False, stores_level=False))


def test_tests_of_missing_capabilities_are_not_collected() -> None:
    name = "test_outputs_have_their_level_and_key"
    assert getattr(TestMemoryOfAPoorFormat, name) is None
    assert getattr(TestMemory, name) is not None


def test_an_expected_failure_of_an_unknown_test_is_refused() -> None:
    with pytest.raises(TypeError, match="test_no_such"):

        class Wrong(AdapterContract):
            capabilities = _capabilities()
            notyet = {"test_no_such": "a slip of the pen"}  # noqa: RUF012 (what is tested is the declaration)


def test_a_declared_failure_is_strict_and_of_one_class_only() -> None:
    class Base(Selected):
        @needs("row_deletes")
        def test_thing(self) -> None: ...

    class Late(Base):
        capabilities = _capabilities()
        notyet = {"test_thing": "waits for upstream"}  # noqa: RUF012 (the same)

    mark: Any = Late.test_thing.pytestmark[0]  # type: ignore[attr-defined]  # pytest's attribute
    assert (mark.name, mark.kwargs) == ("xfail", {"reason": "waits for upstream", "strict": True})
    assert not hasattr(Base.test_thing, "pytestmark")
