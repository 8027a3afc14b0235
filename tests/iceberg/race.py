"""What the engine does when a rewrite lost a race, step by step, so that a test can look at each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lakekeeper.core.blocks import Snapshot
from lakekeeper.core.rebase import Changes, Rewrite, applied_now, rebase
from lakekeeper.spark.merge import SparkRunner
from lakekeeper.spi import Commit
from lakekeeper_iceberg import IcebergTable
from tests.iceberg.scene import Scene, rewritten, tasks_of


@dataclass
class Race:
    """Rewrites of a table's blocks that are not committed yet; ``lost`` counts the rows that each replay masked."""

    scene: Scene
    adapter: IcebergTable
    snapshot: Snapshot
    made: list[Rewrite]
    lost: list[int] = field(default_factory=list)

    @classmethod
    def start(
        cls, scene: Scene, columns: Sequence[str] = ("k",), where: str | None = None, **task: Any
    ) -> Race:
        adapter = scene.adapter()
        snapshot = adapter.snapshot(columns)
        tasks = tasks_of(adapter.snapshot(columns, where) if where else snapshot, **task)
        return cls(scene, adapter, snapshot, [rewritten(adapter, each) for each in tasks])

    def replay(self, most_gone: float = 0.5) -> Changes:
        """Bring all rewrites up to date; none may be dropped."""
        changes = self.adapter.changes_since(self.snapshot)
        sorted_out = rebase(self.made, changes, most_gone=most_gone)
        assert sorted_out.drop == ()
        for rewrite in sorted_out.replay:
            masked = self._masked(rewrite, changes)
            self.made[self.made.index(rewrite)] = masked
            if rewrite.unmasked is not None:
                self.adapter.discard([replace(rewrite, outputs=())])
        return changes

    def _masked(self, rewrite: Rewrite, changes: Changes) -> Rewrite:
        runner = SparkRunner(self.scene.spark)
        matched = runner.match(self.adapter.deletes.traces(rewrite, self.snapshot, changes), 10**6)
        try:
            assert matched.found == matched.lost
            masked = self.adapter.deletes.mask(rewrite, matched.hits, changes)
        finally:
            runner.release(matched)
        self.lost.append(matched.lost)
        assert masked.replayed == matched.lost
        assert masked.rows_out == rewrite.written.rows_out - matched.lost
        assert masked.applied == applied_now(masked.task, changes)
        assert masked.unmasked == rewrite.written
        return masked

    def commit(self, run_id: str = "run-1") -> Commit:
        done = self.adapter.commit(self.made, self.snapshot, run_id)
        for rewrite in self.made:
            live = {output.path for output in rewrite.outputs}
            stale = tuple(o for o in rewrite.written.outputs if o.path not in live)
            self.adapter.discard([replace(rewrite.written, outputs=stale)])
        return done

    def give_up(self) -> None:
        """Remove all files, as written and of replays."""
        for rewrite in self.made:
            self.adapter.discard([rewrite.written, replace(rewrite, outputs=())])
