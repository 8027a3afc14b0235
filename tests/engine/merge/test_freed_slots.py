"""A merge that other writers raced keeps its slot only where files that no version names may be left."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import pytest

from lakekeeper.core.model.plan import MergeTask
from lakekeeper.core.planning.rewrites import Rewrite
from lakekeeper.engine.state.leases import registered
from lakekeeper.errors import AdapterError
from lakekeeper.spi import Matched
from lakekeeper.testing.deletes import MemoryDeletes
from lakekeeper.testing.lake import Settings
from lakekeeper.testing.memory import MemoryAdapter, Parts
from lakekeeper.testing.storage import MemoryStorage
from tests.engine.phases import At
from tests.engine.scene import Scene, groups_apart, overlapping

KINDS = {
    "masks": Settings(),
    "copy-on-write": Settings(row_deletes=False),
    "scanned, masks": Settings(finds_rows=False, row_ids=False),
}


class _Kept(MemoryAdapter):
    """An adapter that can delete no file, and does not say so."""

    def discard(self, rewrites: Sequence[Rewrite]) -> None:
        """Nothing is gone."""


def ended(scene: Scene) -> list[bool]:
    """One value for each registration that is left: whether its run is over."""
    return [each.ended for each in registered(scene.adapter.notes).values()]


@pytest.mark.parametrize("kind", KINDS)
def test_a_merge_whose_deletes_were_replayed_leaves_no_intent(kind: str) -> None:
    scene = overlapping(settings=KINDS[kind])
    report = scene.run(observer=At("written", lambda: scene.table.delete("k = 3 or k = 20")))
    assert (report.commits, report.conflicts) == (1, 1)
    assert report.replayed_rows_count >= 2
    assert ended(scene) == []
    assert scene.table.leftovers() == set()


def too_many(scene: Scene) -> object:
    return scene.table.delete("k < 40")


def rewritten(scene: Scene) -> object:
    return scene.table.rewrite_foreign()


@pytest.mark.parametrize("act", [too_many, rewritten])
def test_a_merge_whose_groups_were_dropped_leaves_no_intent(act: Callable[[Scene], object]) -> None:
    scene = overlapping()
    report = scene.run(observer=At("before_commit", lambda: act(scene)))
    assert [group.status for group in report.groups] == ["dropped"]
    assert ended(scene) == []
    assert scene.table.leftovers() == set()


@pytest.mark.parametrize("kind", ["dropped", "replaced"])
def test_a_discarded_file_that_is_still_there_keeps_the_slot(kind: str) -> None:
    scene = overlapping(settings=Settings(row_deletes=kind == "dropped"))
    scene.adapter = _Kept(scene.table)
    act = too_many if kind == "dropped" else lambda scene: scene.table.delete("k = 3 or k = 20")
    report = scene.run(observer=At("before_commit", lambda: act(scene)))
    assert [group.status for group in report.groups] == ["dropped" if kind == "dropped" else "committed"]
    assert scene.table.leftovers()
    assert ended(scene) == [True]


def test_where_the_storage_does_not_answer_the_slot_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = overlapping()

    def down(_self: MemoryStorage, _paths: Collection[str]) -> set[str]:
        raise AdapterError("503 Slow Down")

    monkeypatch.setattr(MemoryStorage, "missing", down)
    assert scene.run(observer=At("before_commit", lambda: too_many(scene))).commits == 0
    assert ended(scene) == [True]


def test_a_replay_that_failed_keeps_the_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have written files whose names were lost with it."""
    scene = overlapping(settings=Settings(finds_rows=False))

    def fail(*_: object) -> Matched[Any]:
        raise RuntimeError("executor lost")

    monkeypatch.setattr(scene.runner, "match", fail)
    report = scene.run(observer=At("written", lambda: scene.table.delete("k = 3")))
    assert [group.status for group in report.groups] == ["dropped"]
    assert ended(scene) == [True]


def test_a_replay_that_wrote_a_wrong_mask_keeps_the_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = overlapping()
    real = MemoryDeletes.mask

    def wrong(self: MemoryDeletes, *args: Any) -> Rewrite:
        masked = real(self, *args)
        return replace(masked, replayed=masked.replayed + 1)

    monkeypatch.setattr(MemoryDeletes, "mask", wrong)
    report = scene.run(observer=At("written", lambda: scene.table.delete("k = 3")))
    (group,) = report.groups
    assert group.detail is not None
    assert "mask_disagrees" in group.detail.codes
    assert ended(scene) == [True]


def test_an_attempt_that_lost_keeps_the_slot() -> None:
    scene = overlapping()
    scene.adapter.faults.races.append(lambda: scene.table.delete("k = 3"))
    assert scene.run().commits == 1
    assert ended(scene) == [True]


def test_a_job_that_failed_keeps_the_slot_although_its_group_lost_a_race() -> None:
    """The report calls the group dropped, since a concurrent commit removed its inputs."""
    scene = groups_apart(1)

    class _Failing(MemoryAdapter):
        def write(self, rows: Parts, task: MergeTask, run_id: str) -> Rewrite:
            scene.table.rewrite_foreign()
            raise RuntimeError("an input is gone")

    scene.adapter = _Failing(scene.table)
    report = scene.run()
    assert [group.status for group in report.groups] == ["dropped"]
    assert ended(scene) == [True]
