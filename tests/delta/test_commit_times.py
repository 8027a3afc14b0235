"""When the table was committed to, from the names and times of the log's files."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from lakekeeper.core.model.blocks import make_blocks
from lakekeeper.core.planning.block_age import ages
from lakekeeper_delta.commit_times import RECENT, without_ours
from lakekeeper_delta.json_commits import parsed
from tests.delta.scene import Scene
from tests.rewrites import recluster


def test_a_commit_that_added_only_merged_blocks_is_ours() -> None:
    columns = {
        "path": ["a", "b", "c", "d"],
        "rows": [1, 1, 1, 1],
        "bytes": [1, 1, 1, 1],
        "added_at": [8, 18, 19, 28],
        "key_id": ["", "ours", "", "ours"],
    }
    blocks = make_blocks(columns, None)
    commits = np.array([10, 20, 30, 40], np.int64)
    # 30 is ours; a writer's block was added at 20 too; 40 only deleted rows
    assert without_ours(commits, blocks).tolist() == [10, 20, 40]
    # The clocks differ, so no commit is known to be ours.
    late = replace(blocks, added_at=blocks.added_at + 100)
    assert without_ours(commits, late).tolist() == commits.tolist()


@pytest.mark.delta
def test_commits_of_writers_count_and_our_rewrite_does_not(scene: Scene) -> None:
    scene.run("CREATE TABLE {t} (k BIGINT, v STRING) USING delta")
    for i in range(3):
        scene.run(f"INSERT INTO {{t}} VALUES ({i}, 'a'), ({i + 10}, 'b')")
    before = scene.adapter().snapshot(["k"]).commits_ms.tolist()
    assert len(before) == 4  # and the commit that created the table
    assert before == sorted(before)
    recluster(scene)
    after = scene.adapter().snapshot(["k"])
    assert after.commits_ms.tolist() == before
    assert ages(after, 0).tolist() == [0.0]


@pytest.mark.delta
def test_commits_before_a_checkpoint_are_found_by_one_listing(scene: Scene) -> None:
    scene.run(
        "CREATE TABLE {t} (k BIGINT, v STRING) USING delta TBLPROPERTIES (delta.checkpointInterval = 3)"
    )
    for i in range(6):
        scene.run(f"INSERT INTO {{t}} VALUES ({i}, 'a')")
    assert list((scene.path / "_delta_log").glob("*.checkpoint*"))
    seen = scene.adapter().snapshot(["k"])
    assert len(seen.commits_ms) == 7 < RECENT
    assert len(set(ages(seen, 0).tolist())) == 6


def test_the_writer_of_a_commit_is_its_cluster_and_user() -> None:
    """As Trino writes both; without a cluster, a user may be that of any job."""
    for info, writer in (
        ({"clusterId": "trino-476-one", "userId": "u", "userName": "u"}, "trino-476-one u"),
        ({"userName": "u"}, ""),
        ({"clusterId": "trino-476-one"}, ""),
        ({"engineInfo": "Apache-Spark/4.1.1 Delta-Lake/4.3.1"}, ""),
    ):
        (winner,) = parsed(3, json.dumps({"commitInfo": {"operation": "MERGE", **info}})).winners
        assert winner.writer == writer
