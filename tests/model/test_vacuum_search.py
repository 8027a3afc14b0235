"""A slice of the search with a vacuum in it: nothing that is kept is lost, and nothing that is dead is left.

``make model`` searches the same scopes deeper.
"""

from __future__ import annotations

import pytest

from tests.model.search import search_soundly
from tests.model.sweeps import LINES, sweep_scopes

LEAST = 100_000
SOMETIMES = (
    "crash", "died late", "vacuum deleted", "expired", "expired after a conflict", "a file of a version was freed",
    "leftovers deleted", "settled runs", "settled files", "kept: is read by", "kept: is tagged t",
    "kept: is one of the last", "kept: was the newest within the grace", "ended: Rejected", "ended: Conflict",
    "ended: Unknown", "ended: AdapterError", "ended: RetentionError", "replay landed", "delete followed rows",
)  # fmt: skip


@pytest.mark.slow
def test_no_small_history_with_a_vacuum_breaks_a_promise() -> None:
    states, counts = search_soundly(sweep_scopes())
    assert states >= LEAST
    assert {what: counts[what] for what in SOMETIMES if not counts[what]} == {}


def test_each_scope_is_searched_on_both_kinds_of_table() -> None:
    kinds = [scope.name.rpartition(", ") for scope in sweep_scopes()]
    assert {kind for _, _, kind in kinds} == set(LINES)
    for line in LINES:
        assert [name for name, _, kind in kinds if kind == line] == [name for name, _, _ in kinds][
            : len(kinds) // 2
        ]
