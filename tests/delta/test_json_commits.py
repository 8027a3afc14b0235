"""Many commits are read at once, with the result of one after the other."""

from __future__ import annotations

import pytest

from lakekeeper.errors import NotFound
from lakekeeper_delta.json_commits import LARGE, commits_between
from tests.delta.by_hand import ByHand

pytestmark = pytest.mark.delta


def test_many_commits_are_those_that_are_read_one_after_the_other(table: ByHand) -> None:
    for number in range(30):
        table.commit(table.add(f"{number}.parquet", [number]))
    table.commit({"commitInfo": {"operation": "LARGE", "note": "x" * LARGE}}, table.add("l.parquet", [1]))
    table.commit(table.add("last.parquet", [2]))
    log, one_by_one = table.scene.log(), table.scene.log()
    newest = log.latest().version
    singles = [commits_between(one_by_one, at, at + 1) for at in range(newest)]
    together = commits_between(log, 0, newest)
    assert together.winners == tuple(winner for single in singles for winner in single.winners)
    assert [winner.version for winner in together.winners] == list(range(1, newest + 1))
    named = {(row["version"], row["path"]) for single in singles for row in single.files.to_pylist()}
    assert {(row["version"], row["path"]) for row in together.files.to_pylist()} == named
    assert len(named) == 32 + 4, "and the four of the table as it was given"
    assert commits_between(log, 3, newest).winners == together.winners[3:], "known by now"


def test_a_gap_among_many_commits_is_named(table: ByHand) -> None:
    for number in range(30):
        table.commit(table.add(f"{number}.parquet", [number]))
    log = table.scene.log()
    (table.log / f"{17:020d}.json").unlink()
    with pytest.raises(NotFound, match="17"):
        commits_between(log, 0, 30)
