from __future__ import annotations

from typing import Any

import pytest

from lakekeeper.spi import Capabilities
from lakekeeper.testing.contract import AdapterContract
from lakekeeper.testing.harness import Selected, needs
from lakekeeper.testing.lake import Settings
from lakekeeper.testing.samples import SAMPLES
from tests.contract.memory_harness import MemoryHarness


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


class TestMemoryWhoseVersionsExpireSingly(AdapterContract):
    """As Iceberg's snapshots; the other tables keep all versions after the oldest kept one, as Delta's do."""

    capabilities = _capabilities()
    kinds = ("int",)

    @pytest.fixture
    def harness(self) -> MemoryHarness:
        return MemoryHarness(Settings(linear=False))


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


def test_a_test_that_needs_a_method_which_is_lacking_is_not_collected() -> None:
    class Poor(AdapterContract):
        capabilities = _capabilities()
        lacks = {"tag": "the format has no tags"}  # noqa: RUF012 (what is tested is the declaration)

    name = "test_a_version_with_a_tag_stays"
    assert getattr(Poor, name) is None
    assert getattr(TestMemory, name) is not None


def test_an_unknown_method_that_is_lacking_is_refused() -> None:
    with pytest.raises(TypeError, match="tags"):

        class Wrong(AdapterContract):
            capabilities = _capabilities()
            lacks = {"tags": "a slip of the pen"}  # noqa: RUF012 (the same)


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
