"""Copy-on-write statements that win a race: our commit takes the files in place of its inputs, and no row is lost."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lakekeeper.core.config.options import resolve
from lakekeeper.core.planning.rebase import Dropped
from lakekeeper.core.planning.rewrites import Rewrite
from lakekeeper.engine.merge.replay import Replayer
from lakekeeper.testing.harness import task_for
from lakekeeper.testing.lake import Settings
from lakekeeper.testing.values import fingerprint
from lakekeeper.testing.versions import Entry, Version
from tests.engine.phases import BEFORE_COMMIT, At
from tests.engine.scene import Scene, groups_apart, overlapping, rows

KINDS = {
    "row ids": Settings(row_deletes=False),
    "values": Settings(row_deletes=False, row_ids=False),
    "scanned, values": Settings(row_deletes=False, row_ids=False, finds_rows=False, counts_rows=False),
}


@pytest.fixture(params=KINDS.values(), ids=list(KINDS))
def scene(request: pytest.FixtureRequest) -> Scene:
    """Six files of ten rows, each over the whole key, and one of two pairs of equal rows."""
    made = overlapping(settings=request.param)
    made.table.append(rows(3, 3, 7, 7))
    return made


def raced(scene: Scene, *races: Callable[[], Any], phase: str = "written") -> Any:
    """A run beside which these writers commit: the first at a phase, the others just before our attempts."""
    first, *others = races
    scene.adapter.faults.races.extend(others)
    report = scene.run(observer=At(phase, first))
    assert scene.table.leftovers() == set()
    return report


@pytest.mark.parametrize("phase", BEFORE_COMMIT)
def test_a_delete_in_each_input_costs_only_the_deleted_rows(scene: Scene, phase: str) -> None:
    """It replaces all seven files. Their copies leave the table with our commit, which has the rows in fewer files."""
    before = scene.table.rows()
    report = raced(scene, lambda: scene.table.delete("k >= 12 and k < 18 or k = 3"), phase=phase)
    (group,) = report.groups
    assert group.status == "committed"
    if phase != "planned":
        assert report.replayed_rows_count == 9
        assert {entry.level for entry in scene.table.current.files.values()} == {1}
    left = [row for row in before if not (12 <= row["k"] < 18 or row["k"] == 3)]
    assert fingerprint(scene.table.rows()) == fingerprint(left)


def test_only_outputs_with_a_deleted_row_are_copied(scene: Scene) -> None:
    written: list[str] = []

    def delete() -> None:
        written.extend(path for path in scene.table.disk if path not in scene.table.current.files)
        scene.table.delete("k = 5")

    raced(scene, delete)
    live = set(scene.table.current.files)
    assert len(written) > 3
    assert len(live.intersection(written)) == len(written) - 1


def test_statements_one_after_the_other_are_followed_to_the_last_copy(scene: Scene) -> None:
    before = scene.table.rows()
    report = raced(
        scene,
        lambda: scene.table.delete("k = 1 or k = 20"),
        lambda: (scene.table.append(rows(500)), scene.table.delete("k = 3")),
        lambda: scene.table.delete("k = 30 or k = 500 or k = 7"),
    )
    assert (report.commits, report.replayed_rows_count) == (1, 9)
    left = [row for row in before if row["k"] not in (1, 20, 3, 30, 7)]
    assert fingerprint(scene.table.rows()) == fingerprint(left)


def test_an_update_in_each_input_moves_the_updated_rows(scene: Scene) -> None:
    """Its files hold rows that we never read, with the ids of others: these move to a file of our commit."""
    before = scene.table.rows()
    report = raced(scene, lambda: scene.table.update("k >= 12 and k < 18 or k = 3", {"v": "new"}))
    assert (report.groups[0].status, report.replayed_rows_count) == ("committed", 9)
    assert report.rewritten_data_files_count == 14, "the inputs, and the files in their place"
    assert report.added_data_files_count == len(scene.table.current.files)
    assert Counter(entry.level for entry in scene.table.current.files.values())[0] == 1
    left = [{**row, "v": "new"} if 12 <= row["k"] < 18 or row["k"] == 3 else row for row in before]
    assert fingerprint(scene.table.rows()) == fingerprint(left)


def test_an_update_of_most_rows_drops_the_group(scene: Scene) -> None:
    before = scene.table.rows()
    report = raced(scene, lambda: scene.table.update("k >= 3", {"v": "new"}))
    assert report.groups[0].status == "dropped"
    left = [{**row, "v": "new"} if row["k"] >= 3 else row for row in before]
    assert fingerprint(scene.table.rows()) == fingerprint(left)


def test_an_update_after_a_delete(scene: Scene) -> None:
    before = scene.table.rows()
    raced(
        scene,
        lambda: scene.table.delete("k = 3"),
        lambda: scene.table.update("k = 21", {"v": "new"}),
    )
    left = [{**row, "v": "new"} if row["k"] == 21 else row for row in before if row["k"] != 3]
    assert fingerprint(scene.table.rows()) == fingerprint(left)


def test_a_copy_that_another_engine_rewrites_is_left_to_it(scene: Scene) -> None:
    """Its file may hold rows of other files: all rows of the replaced inputs are masked in ours."""
    known = set(scene.table.current.files)

    def compacted() -> None:
        scene.table.append(rows(700))
        scene.table.rewrite_foreign(*(path for path in scene.table.current.files if path not in known))

    raced(scene, lambda: scene.table.delete("k = 5"), compacted)
    assert sorted(r["k"] for r in scene.table.rows()) == sorted(
        [*(k for k in range(60) if k != 5), 3, 3, 7, 7, 700]
    )


@pytest.mark.parametrize("mostly", ["ours", "others"])
def test_a_copy_that_also_holds_rows_of_other_files(mostly: str) -> None:
    """It is left where it is if most of its rows are not ours: ours are then masked in the outputs. None is doubled."""
    scene = overlapping(settings=Settings(row_deletes=False))
    scene.table.append(rows(*range(1000, 1005 if mostly == "ours" else 1030)))
    copies: list[str] = []

    def merge() -> None:
        now = scene.table.current
        here, there = min(now.files), max(now.files)
        together = [row for path in (here, there) for row in now.files[path].live][1:]
        scene.table.apply("MERGE", lambda at: replaced(scene, at, [here, there], together))
        copies.extend(path for path in scene.table.current.files if path not in now.files)

    keys = sorted(row["k"] for row in scene.table.rows() if row["k"])
    report = raced(scene, merge)
    replayed = 1 if mostly == "ours" else 10
    assert (report.groups[0].status, report.replayed_rows_count) == ("committed", replayed)
    assert sorted(row["k"] for row in scene.table.rows()) == keys
    assert (copies[0] in scene.table.current.files) == (mostly == "others")


def test_a_delete_in_several_groups_is_followed_in_each() -> None:
    """One statement replaces all nine files by one file each, as it does for files of a usual size."""
    scene = groups_apart(3)
    scene.table.settings = Settings(row_deletes=False)
    before = scene.table.rows()
    gone = {key for g in range(3) for key in (1000 * g + 5, 1000 * g + 12, 1000 * g + 21)}
    report = raced(scene, lambda: scene.table.delete(lambda row: row["k"] in gone), phase="before_commit")
    assert [(g.status, g.replayed_rows) for g in report.groups] == [("committed", 3)] * 3
    assert {entry.level for entry in scene.table.current.files.values()} == {1}
    assert fingerprint(scene.table.rows()) == fingerprint([r for r in before if r["k"] not in gone])


def test_a_copy_of_equal_rows_of_two_groups_is_followed_in_one_of_them() -> None:
    """Two groups read the same row; a statement deletes one of the two, and the copy of the other fits both."""
    scene = overlapping(1, 1, settings=Settings(row_deletes=False, row_ids=False))
    scene.table.append(rows(0))
    adapter, runner, snapshot = scene.adapter, scene.runner, scene.adapter.snapshot()
    tasks = [task_for(snapshot, [block.path]) for block in snapshot.blocks]
    made = [adapter.write(runner.merge(adapter.read(task), task), task, "r-1") for task in tasks]
    gone = list(scene.table.current.files)
    stored = next(iter(scene.table.current.files.values())).file.rows
    scene.table.apply("DELETE", lambda now: replaced(scene, now, gone, list(stored)))
    changes = adapter.changes_since(snapshot)
    replayer = Replayer(adapter, runner, "r-1", snapshot, resolve({"replay.max-deleted-ratio": 1.0}))
    first, second = replayer.replay_all(made, changes)
    assert isinstance(first, Rewrite)
    assert (first.rows_out, len(first.successors or ())) == (1, 1)
    assert isinstance(second, Dropped), "no row of its input is left"
    adapter.commit([first], snapshot, "r-1")
    assert len(scene.table.rows()) == 1


def replaced(scene: Scene, now: Version, gone: list[str], kept: list[Any]) -> Version:
    """The version after a statement that wrote the ``kept`` rows in place of the files ``gone``."""
    file = scene.table.write_file(now, kept)
    files = {path: entry for path, entry in now.files.items() if path not in gone}
    return replace(now, files={**files, file.path: Entry(file, now.at_ms)})


def test_a_restore_brings_back_what_was_followed(scene: Scene) -> None:
    before = scene.table.rows()
    files = scene.table.current.files
    report = raced(
        scene,
        lambda: scene.table.delete("k = 3 or k = 9"),
        lambda: scene.table.apply("RESTORE", lambda now: replace(now, files=files)),
    )
    assert (report.groups[0].status, report.replayed_rows_count) == ("committed", 0)
    assert fingerprint(scene.table.rows()) == fingerprint(before)


@pytest.mark.parametrize("seed", range(150))
def test_whatever_writers_do_no_row_is_lost_or_doubled(seed: int) -> None:
    """Statements, appends, compactions and restores at random, before and between our attempts to commit."""
    rng = random.Random(seed)
    settings = Settings(
        row_deletes=False,
        row_ids=rng.random() < 0.5,
        finds_rows=rng.random() < 0.5,
        counts_rows=rng.random() < 0.7,
    )
    scene = overlapping(rng.randint(2, 6), rng.choice((3, 10)), settings=settings)
    table = scene.table
    table.append(rows(3, 3, 7, 7, 7))
    expected: list[Any] = []

    def act() -> None:
        for _ in range(rng.randint(1, 2)):
            which, k = rng.random(), rng.randint(0, 20)
            if which < 0.5:
                table.delete(f"k >= {k} and k <= {k + rng.randint(0, 3)}")
            elif which < 0.65:
                table.update(f"k = {k}", {"v": f"new{rng.randint(0, 2)}"})
            elif which < 0.8:
                table.append(rows(k, k))
            elif which < 0.9:
                table.rewrite_foreign(
                    *rng.sample(list(table.current.files), min(2, len(table.current.files)))
                )
            else:
                table.settings = Settings(row_deletes=True, row_ids=settings.row_ids)
                table.delete(f"k = {k}")
                table.settings = settings
        expected[:] = table.rows()

    races = [act] * rng.randint(1, 4)
    report = raced(scene, *races, phase=rng.choice(BEFORE_COMMIT[1:]))
    assert fingerprint(table.rows()) == fingerprint(expected)
    assert {group.status for group in report.groups} <= {"committed", "dropped"}
