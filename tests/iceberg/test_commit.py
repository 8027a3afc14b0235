"""The swap of metadata: which commit wins, which files a failure leaves, and an unknown outcome."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from py4j.protocol import Py4JJavaError

from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.run_folders import run_folder
from lakekeeper.core.planning.rewrites import Rewrite
from lakekeeper.errors import Conflict, NotFound, Rejected, Unknown, Unsupported
from lakekeeper.spi import Commit, TableName
from lakekeeper.testing.storage_contract import places
from lakekeeper_iceberg import IcebergTable, planning, producer
from lakekeeper_iceberg import commit as commits
from lakekeeper_iceberg.changes import sequence_of
from lakekeeper_iceberg.native import Iceberg
from lakekeeper_iceberg.planning import Planner
from tests.iceberg.scene import Scene, delete_equal
from tests.iceberg.swaps import Swaps, landed_and_lost, tampered
from tests.rewrites import recluster, rewritten, tasks_of

pytestmark = pytest.mark.iceberg


def fill(start: int, stop: int) -> str:
    rows = f"SELECT /*+ COALESCE(1) */ cast(id % 7 AS int) AS k, concat('v', id) AS v FROM range({start}, {stop})"
    return f"INSERT INTO {{t}} {rows}"


def prepared(scene: Scene) -> tuple[IcebergTable, Swaps, Snapshot, list[Rewrite]]:
    """A table of two files with a rewrite that is not committed yet, and the table's swaps."""
    scene.create("k INT, v STRING").run(fill(0, 20), fill(20, 40))
    adapter, swaps = tampered(scene.spark, scene.sql)
    snapshot = adapter.snapshot(["k"])
    return adapter, swaps, snapshot, [rewritten(adapter, task) for task in tasks_of(snapshot)]


def raised(java: Iceberg, kind: str) -> Py4JJavaError:
    """The error that py4j raises for an Iceberg exception."""
    nothing = java.array(java.view.java.lang.Object, [])
    return Py4JJavaError(
        "refused", getattr(java.view.org.apache.iceberg.exceptions, kind)("refused", nothing)
    )


def manifests(scene: Scene) -> set[str]:
    """Manifests of all snapshots, committed or not."""
    place = Path(str(scene.java().location()).removeprefix("file:")) / "metadata"
    return {path.name for path in place.glob("*-m*.avro")}


def test_a_lost_attempt_is_retried_with_the_manifests_it_wrote(scene: Scene) -> None:
    """Loss L11: each attempt wrote all manifests again, and lost to the next commit of a stream."""
    adapter, swaps, snapshot, made = prepared(scene)
    appended: list[set[str]] = []

    def race(real: Any, base: Any, updated: Any) -> None:
        if len(appended) < 3:
            before = manifests(scene)
            scene.run(fill(40 + len(appended), 41 + len(appended)))
            appended.append(manifests(scene) - before)
        real.commit(base, updated)

    start = manifests(scene)
    with swaps.acting(race):
        done = adapter.commit(made, snapshot, "run-1")
    assert len(appended) == 3
    ours = manifests(scene) - start - set().union(*appended)
    assert len({name.rpartition("-m")[0] for name in ours}) == 1
    assert len(ours) == 3  # one for the output, and one for each removed input
    assert scene.versions()[-1] == done.version
    assert scene.leftovers() == scene.metadata_leftovers() == set()
    assert scene.spark.table(scene.sql).count() == 43
    assert str(scene.java().currentSnapshot().summary().get("lakekeeper.run-id")) == "run-1"


def test_an_equality_delete_between_two_attempts_still_applies(scene: Scene) -> None:
    """Each attempt checks for deletes that it would drop, as the first one does."""
    adapter, swaps, snapshot, made = prepared(scene)
    rivals = iter(("delete", "append"))

    def race(real: Any, base: Any, updated: Any) -> None:
        rival = next(rivals, "")
        if rival == "delete":
            delete_equal(scene, "k", [3])
        elif rival == "append":
            scene.run(fill(40, 41))
        real.commit(base, updated)

    with swaps.acting(race):
        done = adapter.commit(made, snapshot, "run-1")
    assert done.removed_delete_files == 0
    assert scene.spark_rows() == scene.log_rows()
    assert scene.spark.table(scene.sql).where("k = 3").count() == 0
    assert scene.spark.table(scene.sql).count() == 41 - 6
    assert scene.leftovers() == scene.metadata_leftovers() == set()


def test_an_attempt_that_landed_after_it_was_reported_lost_keeps_its_metadata(scene: Scene) -> None:
    """The next attempt finds the inputs removed, by the first one."""
    adapter, swaps, snapshot, made = prepared(scene)
    late: list[Any] = []

    def race(real: Any, base: Any, updated: Any) -> None:
        late.append((real, base, updated))
        raise raised(Iceberg(scene.spark), "CommitFailedException")

    def lands(*given: Any) -> bool:
        found = is_there(*given)
        while late:
            real, base, updated = late.pop()
            real.commit(base, updated)
        return found

    is_there = commits.is_there
    with (
        swaps.acting(race),
        patch.object(commits, "is_there", lands),
    ):
        done = adapter.commit(made, snapshot, "run-1")
    assert scene.versions()[-1] == done.version
    assert scene.leftovers() == scene.metadata_leftovers() == set()
    assert scene.spark.table(scene.sql).count() == 40


def test_files_of_a_run_that_died_in_its_second_attempt_are_found_by_name(scene: Scene) -> None:
    adapter, swaps, snapshot, made = prepared(scene)
    attempts = iter("ab")

    def dies(real: Any, base: Any, updated: Any) -> None:
        if next(attempts) == "b":
            raise KeyboardInterrupt
        scene.run(fill(40, 41))
        real.commit(base, updated)

    with swaps.acting(dies), pytest.raises(KeyboardInterrupt):
        adapter.commit(made, snapshot, "run-1")
    left = scene.metadata_leftovers()
    assert len([path for path in left if "/snap-" in path]) == 2
    found = {info.path for info in adapter.storage.left_by([run_folder(snapshot.table_uuid, "run-1")])}
    assert left <= places(found)


def test_losing_every_attempt_is_a_conflict_and_leaves_no_metadata(scene: Scene) -> None:
    adapter, swaps, snapshot, made = prepared(scene)

    def race(real: Any, base: Any, updated: Any) -> None:
        scene.run(fill(40, 41))
        real.commit(base, updated)

    with swaps.acting(race), pytest.raises(Conflict) as lost:
        adapter.commit(made, snapshot, "run-1")
    assert "append" in lost.value.winner
    assert scene.metadata_leftovers() == set()
    assert len(scene.leftovers()) == 1  # the output: it can be committed again
    adapter.commit(made, snapshot, "run-1")
    assert scene.leftovers() == scene.metadata_leftovers() == set()
    assert scene.spark.table(scene.sql).count() == 44


@pytest.mark.parametrize("answer", ["BadRequestException", "UnprocessableEntityException"])
def test_a_commit_to_a_branch_discards_no_output(scene: Scene, answer: str) -> None:
    """Loss L29: a catalog may refuse a commit whose base metadata became stale by a commit to another branch."""
    adapter, swaps, snapshot, made = prepared(scene)
    branches = iter("bcdefg")

    def refuse(_real: Any, _base: Any, _updated: Any) -> None:
        name = next(branches)
        scene.run(
            f"ALTER TABLE {{t}} CREATE BRANCH {name}", f"INSERT INTO {{t}}.branch_{name} VALUES (9, 'b')"
        )
        raise raised(Iceberg(scene.spark), answer)

    with swaps.acting(refuse), pytest.raises(Conflict):
        adapter.commit(made, snapshot, "run-1")
    assert len(scene.leftovers()) == 1  # the output: it can be committed again
    adapter.commit(made, snapshot, "run-1")
    assert scene.spark.table(scene.sql).count() == 40


def test_an_unknown_outcome_deletes_nothing(scene: Scene) -> None:
    adapter, swaps, snapshot, made = prepared(scene)

    with swaps.acting(landed_and_lost), pytest.raises(Unknown):
        adapter.commit(made, snapshot, "run-1")
    assert adapter.changes_since(snapshot).landed("run-1") == scene.versions()[-1]
    assert scene.spark.table(scene.sql).count() == 40
    assert scene.spark_rows() == scene.log_rows()


def test_an_error_before_the_swap_is_a_rejection(scene: Scene) -> None:
    adapter, _, snapshot, made = prepared(scene)
    with patch.object(producer, "sequence_of", side_effect=ValueError), pytest.raises(Rejected):
        adapter.commit(made, snapshot, "run-1")
    assert scene.versions()[-1] == snapshot.version
    with patch.object(Planner, "tasks", side_effect=LookupError("gone")), pytest.raises(Rejected):
        adapter.commit(made, snapshot, "run-1")
    adapter.discard(made)
    assert scene.leftovers() == set()


def test_a_failure_after_the_swap_does_not_fail_the_commit(scene: Scene) -> None:
    adapter, _, snapshot, made = prepared(scene)
    with patch.object(commits, "remove_manifests", side_effect=OSError("disk on fire")):
        done = adapter.commit(made, snapshot, "run-1")
    assert done.version == scene.versions()[-1]


_AGAIN = ("DROP TABLE {t} PURGE", "CREATE TABLE {t} (k INT, v STRING) USING iceberg", fill(0, 5))
_BACK = (fill(40, 50), "CALL ice.system.rollback_to_snapshot('{t}', {first})")
_LATE = "older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1"
_EXPIRED = (fill(40, 50), fill(50, 60), f"CALL ice.system.expire_snapshots(table => '{{t}}', {_LATE})")


@pytest.mark.parametrize(
    "steps,said",
    [
        pytest.param(_AGAIN, "created again", id="created again"),
        pytest.param(_BACK, "rolled back", id="rolled back"),
        pytest.param(_EXPIRED, "expired", id="expired"),
        pytest.param(
            ("ALTER TABLE {t} DROP COLUMN k",), "columns of the key were dropped: k", id="key dropped"
        ),
    ],
)
def test_obstacles_are_reported_and_nothing_is_committed(
    scene: Scene, steps: tuple[str, ...], said: str
) -> None:
    scene.create("k INT, v STRING").run(fill(0, 20))
    first = scene.versions()[-1]
    scene.run(fill(20, 40))
    adapter = scene.adapter()
    snapshot = adapter.snapshot(["k"])
    made = [rewritten(adapter, task) for task in tasks_of(snapshot)]
    scene.run(*(step.replace("{first}", str(first)) for step in steps))
    rows = scene.spark_rows()
    assert said in str(adapter.changes_since(snapshot).obstacle)
    with pytest.raises(Conflict, match=said):
        adapter.commit(made, snapshot, "run-1")
    assert scene.spark_rows() == rows


def expire(scene: Scene, version: int | None) -> None:
    snapshots = f"snapshot_ids => ARRAY({version})"
    scene.run(f"CALL {scene.catalog}.system.expire_snapshots(table => 'db.{scene.name}', {snapshots})")


def test_the_snapshot_that_was_read_expires_after_a_later_one_was_seen(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loss L52: the outputs got sequence number 0, so that older equality deletes applied to their rows."""
    monkeypatch.setattr(planning, "kept_tasks", lambda _heap: 0)  # nothing reads the snapshot again
    adapter, _, snapshot, made = prepared(scene)
    scene.run(fill(40, 50))
    assert adapter.changes_since(snapshot).obstacle is None
    expire(scene, snapshot.version)
    rows = scene.spark_rows()
    assert "expired" in str(adapter.changes_since(snapshot).obstacle)
    with pytest.raises(Conflict, match="expired"):
        adapter.commit(made, snapshot, "run-1")
    assert scene.spark_rows() == scene.log_rows() == rows


def test_the_snapshot_that_was_read_expires_just_before_the_commit(scene: Scene) -> None:
    """Loss L52, in the gap between the last check and the commit."""
    adapter, _, snapshot, made = prepared(scene)
    scene.run(fill(40, 50))

    def expired(_: Any, version: int) -> int:
        expire(scene, version)
        return sequence_of(scene.java().operations().current(), version)

    rows = scene.spark_rows()
    with patch.object(producer, "sequence_of", expired), pytest.raises(Conflict, match="expired"):
        adapter.commit(made, snapshot, "run-1")
    assert scene.spark_rows() == scene.log_rows() == rows


def test_the_run_id_and_operation_are_in_the_history(scene: Scene) -> None:
    scene.create("k INT, v STRING").run(fill(0, 20), fill(20, 40))
    done = recluster(scene, run_id="mine-7")
    row = scene.spark.table(f"{scene.sql}.snapshots").where(f"snapshot_id = {done.version}").collect()[0]
    assert row.operation == "replace"
    assert row.summary["lakekeeper.run-id"] == "mine-7"


def landed(adapter: IcebergTable, rewrite: Rewrite, snapshot: Snapshot, run_id: str) -> Commit:
    """As the engine does: a busy catalog reports a conflict, after which nothing was committed."""
    try:
        return adapter.commit([rewrite], snapshot, run_id)
    except Conflict:
        return adapter.commit([rewrite], snapshot, run_id)


def test_concurrent_groups_in_one_process(scene: Scene) -> None:
    scene.create("k INT, v STRING", more="PARTITIONED BY (k)").run(fill(0, 40), fill(40, 80))
    rows = scene.spark_rows()
    adapter = scene.adapter()
    snapshot = adapter.snapshot(["v"])
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda task: rewritten(adapter, task), tasks_of(snapshot)))
        done = list(pool.map(lambda i: landed(adapter, made[i], snapshot, f"run-{i}"), range(len(made))))
    assert len({c.version for c in done}) == 7
    assert scene.spark_rows() == scene.log_rows() == rows
    assert scene.leftovers() == scene.metadata_leftovers() == set()


def test_merged_manifests_are_deleted(scene: Scene) -> None:
    """If manifests are merged, files keep their sequence numbers, and no manifest is left."""
    scene.create("k INT, v STRING", properties={"commit.manifest.min-count-to-merge": "2"})
    for start in range(0, 60, 20):
        scene.run(fill(start, start + 20))
    for level in (1, 2, 3):
        scene.run(f"DELETE FROM {{t}} WHERE v = 'v{level}'")
        recluster(scene, level=level, run_id=f"run-{level}")
        assert scene.metadata_leftovers() == scene.leftovers() == set()
    assert scene.spark.table(scene.sql).count() == 57
    assert scene.spark_rows() == scene.log_rows()


def test_discard_touches_nothing_outside_the_table(scene: Scene, tmp_path: Any) -> None:
    from dataclasses import replace

    from lakekeeper.core.planning.rewrites import Output

    adapter, _, _, made = prepared(scene)
    foreign = tmp_path / "precious.parquet"
    foreign.write_text("x")
    sly = f"{scene.java().location()}/data/../../../../../../../..{foreign}"
    adapter.discard([replace(made[0], outputs=(Output(str(foreign), 1, 1), Output(sly, 1, 1)))])
    assert foreign.exists()


def test_what_is_refused_when_a_table_is_opened(scene: Scene) -> None:
    from lakekeeper_iceberg import FORMAT

    with pytest.raises(NotFound, match="no such Iceberg table"):
        scene.adapter()
    scene.create("k INT")
    with (
        patch("lakekeeper_iceberg.features.FORMATS", (1,)),
        pytest.raises(Unsupported, match="format-version 2"),
    ):
        scene.adapter()
    scene.run("ALTER TABLE {t} SET TBLPROPERTIES ('encryption.key-id' = 'x')")
    with pytest.raises(Unsupported, match="encryption"):
        FORMAT.open(scene.spark, TableName(scene.sql, "iceberg", scene.sql))
