"""Files that were removed between their write and their commit are not committed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from lakekeeper.core.config.options import resolve
from lakekeeper.engine.delete.row_delete import delete_rows
from lakekeeper.engine.trash.drop_partition import drop_rows
from lakekeeper.engine.trash.entries import entries
from lakekeeper.engine.trash.restore import restore
from lakekeeper.errors import AdapterError, Rejected
from lakekeeper.testing.lake import Settings
from tests.engine.scene import Scene, groups_apart, overlapping


def take_away(scene: Scene) -> Callable[[str, Mapping[str, Any]], None]:
    """Another job removes the orphans of the table just before a commit, without a grace period."""

    def observer(phase: str, _: Mapping[str, Any]) -> None:
        if phase == "before_commit":
            for path in scene.table.leftovers():
                del scene.table.disk[path]

    return observer


def test_missing_outputs_are_not_committed() -> None:
    scene = groups_apart(3)
    before, versions = scene.table.fingerprint(), len(scene.table.versions)
    with pytest.raises(Rejected, match=r"9 of 9 new files are gone: data/lk.*; nothing was committed"):
        scene.run(observer=take_away(scene))
    assert len(scene.table.versions) == versions
    assert scene.table.fingerprint() == before
    assert scene.table.touched.attempts == 0
    assert scene.run().commits == 1
    assert scene.table.fingerprint() == before


def test_one_missing_output_is_named_and_the_others_are_removed() -> None:
    scene = groups_apart(3)
    taken: list[str] = []

    def observer(phase: str, _: Mapping[str, Any]) -> None:
        if phase == "before_commit":
            taken.append(min(scene.table.leftovers()))
            del scene.table.disk[taken[0]]

    with pytest.raises(Rejected) as refused:
        scene.run(observer=observer)
    assert f"1 of 9 new files are gone: {taken[0]};" in str(refused.value)
    assert scene.table.leftovers() == set()


def test_the_check_is_repeated_for_each_attempt() -> None:
    """A file can disappear while an attempt waits: an earlier check proves nothing."""
    scene = groups_apart(2)
    checks: list[int] = []
    lose = ["0", "1", "2"]

    def checked(what: str) -> None:
        if what == "missing":
            checks.append(scene.table.touched.attempts)

    scene.table.before = checked
    scene.adapter.faults.races.extend([lambda: scene.table.delete(f"k = {lose.pop()}")] * 3)
    assert scene.run().commits == 1
    assert checks == list(range(scene.table.touched.attempts)) == [0, 1, 2, 3]


@pytest.mark.parametrize("times", [1, 3, 1000])
def test_a_storage_that_does_not_answer_does_not_mean_a_missing_file(times: int) -> None:
    scene = groups_apart(2)
    before, calls = scene.table.fingerprint(), iter(range(times))

    def down(what: str) -> None:
        if what == "missing" and next(calls, None) is not None:
            raise AdapterError("db.t: 503")

    scene.table.before = down
    if times < 1000:
        assert scene.run().commits == 1
    else:
        with pytest.raises(Rejected, match=r"still there is unknown, so nothing was committed \(db.t: 503\)"):
            scene.run()
        assert scene.table.touched.attempts == 0
        assert sum(scene.pauses) < 60
    assert scene.table.fingerprint() == before
    assert scene.table.leftovers() == set()


def test_a_delete_that_rewrites_files_checks_them_too() -> None:
    scene = overlapping(2, settings=Settings(row_deletes=False))
    before = scene.table.fingerprint()
    with pytest.raises(Rejected, match="new files are gone"):
        delete_rows(
            scene.adapter,
            scene.runner,
            "k = 1",
            resolve(),
            observer=take_away(scene),
            clock=scene.clock,
        )
    assert scene.table.fingerprint() == before


def test_a_restore_checks_its_copies_too() -> None:
    scene = overlapping(2)
    before = sorted(row["k"] for row in scene.table.rows())
    drop_rows(scene.adapter, scene.runner, "k < 5", resolve(), clock=scene.clock)
    (entry,) = entries(scene.adapter).values()
    left = scene.table.fingerprint()
    with pytest.raises(Rejected, match="new files are gone"):
        restore(
            scene.adapter, scene.runner, entry.name, resolve(), observer=take_away(scene), clock=scene.clock
        )
    assert scene.table.fingerprint() == left
    restore(scene.adapter, scene.runner, entry.name, resolve(), clock=scene.clock)
    assert sorted(row["k"] for row in scene.table.rows()) == before
