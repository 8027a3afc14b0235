"""The search finds each seeded bug, with and without the adapter's own guard.

``test_search`` shows that these scopes find nothing without a bug.
"""

from __future__ import annotations

from contextlib import ExitStack, nullcontext
from unittest.mock import patch

import pytest

from tests.model.bugs import BUGS, DEFECTS, Bug, trusting
from tests.model.cells import scopes
from tests.model.search import Found, search

SCOPES = {scope.name: scope for scope in scopes()}


def _found(bug: Bug) -> list[Found]:
    found = []
    for name in bug.scopes:
        found.append(search(SCOPES[name]))
        if found[-1].violation:
            break
    return found


@pytest.mark.sampled
@pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "trusting"])
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_seeded_bug_is_found(bug: Bug, guarded: bool) -> None:
    with bug.planted(), nullcontext() if guarded else trusting():
        found = _found(bug)
    if bug.missing:
        assert not any(each.counts[bug.missing] for each in found)
    else:
        assert found[-1].violation
        assert not any(error in found[-1].violation for error in ("TypeError", "AttributeError")), (
            "of the mutant"
        )


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_costs_work_and_no_row_while_its_guard_is_in_force(defect: str) -> None:
    patches, names = DEFECTS[defect]
    with ExitStack() as stack:
        stack.enter_context(trusting())
        for owner, name, instead in patches():
            stack.enter_context(patch.object(owner, name, instead))
        found = [search(SCOPES[name]) for name in names]
    assert all(search(SCOPES[name]).counts["replay landed"] for name in names)
    assert not any(each.violation for each in found)
    assert not any(each.counts["replay landed"] for each in found)
