"""A rewrite and concurrent commits that land before it: shared by the tests of replay and of row deletes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote
from uuid import UUID

from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.planning.changes import Changes
from lakekeeper.core.planning.rebase import rebase
from lakekeeper.core.planning.rewrites import Rewrite
from lakekeeper.spark.merge import SparkRunner
from lakekeeper.spi import Commit, Followed
from lakekeeper_delta.table import DeltaTable
from tests.delta.scene import Scene
from tests.oracles import delta_log
from tests.rewrites import followed, rewritten, tasks_of

VECTORS = "'delta.enableDeletionVectors'='true'"
COPIES = "'delta.enableDeletionVectors'='false'"


@dataclass
class Race:
    """A finished rewrite of all blocks that is not committed yet, and concurrent writers that commit before it."""

    scene: Scene
    adapter: DeltaTable
    snapshot: Snapshot
    rewrites: list[Rewrite]
    points: int = 0
    followed: int = 0
    compared: int = 0
    both: bool = True

    @classmethod
    def start(cls, scene: Scene, columns: Sequence[str] | None = ("k",), **task: Any) -> Race:
        adapter = scene.adapter()
        snapshot = adapter.snapshot(columns)
        return cls(scene, adapter, snapshot, [rewritten(adapter, t) for t in tasks_of(snapshot, **task)])

    def replay(self, most_gone: float = 0.5) -> list[Rewrite]:
        """Do what the engine does after a conflict; return the rewrites that may be committed now."""
        changes = self.adapter.changes_since(self.snapshot)
        rebased = rebase(self.rewrites, changes, most_gone=most_gone)
        assert not rebased.drop, rebased.drop
        done = [self._masked(rewrite, changes) for rewrite in rebased.replay]
        self.rewrites = [*rebased.keep, *done]
        return self.rewrites

    def _masked(self, rewrite: Rewrite, changes: Changes) -> Rewrite:
        """Both ways of finding the rows must find the same number, unless the point lookup declines."""
        runner, deletes = SparkRunner(self.scene.spark), self.adapter.deletes
        followed = self._followed(rewrite, changes)
        lost = deletes.lost(rewrite, self.snapshot, changes, followed)
        assert lost.rows is not None
        places = deletes.places(lost) if lost.rows else {}
        self.points += places is not None
        hits: Any = places
        if places is None or self.both:
            matched = runner.match(deletes.traces(lost), 10**6)
            assert matched.found == matched.lost == lost.rows
            if places is None:
                hits = matched.hits
        masked = deletes.mask(lost, hits)
        total = lost.base.replayed + lost.rows
        assert masked.replayed == total
        assert masked.written is rewrite.written
        assert masked.rows_out == rewrite.written.rows_out - total
        return masked

    def _followed(self, rewrite: Rewrite, changes: Changes) -> Followed | None:
        found, here = followed(self.adapter, self.scene.spark, rewrite, self.snapshot, changes)
        self.followed += len(found.files) if found is not None else 0
        self.compared += here
        return found

    def commit(self, run_id: str = "run-1") -> Commit:
        commit = self.adapter.commit(self.rewrites, self.snapshot, run_id)
        for rewrite in self.rewrites:
            live = {output.path for output in rewrite.outputs}
            gone = tuple(o for o in rewrite.written.outputs if o.path not in live)
            self.adapter.discard([replace(rewrite, outputs=gone, extra=())])
        return commit

    def won(self, run_id: str = "run-1", most_gone: float = 0.5) -> Commit:
        """Replay and commit, then check every guarantee of the table."""
        scene = self.scene
        before = {v: scene.log_rows(v) for v in delta_log.versions(scene.path)}
        expected, files = scene.spark_rows(), set(delta_log.replay(scene.path).adds)
        # Delta's own DELETE leaves the vectors of files that it then removes entirely.
        ours = {o.path for r in self.rewrites for o in r.written.outputs}
        ours |= {path for r in self.rewrites for path in (*r.extra, *r.stale)}
        theirs = leftovers(scene) - set(map(unquote, ours))
        self.replay(most_gone)
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
        moved = {o.path for r in self.rewrites for o in r.moved}
        assert {path for path, _ in set(adds) - before} == {*outputs, *moved} == set(commit.added)
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
    """Data files, deletion vectors and change files on disk that no version references."""
    named = set()
    for version in delta_log.versions(scene.path):
        for action in scene.actions(version):
            for kind in ("add", "remove", "cdc"):
                if kind in action:
                    named.add(unquote(action[kind]["path"]))
                    named.update(_vector_file(action[kind].get("deletionVector")))
    found = [p for p in scene.path.rglob("*") if p.suffix in (".parquet", ".bin")]
    disk = {str(p.relative_to(scene.path)) for p in found if "_delta_log" not in p.parts}
    return disk - named


def _vector_file(vector: Any) -> list[str]:
    if not vector or vector["storageType"] != "u":
        return []
    prefix, encoded = vector["pathOrInlineDv"][:-20], vector["pathOrInlineDv"][-20:]
    name = f"deletion_vector_{UUID(bytes=delta_log.z85(encoded))}.bin"
    return [f"{prefix}/{name}" if prefix else name]


def table(
    scene: Scene, properties: str = VECTORS, columns: str = "k BIGINT, v STRING", tail: str = ""
) -> Scene:
    return scene.run(f"CREATE TABLE {{t}} ({columns}) USING delta {tail} TBLPROPERTIES ({properties})")


def filled(scene: Scene, properties: str = VECTORS) -> Scene:
    """Three files of 40 rows; the second repeats each row of the first."""
    insert = "INSERT INTO {t} SELECT /*+ COALESCE(1) */ id % 7, concat('%s', id) FROM range(40)"
    return table(scene, properties).run(*[insert.replace("%s", letter) for letter in "vvw"])


def row_ids(scene: Scene) -> list[Any]:
    rows = scene.spark.read.format("delta").load(str(scene.path))
    found = rows.selectExpr("v", "k", "_metadata.row_id", "_metadata.row_commit_version").collect()
    return sorted(found, key=str)


VALUES = """
  SELECT id AS k, element_at(array(double('NaN'), -0.0D, 0.0D, null, 1.5D), int(id % 5) + 1) AS x,
    element_at(array(float('NaN'), float('-0.0'), 0F, null, 0.1F), int(id % 5) + 1) AS position,
    IF(id % 3 = 0, null, named_struct('a.b', IF(id % 2 = 0, null, ''), 'row', array(id % 2, null))) AS row,
    IF(id % 4 = 0, null, array(named_struct('d', element_at(array(-0.0D, 0.0D, double('NaN')), int(id % 3) + 1)))) AS
      `a``b.c`,
    IF(id % 5 = 0, null, map(concat('x', id % 2), map('y', IF(id % 2 = 0, null, -0.0D)), 'z', map())) AS file,
    timestamp '1960-01-01 00:00:00' + make_dt_interval(id % 3) AS t, cast(id % 2 AS decimal(38, 20)) AS d,
    cast(concat('a', id % 2) AS binary) AS b, IF(id % 2 = 0, null, id % 3) AS p, IF(id % 2 = 0, '', 'é') AS s
  FROM range(0, 60, 1, 1)
"""
