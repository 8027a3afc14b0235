"""lakekeeper's own DELETE by position: what is deleted, what the log and the change feed record, what is refused."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.errors import Conflict, LakekeeperError, Rejected, Unknown, Unsupported
from lakekeeper.spark.merge import SparkRunner
from lakekeeper.spark.shims import shim
from lakekeeper.spi import Commit, Held, Tidied
from lakekeeper_delta import row_delete
from lakekeeper_delta.commit import commit_tags
from lakekeeper_delta.native import Log
from lakekeeper_delta.table import DeltaTable
from tests.delta.race import COPIES, VALUES, VECTORS, filled, leftovers, row_ids, table
from tests.delta.scene import Scene
from tests.oracles import delta_log
from tests.rewrites import recluster

pytestmark = pytest.mark.delta

MODES = pytest.mark.parametrize("properties", [VECTORS, COPIES], ids=["vectors", "copies"])


def found(
    scene: Scene, where: str, snapshot: Snapshot | None = None
) -> tuple[DeltaTable, Snapshot, Held[Any]]:
    """An adapter, the snapshot it read, and the positions it found."""
    adapter = scene.adapter()
    seen = snapshot or adapter.snapshot(where=where)
    return adapter, seen, SparkRunner(scene.spark).hold(adapter.deletes.find(seen, where))


def delete(
    adapter: DeltaTable, snapshot: Snapshot, held: Sequence[Held[Any]], where: str, run_id: str = "run-1"
) -> Commit:
    """Do what the engine does with positions: prepare, commit, and clean up if the commit is known to have failed."""
    prepared = [adapter.deletes.prepare(each, (), snapshot, run_id) for each in held]
    try:
        return adapter.deletes.delete(prepared, snapshot, run_id, where)
    except Unknown:
        raise
    except LakekeeperError:
        adapter.deletes.discard(prepared)
        raise


def deleted(scene: Scene, where: str, run_id: str = "run-1") -> Commit:
    """Delete, and compare the rows of all versions with the predicate, by both readers."""
    before = {v: scene.log_rows(v) for v in delta_log.versions(scene.path)}
    # Delta's own DELETE does not accept every column name; a query does.
    kept = scene.spark.read.format("delta").load(str(scene.path)).where(f"NOT coalesce(({where}), false)")
    expected = Counter(delta_log.canonical(row) for row in shim().to_arrow(kept).to_pylist())
    theirs = leftovers(scene)
    adapter, snapshot, held = found(scene, where)
    commit = delete(adapter, snapshot, [held], where, run_id)
    assert commit.version == scene.version == max(before) + 1
    assert scene.spark_rows() == expected
    assert scene.log_rows() == expected
    for version, rows in before.items():
        assert scene.log_rows(version) == rows
    assert leftovers(scene) == theirs
    info = _info(scene)
    assert info["operation"] == "DELETE"
    assert info["tags"]["lakekeeper.run"] == run_id
    assert adapter.changes_since(snapshot).winners[-1].changes_rows
    return commit


def _info(scene: Scene) -> dict[str, Any]:
    found: dict[str, Any] = next(a["commitInfo"] for a in scene.actions() if "commitInfo" in a)
    return found


def feed(scene: Scene, version: int) -> list[tuple[Any, ...]]:
    """(change type, v) of each row in one version's change feed."""
    read = scene.spark.read.format("delta").option("readChangeFeed", "true")
    rows = read.option("startingVersion", version).option("endingVersion", version).load(str(scene.path))
    return sorted((r["_change_type"], r["v"]) for r in rows.collect())


@MODES
def test_rows_are_deleted(scene: Scene, properties: str) -> None:
    filled(scene, properties)
    recluster(scene, target_rows=60)
    commit = deleted(scene, "v IN ('v0', 'w6', 'w13')")
    assert len(commit.removed) == len(commit.added) == 2
    metrics = _info(scene)["operationMetrics"]
    assert metrics["numDeletedRows"] == "4"
    removes = [a["remove"] for a in scene.actions() if "remove" in a]
    assert all(r["dataChange"] for r in removes)
    assert {b.level for b in scene.adapter().snapshot(["k"]).blocks} == {1}
    deleted(scene, "k = 0", "run-2")
    gone = deleted(scene, "true", "run-3")
    assert gone.added == ()
    assert scene.log_rows() == {}


@MODES
def test_deletes_upon_deletes_by_vectors(scene: Scene, properties: str) -> None:
    """Rows that are already deleted are not found again; their vector is merged into the new one."""
    filled(scene).run(
        "DELETE FROM {t} WHERE v IN ('v1', 'w2')", f"ALTER TABLE {{t}} SET TBLPROPERTIES ({properties})"
    )
    _, _, held = found(scene, "v IN ('v1', 'v2')")
    assert sorted(held.per_file.values()) == [1, 1]
    commit = deleted(scene, "v IN ('v1', 'v2')")
    assert commit.removed_delete_files == 2


@MODES
def test_a_file_without_live_rows_is_removed(scene: Scene, properties: str) -> None:
    commit = deleted(filled(scene, properties), "v LIKE 'w%' OR v = 'v0'")
    assert (len(commit.removed), len(commit.added)) == (3, 2)


@MODES
def test_the_change_feed_shows_each_row_once(scene: Scene, properties: str) -> None:
    filled(scene, f"{properties}, 'delta.enableChangeDataFeed'='true'")
    commit = deleted(scene, "v LIKE 'w%' OR v = 'v3'")
    expected = sorted([("delete", "v3")] * 2 + [("delete", f"w{i}") for i in range(40)])
    assert feed(scene, commit.version) == expected


@MODES
def test_row_ids_are_kept(scene: Scene, properties: str) -> None:
    filled(scene, f"{properties}, 'delta.enableRowTracking'='true', 'delta.enableChangeDataFeed'='true'")
    recluster(scene)
    before = row_ids(scene)
    commit = deleted(scene, "k = 3")
    assert row_ids(scene) == [row for row in before if row["k"] != 3]
    assert len(feed(scene, commit.version)) == 18


@MODES
def test_names_and_values_of_all_kinds(scene: Scene, properties: str) -> None:
    scene.run(
        "CREATE TABLE {t} USING delta PARTITIONED BY (p, q) TBLPROPERTIES "
        f"({properties}, 'delta.columnMapping.mode'='name') AS "
        f"SELECT *, element_at(array('a b', 'x=y/z', 'per%cent', null, 'ä:{{}}'), int(k % 5) + 1) AS q FROM ({VALUES})"
    )
    deleted(
        scene, "isnan(x) AND d = 1 OR q = 'per%cent' AND k < 20 OR `a``b.c`[0].d = 0 AND file['x1'] IS NULL"
    )
    deleted(scene, "q IS NULL AND p IS NULL OR position IS NULL")


@MODES
def test_a_column_with_the_name_of_the_metadata(scene: Scene, properties: str) -> None:
    table(scene, properties, "k BIGINT, `_metadata` STRUCT<file_path: STRING, row_index: BIGINT>")
    scene.run("INSERT INTO {t} SELECT id, named_struct('a', 'x', 'b', id % 3) FROM range(30)")
    deleted(scene, "`_metadata`.row_index = 2")


def test_positions_after_skipped_row_groups(scene: Scene) -> None:
    table(scene, VECTORS)
    scene.spark.conf.set("parquet.block.size", "4096")
    try:
        scene.run("INSERT INTO {t} SELECT /*+ COALESCE(1) */ id, concat('v', id) FROM range(20000)")
    finally:
        scene.spark.conf.unset("parquet.block.size")
    deleted(scene, "k IN (7000, 19999)")


def test_paths_that_other_writers_encoded(scene: Scene) -> None:
    """A path in the log may be percent-encoded more than necessary."""
    scene.run(
        f"CREATE TABLE {{t}} (k BIGINT, p STRING) USING delta PARTITIONED BY (p) TBLPROPERTIES ({VECTORS})",
        "INSERT INTO {t} SELECT id, IF(id % 2 = 0, 'a b', 'ä=') FROM range(20)",
    )
    log = scene.path / "_delta_log" / f"{scene.version:020d}.json"
    text = log.read_text()
    assert "ä" in text
    odd = [a["add"]["path"] for a in scene.actions() if "add" in a and "ä" in a["add"]["path"]]
    for path in odd:
        text = text.replace(f'"{path}"', f'"{path.replace("ä", "%C3%A4").replace("-", "%2D")}"')
    log.write_text(text)
    (log.parent / f".{log.name}.crc").unlink(missing_ok=True)
    scene.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]
    deleted(scene, "k IN (3, 4, 5)")


@pytest.mark.parametrize(
    "statement, winner",
    [
        ("DELETE FROM {t} WHERE v = 'v9'", "DELETE"),
        ("OPTIMIZE {t}", "OPTIMIZE"),
        ("DELETE FROM {t} WHERE v LIKE 'v%'", "DELETE"),
        ("ALTER TABLE {t} ADD COLUMN x INT", ""),
    ],
)
@MODES
def test_positions_in_rewritten_files_are_a_conflict(
    scene: Scene, properties: str, statement: str, winner: str
) -> None:
    filled(scene, properties)
    adapter, snapshot, held = found(scene, "v = 'v3'")
    scene.run("INSERT INTO {t} VALUES (1, 'v3')", statement)
    rows, files, version = scene.spark_rows(), leftovers(scene), scene.version
    with pytest.raises(Conflict) as lost:
        delete(adapter, snapshot, [held], "v = 'v3'")
    assert winner in lost.value.winner
    assert (scene.spark_rows(), leftovers(scene), scene.version) == (rows, files, version)


@MODES
def test_the_isolation_level_decides_on_appends(
    scene: Scene, properties: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Delta's own DELETE does: for a partitioned table, by the partitions that the predicate matches."""
    scene.run(
        f"CREATE TABLE {{t}} (k BIGINT, p INT) USING delta PARTITIONED BY (p) TBLPROPERTIES ({properties})",
        "INSERT INTO {t} SELECT id, id % 2 FROM range(20)",
    )
    real = commit_tags

    def meanwhile(statement: str) -> None:
        left = [statement]

        def act(*args: Any) -> Any:
            if left:
                scene.run(left.pop())
            return real(*args)

        monkeypatch.setattr(row_delete, "commit_tags", act)

    where = "p = 1 AND k < 10"
    adapter, snapshot, held = found(scene, where)
    meanwhile("INSERT INTO {t} VALUES (100, 1)")
    with pytest.raises(Conflict, match="ConcurrentAppend"):
        delete(adapter, snapshot, [held], where)
    adapter, snapshot, held = found(scene, where)
    meanwhile("INSERT INTO {t} VALUES (2, 0)")
    assert delete(adapter, snapshot, [held], where).version == scene.version
    assert scene.spark_rows() == scene.log_rows()
    assert sum(scene.log_rows().values()) == 22 - 5
    assert leftovers(scene) == set()


@MODES
@pytest.mark.parametrize(
    "where",
    [
        "date(timestamp_seconds(k * 86400)) BETWEEN DATE '1970-01-03' AND DATE '1970-01-06'",
        "year(timestamp_seconds(k * 10000000)) BETWEEN 1971 AND 1972",
        "k % 10 BETWEEN 2 AND 4",
        "upper(v) BETWEEN 'V1' AND 'V3'",
        "k < 9 AND NOT k % 4 BETWEEN 1 AND 2",
    ],
)
def test_predicates_of_which_spark_computes_a_part_below_the_filter(
    scene: Scene, properties: str, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside an append, too: the delete loses to one within its commit, for it has read the whole table."""
    filled(scene, properties)
    adapter, snapshot, held = found(scene, where)
    left, real = ["INSERT INTO {t} VALUES (3, 'v2')"], commit_tags

    def late(*args: Any) -> Any:
        if left:
            scene.run(left.pop())
        return real(*args)

    monkeypatch.setattr(row_delete, "commit_tags", late)
    with pytest.raises(Conflict, match="ConcurrentAppend"):
        delete(adapter, snapshot, [held], where)
    deleted(scene, where)


def test_blind_appends_count_as_later_if_the_table_permits_it(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Delta rejects the property in its own statements; other engines set it."""
    filled(scene)
    log = scene.path / "_delta_log" / f"{scene.version:020d}.json"
    metadata = next(a for v in range(scene.version + 1) for a in scene.actions(v) if "metaData" in a)
    metadata["metaData"]["configuration"]["delta.isolationLevel"] = "WriteSerializable"
    log.with_name(f"{scene.version + 1:020d}.json").write_text(json.dumps(metadata))
    adapter, snapshot, held = found(scene, "v = 'v3'")
    left, real = ["INSERT INTO {t} VALUES (1, 'v3')"], commit_tags

    def late(*args: Any) -> Any:
        if left:
            scene.run(left.pop())
        return real(*args)

    monkeypatch.setattr(row_delete, "commit_tags", late)
    delete(adapter, snapshot, [held], "v = 'v3'")
    assert scene.spark_rows(columns="v")['{"v": "v3"}'] == 1


def test_a_delete_of_the_same_file_within_the_commit(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(scene)
    adapter, snapshot, held = found(scene, "v = 'v3'")
    real = commit_tags

    def late(*args: Any) -> Any:
        scene.run("DELETE FROM {t} WHERE v = 'v4'")
        return real(*args)

    monkeypatch.setattr(row_delete, "commit_tags", late)
    with pytest.raises(Conflict) as lost:
        delete(adapter, snapshot, [held], "v = 'v3'")
    assert lost.value.winner == f"version {scene.version} (DELETE)"
    assert sum(scene.log_rows().values()) == 118
    assert leftovers(scene) == set()


def test_positions_found_in_several_parts(scene: Scene) -> None:
    filled(scene)
    adapter = scene.adapter()
    snapshot, runner = adapter.snapshot(), SparkRunner(scene.spark)
    paths: Sequence[str] = snapshot.blocks.path.to_pylist()
    parts = [runner.hold(adapter.deletes.find(snapshot, "v IN ('v3', 'w4')", [path])) for path in paths]
    assert [sum(part.per_file.values()) for part in parts] == [1, 1, 1]
    delete(adapter, snapshot, parts[:2], "v = 'v3'")
    assert sum(scene.log_rows().values()) == 118
    doubled = [runner.hold(adapter.deletes.find(adapter.snapshot(), "v = 'v5'"))] * 2
    with pytest.raises(Rejected, match="prepared twice"):
        delete(adapter, adapter.snapshot(), doubled, "v = 'v5'")
    assert leftovers(scene) == set()


def test_nothing_to_delete(scene: Scene) -> None:
    filled(scene)
    adapter, snapshot, held = found(scene, "v = 'nobody'")
    version = scene.version
    assert delete(adapter, snapshot, [held], "v = 'nobody'").version == version == scene.version


def test_an_append_only_table(scene: Scene) -> None:
    filled(scene)
    adapter, snapshot, held = found(scene, "v = 'v3'")
    scene.run("ALTER TABLE {t} SET TBLPROPERTIES ('delta.appendOnly'='true')")
    version, files = scene.version, leftovers(scene)
    with pytest.raises(Unsupported, match="appendOnly"):
        delete(adapter, snapshot, [held], "v = 'v3'")
    with pytest.raises(Unsupported, match="appendOnly"):
        adapter.deletes.find(adapter.snapshot(), "v = 'v3'")
    assert (scene.version, leftovers(scene)) == (version, files)


class Torn:
    """A transaction whose commit fails, before or after it lands."""

    def __init__(self, inner: Any, lands: bool) -> None:
        self.inner, self.lands = inner, lands

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def commit(self, actions: Any, operation: Any, tags: Any) -> int:
        if self.lands:
            self.inner.commit(actions, operation, tags)
        raise OSError("connection reset")


def test_an_unknown_outcome_deletes_no_file(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(scene)
    adapter, snapshot, held = found(scene, "v = 'v3'")
    real = Log.transaction
    monkeypatch.setattr(Log, "transaction", lambda log, state: Torn(real(log, state), lands=True))
    with pytest.raises(Unknown, match="may have succeeded"):
        delete(adapter, snapshot, [held], "v = 'v3'")
    monkeypatch.undo()
    assert adapter.changes_since(snapshot).landed("run-1") == scene.version
    assert scene.spark_rows() == scene.log_rows()
    assert sum(scene.log_rows().values()) == 118


def test_a_failed_preparation_is_a_rejection(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(scene)
    adapter, snapshot, held = found(scene, "v = 'v3'")

    def broken(*_: Any) -> Any:
        raise OSError("no such file system")

    monkeypatch.setattr(row_delete, "commit_tags", broken)
    with pytest.raises(Rejected, match="could not be prepared"):
        delete(adapter, snapshot, [held], "v = 'v3'")
    assert leftovers(scene) == set()


def test_delta_has_no_delete_files_to_tidy(scene: Scene) -> None:
    filled(scene)
    assert scene.adapter().deletes.tidy(scene.adapter().snapshot(), "run-1") == Tidied()


@MODES
@pytest.mark.parametrize("stored", ["ab", "ab   "], ids=["stored as given", "stored padded"])
def test_chars_are_compared_as_spark_compares_them(scene: Scene, properties: str, stored: str) -> None:
    """The predicate was evaluated on the stored text: rows were deleted that no query finds, and others stayed."""
    scene.run(
        f"CREATE TABLE {{t}} (k INT, c CHAR(5), s STRUCT<c: CHAR(5)>) USING delta TBLPROPERTIES ({properties})"
    )
    scene.run(f"INSERT INTO {{t}} VALUES (1, '{stored}', struct('{stored}')), (2, 'zzzzz', struct('zzzzz'))")
    predicates = (
        "length(c) = 2",
        "upper(c) = 'AB'",
        "c || 'x' = 'abx'",
        "c < 'ab '",
        "length(s.c) = 2",
        "c IN ('ab', 'yy')",
        "s.c = 'ab'",
        "length(c) = 5",
    )
    for where in predicates:
        matching = scene.spark.read.format("delta").load(str(scene.path)).where(where).count()
        adapter = scene.adapter()
        assert adapter.deletes.find(adapter.snapshot(where=where), where).count() == matching, where
    assert deleted(scene, "c = 'ab'").version == 2
    assert [record["k"] for record in scene.log_records()] == [2]
