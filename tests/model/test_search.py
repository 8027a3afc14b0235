"""A slice of the search, exhaustive within its bounds: no promise is broken, and all that should happen does."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.model.cells import TABLES, scopes
from tests.model.search import search

LEAST = 150_000
SOMETIMES = (
    "replay", "second replay", "third replay", "replay landed", "retry", "drop", "failed", "early abort", "gave up",
    "unknown, settled", "unknown, told", "landed late",
    "conflict with itself, settled", "crash", "came back", "delete followed rows",
    "delete over a rewrite", "ended: Rejected", "ended: Stop",
)  # fmt: skip


@pytest.mark.slow
def test_no_small_history_breaks_a_promise() -> None:
    counts: Counter[str] = Counter()
    states = 0
    for scope in scopes():
        found = search(scope)
        assert not found.violation, found.violation
        counts += found.counts
        states += found.states
    assert states >= LEAST
    assert {what: counts[what] for what in SOMETIMES if not counts[what]} == {}


def test_every_kind_of_table_is_searched() -> None:
    assert {
        name for name in TABLES if not any(scope.name.endswith(f", {name}") for scope in scopes())
    } == set()
