"""What the metadata tells of the table's commits: by writers, and by us."""

from __future__ import annotations

import numpy as np
import pytest

from tests.iceberg.scene import Scene, recluster

pytestmark = pytest.mark.iceberg


def test_commits_of_writers_are_told_from_rewrites(scene: Scene) -> None:
    scene.create("k BIGINT, v STRING")
    empty = scene.adapter().snapshot(["k"])
    assert empty.commits_ms.tolist() == []
    for i in range(3):
        scene.run(f"INSERT INTO {{t}} VALUES ({i}, 'a'), ({i + 10}, 'b')")
    before = scene.adapter().snapshot(["k"])
    assert before.rewritten is not None
    assert before.rewritten.shape == (2, 0)
    recluster(scene)
    after = scene.adapter().snapshot(["k"])
    assert after.commits_ms.tolist() == before.commits_ms.tolist() == sorted(before.commits_ms.tolist())
    assert len(after.commits_ms) == 3
    assert after.rewritten is not None
    at, size = after.rewritten
    assert size.tolist() == [int(before.blocks.bytes.sum())]
    assert at.tolist() == after.blocks.added_at.tolist()
    scene.run("DELETE FROM {t} WHERE k = 1")
    assert len(scene.adapter().snapshot(["k"]).commits_ms) == 4


def test_what_was_rolled_back_is_no_commit_of_the_table(scene: Scene) -> None:
    scene.create("k BIGINT, v STRING").run("INSERT INTO {t} VALUES (1, 'a')")
    (first,) = scene.versions()
    scene.run("INSERT INTO {t} VALUES (2, 'b')").call("rollback_to_snapshot", f", snapshot_id => {first}")
    seen = scene.adapter().snapshot(["k"])
    assert seen.commits_ms.tolist() == seen.blocks.added_at.tolist()
    assert np.all(seen.commits_ms > 0)
