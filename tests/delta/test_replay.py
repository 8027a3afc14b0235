"""Deletes that won the race are in what we commit: contents by two readers, on real tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from lakekeeper.core.blocks import Snapshot
from lakekeeper.core.rebase import Rewrite, rebase
from lakekeeper.spark.merge import SparkRunner
from lakekeeper.spi import Commit
from lakekeeper_delta.table import DeltaTable
from tests.delta.scene import Scene, rewritten, tasks_of
from tests.oracles import delta_log

pytestmark = pytest.mark.delta

VECTORS = "'delta.enableDeletionVectors'='true'"
COPIES = "'delta.enableDeletionVectors'='false'"


@dataclass
class Race:
    """A rewrite of all blocks that was read and written, and others who commit before it does."""

    scene: Scene
    adapter: DeltaTable
    snapshot: Snapshot
    rewrites: list[Rewrite]

    @classmethod
    def start(cls, scene: Scene, columns: Sequence[str] | None = ("k",), **task: Any) -> Race:
        adapter = scene.adapter()
        snapshot = adapter.snapshot(columns)
        return cls(scene, adapter, snapshot, [rewritten(adapter, t) for t in tasks_of(snapshot, **task)])

    def replay(self) -> list[Rewrite]:
        """What the engine does after a conflict; the rewrites that may be committed now."""
        changes = self.adapter.changes_since(self.snapshot)
        rebased = rebase(self.rewrites, changes)
        assert not rebased.drop, rebased.drop
        runner = SparkRunner(self.scene.spark)
        done = []
        for rewrite in rebased.replay:
            matched = runner.match(self.adapter.deletes.traces(rewrite, self.snapshot, changes), 10**6)
            assert matched.found == matched.lost
            masked = self.adapter.deletes.mask(rewrite, matched.hits, changes)
            runner.release(matched)
            assert masked.replayed == matched.lost
            assert masked.written is rewrite.written
            assert masked.rows_out == rewrite.written.rows_out - matched.lost
            if rewrite.unmasked is not None:
                self.adapter.discard([replace(rewrite, outputs=())])
            done.append(masked)
        self.rewrites = [*rebased.keep, *done]
        return self.rewrites

    def commit(self, run_id: str = "run-1") -> Commit:
        commit = self.adapter.commit(self.rewrites, self.snapshot, run_id)
        for rewrite in self.rewrites:
            live = {output.path for output in rewrite.outputs}
            stale = tuple(o for o in rewrite.written.outputs if o.path not in live)
            self.adapter.discard([replace(rewrite.written, outputs=stale)])
        return commit

    def won(self, run_id: str = "run-1") -> Commit:
        """Replay and commit; every promise about the table is checked."""
        scene = self.scene
        before = {v: scene.log_rows(v) for v in delta_log.versions(scene.path)}
        expected, files = scene.spark_rows(), set(delta_log.replay(scene.path).adds)
        # Delta's own DELETE leaves the vectors of files that it then takes out as a whole.
        ours = {o.path for r in self.rewrites for o in r.written.outputs}
        ours |= {path for r in self.rewrites for path in r.extra}
        theirs = leftovers(scene) - set(map(delta_log.unquote, ours))
        self.replay()
        commit = self.commit(run_id)
        assert scene.version == commit.version == max(before) + 1
        assert scene.spark_rows() == expected == scene.log_rows()
        for version, rows in before.items():
            assert scene.log_rows(version) == rows
        assert scene.spark_rows(max(before)) == before[max(before)]
        self._live_files(files, commit)
        assert leftovers(scene) == theirs
        return commit

    def _live_files(self, before: set[tuple[str, str]], commit: Commit) -> None:
        adds = delta_log.replay(self.scene.path).adds
        known = {path: dv for r in self.rewrites for path, dv in r.inputs_now.items() if dv is not None}
        assert before - set(adds) == set(known.items())
        outputs = {o.path: o for r in self.rewrites for o in r.outputs}
        assert {path for path, _ in set(adds) - before} == set(outputs) == set(commit.added)
        for (path, _), add in adds.items():
            if path in outputs:
                vector = add.get("deletionVector") or {"cardinality": 0}
                assert vector["cardinality"] == outputs[path].masked
                assert add["tags"]["lakekeeper.level"] == "1"
                assert not add["dataChange"]
        assert all(not a["add"]["dataChange"] for a in self.scene.actions() if "add" in a)
        assert all(not a["remove"]["dataChange"] for a in self.scene.actions() if "remove" in a)
        info = next(a["commitInfo"] for a in self.scene.actions() if "commitInfo" in a)
        replayed = sum(r.replayed for r in self.rewrites)
        assert info["tags"].get("lakekeeper.replayed") == (str(replayed) if replayed else None)


def leftovers(scene: Scene) -> set[str]:
    """Data files, vectors and change files on disk that no version names."""
    named = set()
    for version in delta_log.versions(scene.path):
        for action in scene.actions(version):
            for kind in ("add", "remove", "cdc"):
                if kind in action:
                    named.add(delta_log.unquote(action[kind]["path"]))
                    named.update(_vector_file(action[kind].get("deletionVector")))
    found = [p for p in scene.path.rglob("*") if p.suffix in (".parquet", ".bin")]
    disk = {str(p.relative_to(scene.path)) for p in found if "_delta_log" not in p.parts}
    return disk - named


def _vector_file(vector: Any) -> list[str]:
    if not vector or vector["storageType"] != "u":
        return []
    prefix, encoded = vector["pathOrInlineDv"][:-20], vector["pathOrInlineDv"][-20:]
    name = f"deletion_vector_{delta_log.uuid.UUID(bytes=delta_log._z85(encoded))}.bin"
    return [f"{prefix}/{name}" if prefix else name]


def table(
    scene: Scene, properties: str = VECTORS, columns: str = "k BIGINT, v STRING", tail: str = ""
) -> Scene:
    return scene.run(f"CREATE TABLE {{t}} ({columns}) USING delta {tail} TBLPROPERTIES ({properties})")


def filled(scene: Scene, properties: str = VECTORS) -> Scene:
    """Three files of 40 rows; each row of the first is in the second once more."""
    insert = "INSERT INTO {t} SELECT /*+ COALESCE(1) */ id % 7, concat('%s', id) FROM range(40)"
    return table(scene, properties).run(*[insert.replace("%s", letter) for letter in "vvw"])


MERGE = (
    "MERGE INTO {t} USING (SELECT 'v3' s UNION SELECT 'w4' UNION SELECT 'w9' UNION SELECT 'new') ON v = s "
    "WHEN MATCHED AND v = 'w4' THEN DELETE WHEN MATCHED THEN UPDATE SET k = 99 "
    "WHEN NOT MATCHED THEN INSERT (k, v) VALUES (0, s)"
)
WINNERS = {
    "delete": ["DELETE FROM {t} WHERE v IN ('v3', 'w5')"],
    "delete of a range": ["DELETE FROM {t} WHERE k = 3"],
    "update": ["UPDATE {t} SET k = k + 100 WHERE v LIKE '%5'"],
    "merge": [MERGE],
    "whole file": ["DELETE FROM {t} WHERE v LIKE 'w%'"],
    "two": ["DELETE FROM {t} WHERE v = 'v3'", "UPDATE {t} SET v = 'x' WHERE v = 'v4'"],
    "three": [MERGE, "DELETE FROM {t} WHERE k = 1", "INSERT INTO {t} VALUES (1, 'v3'), (3, 'v3')"],
    "the last row of a file goes late": [
        "DELETE FROM {t} WHERE v = 'w0'",
        "DELETE FROM {t} WHERE v LIKE 'w%'",
    ],
}


@pytest.mark.parametrize("winners", WINNERS.values(), ids=WINNERS)
def test_a_delete_that_won_is_in_our_commit(scene: Scene, winners: list[str]) -> None:
    race = Race.start(filled(scene))
    scene.run(*winners)
    race.won()
