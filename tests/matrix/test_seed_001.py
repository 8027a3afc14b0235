"""The race as first drawn: a user deletes rows of File 1 and File 2 while both are merged into Target File.

Case 1   the merge commits first: the delete finds its rows in Target File, and deletes them there
Case 2   the delete commits first: the merge commits Target File with the same deletes
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakekeeper as lk
from lakekeeper.errors import Conflict
from tests.formats.gate import Gate
from tests.matrix.actions import ACTIONS, maintain
from tests.matrix.cells import before_attempt, once, outcome
from tests.matrix.rows import Row
from tests.matrix.sides import KINDS
from tests.matrix.world import World

RED = (-1, 2, 6, 11)
"""Ids to delete: rows of both files, one of them in both, one twice in one file."""
STATEMENTS = ("row delete", "update", "merge")


def without(*ids: int) -> Any:
    def change(rows: list[Row]) -> list[Row]:
        return [row for row in rows if row["id"] not in ids]

    return change


@pytest.fixture(params=[pytest.param(k, marks=getattr(pytest.mark, k.partition("-")[0])) for k in KINDS])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def two_files(spark: SparkSession, kind: str, tmp_path: Path) -> World:
    """File 1 and File 2."""
    return World.make(spark, kind, tmp_path, files=2)


@pytest.fixture
def four_files(spark: SparkSession, kind: str, tmp_path: Path) -> World:
    return World.make(spark, kind, tmp_path)


def masks(world: World) -> bool:
    """Whether a user's DELETE masks rows, rather than rewriting files."""
    return world.kind != "delta-copies"


def merge(world: World, **given: Any) -> Any:
    return maintain(world, "recluster", **given)


def delete(world: World, *ids: int) -> None:
    world.run(f"DELETE FROM {{t}} WHERE id IN {(*ids, ids[0])}", without(*ids))


def test_case_2_the_delete_wins_and_the_target_file_has_it(two_files: World) -> None:
    world = two_files
    rival = once(lambda: delete(world, *RED))
    report = merge(world, observer=lambda now, _: rival() if now == "written" else None)
    world.check()
    assert outcome(report) == "replayed"
    assert report.replayed_rows_count == 6
    (target,) = world.table.blocks().collect()
    assert (target.rows, target.deleted_rows) == ((16, 6) if masks(world) else (10, 0))


@pytest.mark.parametrize("statement", [pytest.param(s, marks=pytest.mark.deep) for s in STATEMENTS])
def test_case_2_with_a_statement_of_sparks_own(four_files: World, statement: str) -> None:
    world, rival = four_files, ACTIONS[statement]

    def act() -> None:
        world.act(lambda: lk.sql(world.spark, rival.text(world)), rival.change)

    happens = once(act)
    report = merge(world, observer=lambda now, _: happens() if now == "read" else None)
    assert outcome(report) == "replayed"
    world.check()


def test_case_1_the_merge_wins_and_the_delete_finds_its_rows(two_files: World) -> None:
    world = two_files
    ours = once(lambda: world.act(lambda: merge(world)))
    where = f"id IN {RED}"
    report = world.table.delete(where, observer=lambda now, _: ours() if now == "before_commit" else None)
    world.note(without(*RED))
    assert (report.deleted_rows_count, report.followed_rows_count, report.retries) == (6, 6, 1)
    assert "lakekeeper run" in report.winners[0]
    world.check()
    (target,) = world.table.blocks().collect()
    assert (target.rows - target.deleted_rows) == 10


@pytest.mark.parametrize(
    "statement", [pytest.param(s, marks=pytest.mark.deep if s == "update" else ()) for s in STATEMENTS]
)
def test_case_1_with_a_statement_of_sparks_own(two_files: World, tmp_path: Path, statement: str) -> None:
    world, theirs, gate = two_files, ACTIONS[statement], Gate(two_files.spark, tmp_path)
    now: list[Mapping[str, Any]] = []
    text = theirs.text(world, gate.name)
    done = gate.around(
        lambda: lk.sql(world.spark, text, observer=lambda _, info: now.append(info)),
        lambda: world.act(lambda: merge(world)),
    )
    done.result()
    assert len(now) == 1, "the statement lost exactly once"
    world.theirs |= world.side.unreferenced()  # files of the failed attempt
    world.note(theirs.change)
    world.check()


def test_a_delete_finds_its_rows_after_several_merges(two_files: World) -> None:
    world = two_files
    left = [lambda: merge(world), lambda: merge(world, policy="full"), lambda: merge(world, policy="full")]

    def ours(now: str, _: Mapping[str, Any]) -> None:
        if now == "before_commit" and left:
            world.act(left.pop(0))

    report = world.table.delete(f"id IN {RED}", observer=ours)
    world.note(without(*RED))
    assert (report.deleted_rows_count, report.retries, len(report.winners)) == (6, 3, 3)
    world.check()


def test_three_winners_in_a_row_are_all_applied(four_files: World) -> None:
    world = four_files
    left = [lambda: delete(world, 2, 6), lambda: delete(world, 11), lambda: delete(world, 3, 14)]
    report = merge(world, table=before_attempt(world, lambda: left.pop(0)() if left else None))
    assert outcome(report) == "replayed"
    assert report.replayed_rows_count == 7, (
        "three, one and three rows, also of files that were copied without them"
    )
    world.check()


def test_a_row_deleted_before_is_not_counted_again(four_files: World) -> None:
    world = four_files
    delete(world, 2)
    rival = once(lambda: delete(world, 2, 3, 6))
    report = merge(world, observer=lambda now, _: rival() if now == "written" else None)
    assert outcome(report) == "replayed"
    assert report.replayed_rows_count == 3
    world.check()


def test_after_the_last_retry_the_winner_is_named_and_no_file_is_left(four_files: World) -> None:
    world = four_files
    ids = [2, 11]
    table = before_attempt(world, lambda: delete(world, ids.pop(0)))
    with pytest.raises(Conflict, match=r"(?i)gave up after 2 attempts.*version \d+ \((delete|overwrite)"):
        merge(world, table=table, options={"commit.retry.num-retries": 1})
    assert ids == []
    world.check()
    assert merge(world).changed
    world.check()
