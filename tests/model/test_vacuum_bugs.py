"""The search with a vacuum finds each seeded bug of a vacuum."""

from __future__ import annotations

import pytest

from tests.model.bugs import BUGS, Bug
from tests.model.search import search
from tests.model.sweeps import sweep_scopes
from tests.model.vacuum_bugs import VACUUM_BUGS

SCOPES = {scope.name: scope for scope in sweep_scopes()}


@pytest.mark.sampled
@pytest.mark.parametrize("bug", VACUUM_BUGS, ids=lambda bug: bug.name)
def test_a_seeded_bug_of_a_vacuum_is_found(bug: Bug) -> None:
    with bug.planted():
        found = (search(SCOPES[name]) for name in bug.scopes)
        assert any(each.violation for each in found)


def test_each_bug_has_a_name_of_its_own() -> None:
    names = [bug.name for bug in (*BUGS, *VACUUM_BUGS)]
    assert len(set(names)) == len(names)
