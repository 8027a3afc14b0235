"""A slice of the search, exhaustive within its bounds: no promise is broken, and all that should happen does."""

from __future__ import annotations

import pytest

from tests.model.cells import TABLES, scopes
from tests.model.search import search_soundly

LEAST = 150_000
SOMETIMES = (
    "replay", "second replay", "third replay", "replay landed", "retry", "drop", "failed", "early abort", "gave up",
    "unknown, settled", "unknown, told", "landed late",
    "conflict with itself, settled", "crash", "came back", "delete followed rows",
    "delete over a rewrite", "ended: Rejected", "ended: Stop",
)  # fmt: skip


@pytest.mark.slow
def test_no_small_history_breaks_a_promise() -> None:
    states, counts = search_soundly(scopes())
    assert states >= LEAST
    assert {what: counts[what] for what in SOMETIMES if not counts[what]} == {}


def test_every_kind_of_table_is_searched() -> None:
    assert {
        name for name in TABLES if not any(scope.name.endswith(f", {name}") for scope in scopes())
    } == set()
