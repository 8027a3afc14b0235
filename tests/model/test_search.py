"""A slice of the search, exhaustive within its bounds: no guarantee is broken, and every expected event occurs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cache

import pytest

from tests.model.bugs import BUGS, Bug
from tests.model.cells import TABLES, UNCOUNTED, scopes
from tests.model.search import Found, search
from tests.model.world import Scope

LEAST = 150_000
SOMETIMES = (
    "replay", "second replay", "third replay", "replay landed", "retry", "drop", "failed", "early abort", "gave up",
    "unknown, settled", "unknown, reported", "landed late",
    "conflict with itself, settled", "crash", "came back", "delete followed rows",
    "delete over a rewrite", "ended: Rejected", "ended: Stop",
)  # fmt: skip


SCOPES: Mapping[str, Scope] = {scope.name: scope for scope in scopes()}


@cache
def searched(name: str) -> Found:
    """The result of searching a scope."""
    return search(SCOPES[name])


@pytest.mark.sampled
@pytest.mark.parametrize("name", SCOPES)
def test_no_small_history_breaks_a_promise(name: str) -> None:
    assert searched(name).violation == ""


def test_each_fault_of_a_commit_is_met_by_the_engine() -> None:
    """The guarantees hold easily if the faults that are chosen do not happen."""
    counts = searched("recluster with faults, masks").counts
    met = "unknown, settled", "unknown, reported", "landed late", "conflict with itself, settled", "crash"
    assert [what for what in met if not counts[what]] == []


@pytest.mark.sampled
@pytest.mark.slow
def test_every_expected_event_occurs() -> None:
    found_in = [searched(name) for name in SCOPES]
    assert sum(found.states for found in found_in) >= LEAST
    counts = sum((found.counts for found in found_in), Counter[str]())
    assert {what: counts[what] for what in SOMETIMES if not counts[what]} == {}


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("bug", [bug for bug in BUGS if bug.missing], ids=lambda bug: bug.name)
def test_events_that_a_seeded_bug_prevents_occur_without_it(bug: Bug) -> None:
    assert all(searched(name).counts[bug.missing] > 0 for name in bug.scopes)


def test_every_kind_of_table_is_searched() -> None:
    assert {
        name
        for name in (*TABLES, *UNCOUNTED)
        if not any(scope.name.endswith(f", {name}") for scope in scopes())
    } == set()
