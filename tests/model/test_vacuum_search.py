"""A slice of the search with a vacuum: nothing that is kept is lost, and no garbage remains.

``make model`` searches the same scopes deeper.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cache

import pytest

from tests.model.search import Found, search
from tests.model.sweeps import LINES, sweep_scopes
from tests.model.world import Scope

LEAST = 100_000
SOMETIMES = (
    "crash", "died late", "vacuum deleted", "expired", "expired after a conflict", "a file of a version was freed",
    "leftovers deleted", "settled runs", "settled files", "kept: is read by", "kept: is tagged t",
    "kept: is one of the last", "kept: was the newest within the grace", "ended: Rejected", "ended: Conflict",
    "ended: Unknown", "ended: AdapterError", "ended: RetentionError", "replay landed", "delete followed rows",
)  # fmt: skip


SCOPES: Mapping[str, Scope] = {scope.name: scope for scope in sweep_scopes()}


@cache
def searched(name: str) -> Found:
    """The result of searching a scope."""
    return search(SCOPES[name])


@pytest.mark.sampled
@pytest.mark.parametrize("name", SCOPES)
def test_no_small_history_with_a_vacuum_breaks_a_promise(name: str) -> None:
    assert searched(name).violation == ""


@pytest.mark.sampled
@pytest.mark.slow
def test_every_expected_event_occurs() -> None:
    found_in = [searched(name) for name in SCOPES]
    assert sum(found.states for found in found_in) >= LEAST
    counts = sum((found.counts for found in found_in), Counter[str]())
    assert {what: counts[what] for what in SOMETIMES if not counts[what]} == {}


def test_each_scope_is_searched_on_both_kinds_of_table() -> None:
    kinds = [scope.name.rpartition(", ") for scope in sweep_scopes()]
    assert {kind for _, _, kind in kinds} == set(LINES)
    for line in LINES:
        assert [name for name, _, kind in kinds if kind == line] == [name for name, _, _ in kinds][
            : len(kinds) // 2
        ]
