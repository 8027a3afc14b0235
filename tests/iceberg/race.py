"""What the engine does when a rewrite loses a race, step by step, and what must hold afterwards."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from lakekeeper.core.model.blocks import UNKNOWN, Snapshot
from lakekeeper.core.model.run_folders import RUN_FOLDER
from lakekeeper.core.planning.changes import Changes
from lakekeeper.core.planning.rebase import applied_now, rebase
from lakekeeper.core.planning.rewrites import Rewrite
from lakekeeper.spark.merge import SparkRunner
from lakekeeper.spi import Commit, Followed
from lakekeeper_iceberg import IcebergTable
from tests.iceberg.scene import Scene
from tests.rewrites import followed, rewritten, tasks_of

_LINEAGE = ("*", "_row_id", "_last_updated_sequence_number")


@dataclass
class Race:
    """Rewrites of a table's blocks that are not committed yet; ``lost`` counts the rows masked after each replay."""

    scene: Scene
    adapter: IcebergTable
    snapshot: Snapshot
    made: list[Rewrite]
    lost: list[int] = field(default_factory=list)
    points: int = 0
    followed: int = 0
    compared: int = 0

    @classmethod
    def start(
        cls, scene: Scene, columns: Sequence[str] | None = ("k",), where: str | None = None, **task: Any
    ) -> Race:
        adapter = scene.adapter()
        snapshot = adapter.snapshot(columns)
        tasks = tasks_of(adapter.snapshot(columns, where) if where else snapshot, **task)
        return cls(scene, adapter, snapshot, [rewritten(adapter, each) for each in tasks])

    def replay(self, most_gone: float = 0.5) -> Changes:
        """Replay all rewrites; none may be dropped."""
        changes = self.adapter.changes_since(self.snapshot)
        sorted_out = rebase(self.made, changes, most_gone=most_gone)
        assert sorted_out.drop == ()
        for rewrite in sorted_out.replay:
            self.made[self.made.index(rewrite)] = self._masked(rewrite, changes)
        return changes

    def _masked(self, rewrite: Rewrite, changes: Changes) -> Rewrite:
        """Both ways of finding the rows must find the same number, unless the point lookup declines."""
        runner, deletes = SparkRunner(self.scene.spark), self.adapter.deletes
        followed = self._followed(rewrite, changes)
        lost = deletes.lost(rewrite, self.snapshot, changes, followed)
        places = deletes.places(lost) if lost.rows else {} if lost.rows == 0 else None
        self.points += places is not None
        matched = runner.match(deletes.traces(lost), 10**6)
        try:
            assert matched.found == matched.lost
            assert lost.rows in (matched.lost, None)
            hits: Any = matched.hits if places is None else places
            masked = deletes.mask(lost, hits)
        finally:
            runner.release(matched)
            self.adapter.release(rewrite.task)
        total = lost.base.replayed + matched.lost
        self.lost.append(total)
        assert masked.replayed == total
        assert masked.rows_out == rewrite.written.rows_out - total
        assert masked.applied == applied_now(masked.task, changes)
        assert masked.unmasked == rewrite.written
        return masked

    def _followed(self, rewrite: Rewrite, changes: Changes) -> Followed | None:
        found, here = followed(self.adapter, self.scene.spark, rewrite, self.snapshot, changes)
        self.followed += len(found.files) if found is not None else 0
        self.compared += here
        return found

    def commit(self, run_id: str = "run-1") -> Commit:
        done = self.adapter.commit(self.made, self.snapshot, run_id)
        for rewrite in self.made:
            live = {output.path for output in rewrite.outputs}
            gone = tuple(o for o in rewrite.written.outputs if o.path not in live)
            self.adapter.discard([replace(rewrite, outputs=gone, extra=())])
        return done

    def give_up(self) -> None:
        """Delete all files, of the rewrite and of its replays."""
        for rewrite in self.made:
            self.adapter.discard([rewrite.written, replace(rewrite, outputs=())])


def fill(start: int, stop: int) -> str:
    """One file of rows, not sorted by the key."""
    rows = f"cast(id * 37 % 101 AS int) AS k, concat('v', id) AS v FROM range({start}, {stop})"
    return f"INSERT INTO {{t}} SELECT /*+ COALESCE(1) */ {rows}"


def three_files(scene: Scene, version: int, **given: str) -> Scene:
    scene.create("k INT, v STRING", version, properties=given)
    return scene.run(fill(0, 30), fill(30, 60), fill(60, 90))


def check(scene: Scene, race: Race, replayed: int | None = None, *, dangle: bool = False) -> None:
    """Replay and commit; no reader of any version sees a change, and no unreferenced file is left."""
    columns = _LINEAGE if race.adapter.capabilities.row_lineage else ("*",)
    before, rows = scene.every_version(), scene.spark_rows(columns=columns)
    now = scene.spark_rows()
    race.replay(1.0)
    done = race.commit()
    after = scene.every_version()
    assert after.pop(done.version) == (now, now)
    assert after == before
    assert scene.spark_rows(columns=columns) == rows
    # Spark's copy-on-write DELETE may write an empty file that it does not commit.
    of_runs = re.compile(f"/{RUN_FOLDER}/")
    assert {path for path in scene.leftovers() if of_runs.search(path) or "deletes" in path} == set()
    assert scene.metadata_leftovers() == set()
    if not dangle:
        dangling(scene)
    if replayed is not None:
        assert race.lost[-1] == replayed
    masked = sum(rewrite.replayed for rewrite in race.made)
    current = scene.java().currentSnapshot()
    assert current.summary().get("lakekeeper.replayed-rows") == (str(masked) if masked else None)
    assert str(current.operation()) == "replace"


def delete_places(scene: Scene, where: str) -> None:
    """A winner that deletes rows by position, which Spark's DELETE does not: it keeps the files."""
    runner, adapter = SparkRunner(scene.spark), scene.adapter()
    snapshot = adapter.snapshot()
    unsure = replace(snapshot.blocks, deleted_rows=np.full(len(snapshot.blocks), UNKNOWN))
    rows = scene.spark.table(scene.sql).where(where).selectExpr("_file AS file", "_pos AS position")
    held = runner.hold(rows)
    seen = replace(snapshot, blocks=unsure)
    prepared = adapter.deletes.prepare(held, (), seen, "user-1")
    adapter.deletes.delete([prepared], seen, "user-1", where)
    runner.release(held)


def dangling(scene: Scene) -> None:
    """Position deletes and deletion vectors reference live files only."""
    files = scene.spark.table(f"{scene.sql}.data_files").select("file_path").collect()
    named = scene.spark.sql(f"SELECT DISTINCT file_path FROM {scene.sql}.position_deletes").collect()
    assert {r[0] for r in named} <= {r[0] for r in files}
