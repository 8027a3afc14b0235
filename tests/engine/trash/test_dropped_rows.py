"""A restore brings exactly the rows back that the drop removed, whatever its predicate means by then."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest

from lakekeeper.errors import Unsupported
from lakekeeper.testing import deletes, memory
from lakekeeper.testing.lake import Settings
from lakekeeper.testing.values import fingerprint
from tests.engine.trash.partitions import Crash, back, bin_of, crash, drop, rows, two_days
from tests.observers import once_at

_OTHER_ROWS = ("k < 10", "k < 11", "k < 20", "k > 10 and k < 13")


@pytest.mark.parametrize("now", _OTHER_ROWS)
@pytest.mark.parametrize("counted", [True, False], ids=["counted", "the drop died after its commit"])
@pytest.mark.parametrize("row_deletes", [True, False], ids=["masks", "copies"])
def test_a_predicate_that_matches_other_rows_than_it_did_is_refused(
    monkeypatch: pytest.MonkeyPatch, row_deletes: bool, counted: bool, now: str
) -> None:
    """Loss L96: as ``ts < '2024-01-01'`` does in a session of another time zone, often as many."""
    scene = two_days(Settings(row_deletes=row_deletes))
    with suppress(Crash):
        drop(scene, "k < 12", observer=None if counted else once_at("committed", crash))
    after = rows(scene)
    for module in (deletes, memory):
        parse = module.parse
        monkeypatch.setattr(module, "parse", lambda _, known, parse=parse: parse(now, known))
    with pytest.raises(Unsupported, match=r"'k < 12' does not match the rows that the drop removed"):
        back(scene)
    assert (rows(scene), len(bin_of(scene)), scene.table.leftovers()) == (after, 1, set())


@pytest.mark.parametrize("counted", [True, False], ids=["counted", "the drop died after its commit"])
@pytest.mark.parametrize("row_deletes", [True, False], ids=["masks", "copies"])
def test_rows_that_were_added_while_the_drop_searched_are_not_doubled(
    counted: bool, row_deletes: bool
) -> None:
    """Loss L81: they are in the version before the drop too, but it did not remove them."""
    scene = two_days(Settings(serializable=False, row_deletes=row_deletes))
    scene.table.append([{"day": 1, "k": 13}, {"day": 2, "k": 19}])
    before, late = scene.table.rows(), {"day": 1, "k": 12}
    add, die = once_at("before_commit", lambda: scene.table.append([late])), once_at("committed", crash)

    def observe(phase: str, facts: Mapping[str, Any]) -> None:
        add(phase, facts)
        if not counted:
            die(phase, facts)

    with suppress(Crash):
        drop(scene, "k < 15", observer=observe)
    assert back(scene).rows == 4
    assert rows(scene) == fingerprint([*before, late])
