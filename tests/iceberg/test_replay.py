"""Deletes that won a race are applied to our outputs in our own commit, whichever engine made them and however."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow.parquet as pq
import pytest

from lakekeeper.core.model.blocks import UNKNOWN
from lakekeeper.errors import Conflict
from lakekeeper_iceberg import block_tracking
from lakekeeper_iceberg.native import Iceberg
from lakekeeper_iceberg.planning import Planner
from lakekeeper_iceberg.position_deletes import leaves_with_file
from tests.iceberg.race import Race, check, delete_places, fill, three_files
from tests.iceberg.scene import Scene, delete_equal
from tests.rewrites import recluster

pytestmark = [pytest.mark.iceberg, pytest.mark.usefixtures("merged_by")]

_BY_PARTITION = {"write.delete.granularity": "partition"}


_MERGE = """MERGE INTO {t} t USING (SELECT cast(id AS int) AS k FROM range(0, 120, 3)) s ON t.k = s.k
    WHEN MATCHED AND t.k % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET v = concat(v, '?')
    WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, 'new')"""
_COW = "ALTER TABLE {t} SET TBLPROPERTIES ('write.delete.mode' = 'copy-on-write')"


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(
    "winner,lost",
    [
        pytest.param(("DELETE FROM {t} WHERE k % 10 = 3",), 10, id="delete"),
        pytest.param(("UPDATE {t} SET v = concat(v, '!') WHERE k < 20",), 18, id="update"),
        pytest.param((_MERGE,), 31, id="merge"),
        pytest.param(("DELETE FROM {t} WHERE cast(substr(v, 2) AS int) < 30",), 30, id="all rows of a file"),
        pytest.param((_COW, "DELETE FROM {t} WHERE v = 'v7'"), 1, id="copy on write"),
        pytest.param((_COW, "DELETE FROM {t} WHERE v = 'v7'", fill(200, 210)), 1, id="copy on write, append"),
        pytest.param(
            ("DELETE FROM {t} WHERE k = 3", _COW, "DELETE FROM {t} WHERE v = 'v7'"), None, id="both"
        ),
        pytest.param(("ALTER TABLE {t} ADD COLUMN w INT", "DELETE FROM {t} WHERE k < 9"), None, id="add"),
        pytest.param(
            ("ALTER TABLE {t} RENAME COLUMN v TO w", "DELETE FROM {t} WHERE k < 9"), None, id="rename"
        ),
    ],
)
def test_winners(scene: Scene, version: int, winner: tuple[str, ...], lost: int | None) -> None:
    race = Race.start(three_files(scene, version))
    scene.run(*winner)
    check(scene, race, lost)


@pytest.mark.parametrize("version", [2, 3])
def test_a_foreign_rewrite_of_some_inputs(scene: Scene, version: int) -> None:
    """The foreign rewrite's files now hold these rows: our outputs drop them."""
    three_files(scene, version)
    race = Race.start(scene)
    scene.run("DELETE FROM {t} WHERE v IN ('v1', 'v2', 'v44')")
    only = "where => 'v < \"v29\"', options => map('rewrite-all', 'true', 'delete-file-threshold', '1')"
    scene.call("rewrite_data_files", f", {only}")
    assert 0 < len(race.adapter.changes_since(race.snapshot).removed) < 3
    check(scene, race, dangle=version == 2)  # Iceberg keeps v2 deletes of the files that it rewrites


@pytest.mark.parametrize("version", [2, 3])
def test_consecutive_deletes_in_the_same_files_are_replayed(
    scene: Scene, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each replaces the previous delete file with a new one, and a manifest then keeps no bounds of the old one."""
    three_files(scene, version)
    scene.run("DELETE FROM {t} WHERE v IN ('v2', 'v32')")
    race = Race.start(scene)
    calls: list[str] = []
    for module, name in ((block_tracking, "list_files"), (Planner, "tasks")):
        real = getattr(module, name)

        def noted(*given: Any, name: str = name, real: Callable[..., Any] = real) -> Any:
            calls.append(name)
            return real(*given)

        monkeypatch.setattr(module, name, noted)
    for i in range(3, 6):
        scene.run(f"DELETE FROM {{t}} WHERE v IN ('v{i}', 'v{30 + i}')")
        race.replay()
    assert race.lost == [2, 4, 6]
    assert calls == ["tasks"], "the inputs are planned once, without a listing"
    check(scene, race, 6)


def test_partition_wide_deletes_rewrite_the_outputs(scene: Scene) -> None:
    """No such delete is removed with the inputs: a rewrite must add no deletes then."""
    scene.create("k INT, v STRING, d INT", more="PARTITIONED BY (d)", properties=_BY_PARTITION)
    for start in (0, 30, 60):
        rows = f"cast(id * 37 % 101 AS int), concat('v', id), 1 FROM range({start}, {start + 30})"
        scene.run(f"INSERT INTO {{t}} SELECT /*+ COALESCE(1) */ {rows}")
    race = Race.start(scene)
    scene.run("DELETE FROM {t} WHERE v IN ('v1', 'v31', 'v61')")
    assert {b.deleted_rows for b in scene.adapter().snapshot(["k"]).blocks} == {UNKNOWN}
    written = race.made[0].outputs
    race.replay()
    (masked,) = race.made
    assert {o.masked for o in masked.outputs} == {0}
    assert len(masked.outputs) == len(written)
    assert set(masked.extra) == {o.path for o in masked.outputs} - {o.path for o in written}
    check(scene, race, dangle=True)
    for path in masked.extra:
        assert path.rpartition("/")[0] == written[0].path.rpartition("/")[0]
        keys = pq.read_table(path, columns=["k"])["k"].to_pylist()
        assert keys == sorted(keys)


@pytest.mark.parametrize("version", [2, 3])
def test_equality_deletes_still_apply_after_a_replay(scene: Scene, version: int) -> None:
    three_files(scene, version)
    race = Race.start(scene)
    delete_equal(scene, "k", [5, 6])
    scene.run(
        "DELETE FROM {t} WHERE k IN (5, 7) OR v = 'v44'", "INSERT INTO {t} VALUES (5, 'again'), (6, 'again')"
    )
    rows = scene.spark_rows()
    race.replay()
    assert race.lost[-1] >= 1
    race.commit()
    assert scene.spark_rows() == rows
    recluster(scene, run_id="run-2")
    assert scene.spark_rows() == rows
    assert scene.leftovers() == scene.metadata_leftovers() == set()


@pytest.mark.parametrize("version", [2, 3])
def test_an_equality_delete_alone_needs_no_replay(scene: Scene, version: int) -> None:
    three_files(scene, version)
    race = Race.start(scene)
    delete_equal(scene, "k", [5, 6])
    check(scene, race)
    assert race.lost == []


@pytest.mark.parametrize("version", [2, 3])
def test_three_winners_one_after_the_other(scene: Scene, version: int) -> None:
    race = Race.start(three_files(scene, version))
    for winner in ("DELETE FROM {t} WHERE k % 10 = 3", "UPDATE {t} SET v = 'x' WHERE k % 10 = 4"):
        scene.run(winner)
        with pytest.raises(Conflict) as lost:
            race.commit()
        assert lost.value.winner
        race.replay()
    scene.run("DELETE FROM {t} WHERE k % 10 = 5")
    with pytest.raises(Conflict):
        race.commit()
    check(scene, race)
    assert race.lost == sorted(race.lost)
    assert race.lost[0] > 0


@pytest.mark.parametrize("version", [2, 3])
def test_a_winner_after_the_replay_and_then_a_rollback(scene: Scene, version: int) -> None:
    """Deletes that are rolled back are rolled back in the outputs too."""
    three_files(scene, version)
    race = Race.start(scene)
    scene.run("DELETE FROM {t} WHERE k % 10 = 3")
    race.replay()
    scene.call("rollback_to_snapshot", f", snapshot_id => {race.snapshot.version}")
    with pytest.raises(Conflict):
        race.commit()
    check(scene, race, 0)
    assert scene.spark.table(scene.sql).count() == 90


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("given", [{}, _BY_PARTITION], ids=["file", "partition"])
def test_rows_deleted_before_the_read_are_not_counted_again(
    scene: Scene, version: int, given: dict[str, str]
) -> None:
    three_files(scene, version, **given).run("DELETE FROM {t} WHERE k % 10 = 3")
    race = Race.start(scene)
    assert race.made[0].rows_out == 80
    scene.run("DELETE FROM {t} WHERE k % 10 IN (3, 4)")
    check(scene, race, 90 - 10 - scene.spark.table(scene.sql).count(), dangle=True)


@pytest.mark.parametrize("version", [2, 3])
def test_rows_that_live_again_are_a_conflict(scene: Scene, version: int) -> None:
    three_files(scene, version).run("DELETE FROM {t} WHERE k % 10 = 3")
    race = Race.start(scene)
    jvm, table = Iceberg(scene.spark), scene.java()
    read = race.made[0].task.read_version
    tasks = Planner(jvm).tasks(table, read, race.made[0].task.inputs)
    delete = next(d for t in tasks for d in t.deletes() if leaves_with_file(jvm, d))
    table.newRewrite().deleteFile(delete).commit()
    rows = scene.spark_rows()
    with pytest.raises(Conflict, match="live again"):
        race.replay()
    race.give_up()
    assert scene.spark_rows() == rows
    assert scene.leftovers() == set()


@pytest.mark.parametrize("version", [2, 3])
def test_inputs_that_are_outputs_of_a_rewrite(scene: Scene, version: int) -> None:
    three_files(scene, version).run("DELETE FROM {t} WHERE k % 10 = 1")
    recluster(scene)
    scene.run("UPDATE {t} SET v = concat(v, '.') WHERE k % 10 = 2", fill(90, 120))
    race = Race.start(scene, level=2)
    scene.run("DELETE FROM {t} WHERE k % 10 = 3", "UPDATE {t} SET v = concat(v, ':') WHERE k % 10 = 2")
    check(scene, race)


def test_format_1_rewrites_affected_outputs(scene: Scene) -> None:
    three_files(scene, 1)
    race = Race.start(scene)
    scene.run("DELETE FROM {t} WHERE v = 'v7'")
    check(scene, race, 1)
    assert scene.spark.table(f"{scene.sql}.delete_files").count() == 0


@pytest.mark.parametrize("version", [2, 3])
def test_empty_outputs_are_not_committed(scene: Scene, version: int) -> None:
    scene.create("k INT, v STRING", version)
    scene.run("INSERT INTO {t} SELECT /*+ COALESCE(1) */ cast(id AS int), md5(string(id)) FROM range(4000)")
    scene.run("INSERT INTO {t} SELECT /*+ COALESCE(1) */ cast(id AS int), md5(string(-id)) FROM range(4000)")
    race = Race.start(scene, target_bytes=60_000)
    outputs = race.made[0].outputs
    assert len(outputs) > 2
    first = pq.read_table(outputs[0].path, columns=["k"])["k"].to_pylist()
    scene.run(f"DELETE FROM {{t}} WHERE k BETWEEN {min(first)} AND {max(first)} OR k = 3999")
    check(scene, race)
    assert outputs[0].path not in {o.path for o in race.made[0].outputs}
    assert len(race.made[0].outputs) < len(outputs)


@pytest.mark.parametrize("version", [2, 3])
def test_all_rows_deleted(scene: Scene, version: int) -> None:
    scene.create("k INT, v STRING", version).run(fill(0, 10), fill(10, 20))
    race = Race.start(scene)
    for winner in (
        "v < 'v13'",
        "v >= 'v13'",
    ):  # in parts, so that no file is dropped for being empty
        delete_places(scene, winner)
    assert scene.spark.table(f"{scene.sql}.data_files").count() == 2
    check(scene, race, 20)
    assert scene.spark.table(f"{scene.sql}.data_files").count() == 0


@pytest.mark.parametrize("version", [2, 3])
def test_an_abandoned_replay_leaves_no_file(scene: Scene, version: int) -> None:
    three_files(scene, version)
    race = Race.start(scene)
    scene.run("DELETE FROM {t} WHERE k % 10 = 3")
    rows = scene.spark_rows()
    race.replay()
    assert len(scene.leftovers()) == 2
    race.give_up()
    assert scene.leftovers() == set()
    assert scene.spark_rows() == rows
    assert race.adapter.replays.scans == {}


@pytest.mark.parametrize("version", [2, 3])
def test_a_winner_between_the_replay_and_the_swap(scene: Scene, version: int) -> None:
    """Iceberg's own check, starting from the snapshot that the masks reflect."""
    three_files(scene, version)
    race = Race.start(scene)
    scene.run("DELETE FROM {t} WHERE k % 10 = 3")
    race.replay()
    real = race.adapter.changes_since
    seen: list[Any] = []

    def race_once(snapshot: Any) -> Any:
        seen.append(real(snapshot))
        if len(seen) == 1:
            scene.run("DELETE FROM {t} WHERE k % 10 = 4")
        return seen[-1]

    patched: Callable[[Any], Any] = race_once
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(race.adapter), "changes_since", lambda _, snapshot: patched(snapshot))
        with pytest.raises(Conflict):
            race.commit()
    check(scene, race)


def test_winners_are_distinguished(scene: Scene) -> None:
    three_files(scene, 2)
    adapter = scene.adapter()
    snapshot = adapter.snapshot(["k"])
    scene.run(fill(90, 95), "DELETE FROM {t} WHERE k = 3")
    scene.call("rewrite_data_files", ", options => map('rewrite-all', 'true')")
    delete_equal(scene, "k", [7])
    winners = adapter.changes_since(snapshot).winners
    assert [(w.layout, w.appends) for w in winners] == [
        (False, True),
        (False, False),
        (True, False),
        (False, False),
    ]
    times = [
        row[0].timestamp() * 1000
        for row in scene.spark.table(f"{scene.sql}.snapshots")
        .orderBy("committed_at")
        .select("committed_at")
        .collect()
    ]
    assert [w.at_ms for w in winners] == pytest.approx(times[-4:], abs=1)
