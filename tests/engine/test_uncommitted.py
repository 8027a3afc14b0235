"""A file that cannot be removed costs space, and never the work or the answer of a call."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from lakekeeper.core.model.plan import MergeTask
from lakekeeper.core.planning.rewrites import Rewrite
from lakekeeper.engine.delete.row_delete import delete_rows
from lakekeeper.engine.state.leases import registered
from lakekeeper.engine.uncommitted import removed, without_error
from lakekeeper.errors import Conflict
from lakekeeper.spi import Prepared
from lakekeeper.testing.deletes import MemoryDeletes
from lakekeeper.testing.lake import LiveFileDiscarded
from lakekeeper.testing.memory import MemoryAdapter
from tests.engine.phases import At
from tests.engine.scene import IN_PARTS, groups_apart, overlapping
from tests.engine.vacuums import DAY, run


class Stuck(MemoryAdapter):
    """An adapter whose store refuses to delete."""

    def discard(self, rewrites: Sequence[Rewrite]) -> None:
        """Fails where there is a file to delete."""
        if any(rewrite.outputs or rewrite.extra or rewrite.stale for rewrite in rewrites):
            raise RuntimeError("403 s3:DeleteObject")


class _Skips(MemoryAdapter):
    """An adapter whose store refuses to delete, and which skips such files, as both formats do."""

    def discard(self, rewrites: Sequence[Rewrite]) -> None:
        """Nothing is gone."""


class _StuckDeletes(MemoryDeletes):
    def discard(self, prepared: Sequence[Prepared]) -> None:
        raise RuntimeError("403 s3:DeleteObject")


class _SkippingDeletes(MemoryDeletes):
    def discard(self, prepared: Sequence[Prepared]) -> None:
        """Nothing is gone."""


def followed_up(adapter: MemoryAdapter) -> list[bool]:
    """One value for each run that a vacuum looks for: whether it is over."""
    return [each.ended for each in registered(adapter.notes).values()]


@pytest.mark.parametrize("options", [{}, IN_PARTS], ids=["one commit", "in parts"])
def test_a_group_that_loses_a_race_costs_no_other_group(options: dict[str, Any]) -> None:
    scene = groups_apart(4)
    scene.adapter = Stuck(scene.table)
    gone = At("before_commit", lambda: scene.table.delete("k < 1000"))  # the rows of one group
    report = scene.run(observer=gone, options={"max-concurrent-file-group-rewrites": 1, **options})
    assert sorted(group.status for group in report.groups) == ["committed"] * 3 + ["dropped"]
    assert followed_up(scene.adapter) == [True]


@pytest.mark.parametrize("kind", [Stuck, _Skips])
def test_files_of_an_attempt_that_was_too_large_are_found_by_a_vacuum(
    monkeypatch: pytest.MonkeyPatch, kind: type[MemoryAdapter]
) -> None:
    """The finer attempt lands, so nothing else makes a vacuum look for the files of the first one."""
    written: list[Rewrite] = []
    write = kind.write

    def first_is_too_large(self: MemoryAdapter, rows: Any, task: MergeTask, run_id: str) -> Rewrite:
        made = write(self, rows, task, run_id)
        written.append(made)
        large = tuple(replace(output, bytes=task.max_bytes + 1) for output in made.outputs)
        return replace(made, outputs=large) if len(written) == 1 else made

    scene = groups_apart(1)
    scene.adapter = kind(scene.table)
    monkeypatch.setattr(kind, "write", first_is_too_large)
    assert scene.run().status == "done"
    assert len(written) == 2
    assert scene.table.leftovers() == {output.path for output in written[0].outputs}
    assert followed_up(scene.adapter) == [True]
    scene.table.later(100 * DAY)
    run(scene.table, age_ms=DAY)
    assert scene.table.leftovers() == set()


@pytest.mark.parametrize("deletes", [_StuckDeletes, _SkippingDeletes])
@pytest.mark.parametrize(
    "rival, ended", [("delete", None), ("rewrite", Conflict)], ids=["nothing left to delete", "gives up"]
)
def test_a_delete_ends_as_it_would(
    monkeypatch: pytest.MonkeyPatch, rival: str, ended: type[Exception] | None, deletes: type[MemoryDeletes]
) -> None:
    scene = overlapping()
    monkeypatch.setattr(type(scene.adapter), "deletes", property(deletes))

    def meanwhile(phase: str, _info: object) -> None:
        if phase == "before_commit" and rival == "delete":
            scene.table.delete("k < 3")
        elif phase == "before_commit":
            scene.table.rewrite_foreign(*scene.table.current.files)

    options = scene.request(options={"commit.retry.num-retries": 1}).options
    arguments = (scene.adapter, scene.runner, "k < 3", options)
    if ended is None:
        report = delete_rows(*arguments, observer=meanwhile, clock=scene.clock)
        assert report.deleted_rows_count == 0
    else:
        with pytest.raises(ended, match="gave up after 2 attempts"):
            delete_rows(*arguments, observer=meanwhile, clock=scene.clock)
    assert followed_up(scene.adapter) == [True]


def test_what_cannot_be_removed_is_logged_without_secrets(caplog: pytest.LogCaptureFixture) -> None:
    adapter = groups_apart(1).adapter
    there = str(adapter.snapshot().blocks.path[0])

    def fails() -> None:
        raise OSError("s3a://key:secret@bucket/t: 503")

    with caplog.at_level(logging.WARNING, "lakekeeper.events"):
        assert not without_error("db.t", fails)
        assert not removed(adapter, [there], fails)
        assert not removed(adapter, [there, "data/gone"], lambda: None)
    assert caplog.text.count("db.t: uncommitted files may be left for a vacuum") == 3
    assert f"1, {there} among them" in caplog.text
    assert "secret" not in caplog.text


def test_what_is_gone_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    adapter = groups_apart(1).adapter
    assert without_error("db.t", lambda: None)
    assert removed(adapter, ["data/gone"], lambda: None)
    assert removed(adapter, [], lambda: None)
    assert caplog.text == ""


def test_a_live_file_is_an_error_of_the_code() -> None:
    def live() -> None:
        raise LiveFileDiscarded("db.t", "data/a")

    with pytest.raises(LiveFileDiscarded, match="part of the table"):
        without_error("db.t", live)
    with pytest.raises(LiveFileDiscarded, match="part of the table"):
        removed(groups_apart(1).adapter, ["data/a"], live)
