"""A file that cannot be removed costs space, and never the work or the answer of a call."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import pytest

from lakekeeper.core.planning.rebase import Rewrite
from lakekeeper.engine.delete.row_delete import delete_rows
from lakekeeper.engine.state.leases import registered
from lakekeeper.engine.uncommitted import removed
from lakekeeper.errors import Conflict
from lakekeeper.spi import Prepared
from lakekeeper.testing.deletes import MemoryDeletes
from lakekeeper.testing.lake import LiveFileDiscarded
from lakekeeper.testing.memory import MemoryAdapter
from tests.engine.phases import At
from tests.engine.scene import IN_PARTS, groups_apart, overlapping


class Stuck(MemoryAdapter):
    """An adapter whose store refuses to delete."""

    def discard(self, rewrites: Sequence[Rewrite]) -> None:
        """Fails where there is a file to delete."""
        if any(rewrite.outputs or rewrite.extra or rewrite.stale for rewrite in rewrites):
            raise RuntimeError("403 s3:DeleteObject")


class _StuckDeletes(MemoryDeletes):
    def discard(self, prepared: Sequence[Prepared]) -> None:
        raise RuntimeError("403 s3:DeleteObject")


@pytest.mark.parametrize("options", [{}, IN_PARTS], ids=["one commit", "in parts"])
def test_a_group_that_loses_a_race_costs_no_other_group(options: dict[str, Any]) -> None:
    scene = groups_apart(4)
    scene.adapter = Stuck(scene.table)
    gone = At("before_commit", lambda: scene.table.delete("k < 1000"))  # the rows of one group
    report = scene.run(observer=gone, options={"max-concurrent-file-group-rewrites": 1, **options})
    assert sorted(group.status for group in report.groups) == ["committed"] * 3 + ["dropped"]
    assert [each.ended for each in registered(scene.adapter.notes).values()] == [True], "a vacuum looks"


@pytest.mark.parametrize(
    "rival, ended", [("delete", None), ("rewrite", Conflict)], ids=["nothing left to delete", "gives up"]
)
def test_a_delete_ends_as_it_would(
    monkeypatch: pytest.MonkeyPatch, rival: str, ended: type[Exception] | None
) -> None:
    scene = overlapping()
    monkeypatch.setattr(type(scene.adapter), "deletes", property(_StuckDeletes))

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
    assert [each.ended for each in registered(scene.adapter.notes).values()] == [True], "a vacuum looks"


def test_what_cannot_be_removed_is_logged_without_secrets(caplog: pytest.LogCaptureFixture) -> None:
    def fails() -> None:
        raise OSError("s3a://key:secret@bucket/t: 503")

    with caplog.at_level(logging.WARNING, "lakekeeper.events"):
        assert not removed("db.t", fails)
    assert "db.t: uncommitted files may be left for a vacuum" in caplog.text
    assert "secret" not in caplog.text
    assert removed("db.t", lambda: None)


def test_a_live_file_is_an_error_of_the_code() -> None:
    def live() -> None:
        raise LiveFileDiscarded("db.t", "data/a")

    with pytest.raises(LiveFileDiscarded, match="part of the table"):
        removed("db.t", live)
