"""The contract suite finds defects: on each wrong adapter the named test fails, and on the right one it passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lakekeeper.errors import LakekeeperError
from lakekeeper.testing.contract import AdapterContract
from lakekeeper.testing.lake import Settings
from lakekeeper.testing.optional_methods import METHODS
from tests.contract.memory_harness import MemoryHarness
from tests.testing.mutants import Mutant
from tests.testing.row_mutants import OTHERS, ROWS
from tests.testing.storage_mutants import STORAGE

MUTANTS = (*STORAGE, *ROWS, *OTHERS)


@pytest.mark.parametrize("linear", [True, False], ids=["linear", "single"])
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_wrong_adapter_is_found(mutant: Mutant, linear: bool) -> None:
    def run() -> None:
        test: Callable[..., None] = getattr(AdapterContract, mutant.killed_by)
        test(AdapterContract(), MemoryHarness(Settings(linear=linear)))

    run()
    with mutant.planted():
        if linear in mutant.linear:
            failed: Any = (AssertionError, pytest.fail.Exception, LakekeeperError)
            with pytest.raises(failed):
                run()
        else:
            run()


def test_each_optional_method_is_needed_by_a_test() -> None:
    tests = [test for base in AdapterContract.__mro__ for test in vars(base).values()]
    needed = {name for test in tests for name in getattr(test, "needs", ())}
    assert set(METHODS) <= needed
