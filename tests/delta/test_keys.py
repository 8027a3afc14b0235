"""Setting a key on a Delta table locks out no other engine, unless the user requested it and was warned."""

from __future__ import annotations

import logging
from contextlib import nullcontext

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import lakekeeper as lk
from lakekeeper_delta.keys import native_columns
from lakekeeper_delta.log_files import LogFiles
from tests.delta.scene import Scene
from tests.oracles.spark_jobs import no_job

pytestmark = pytest.mark.delta


@pytest.fixture
def plain(scene: Scene) -> Scene:
    """A table with the oldest protocol that Delta writes, with three overlapping files."""
    rows = "INSERT INTO {t} SELECT /*+ COALESCE(1) */ id, id %% 10 AS k FROM range(%d, %d)"
    inserts = [rows % (start, start + 20) for start in (0, 20, 40)]
    return scene.run("CREATE TABLE {t} (id BIGINT, k BIGINT) USING delta", *inserts)


def protocol(scene: Scene) -> tuple[int, int, set[str]]:
    row = scene.spark.sql(f"DESCRIBE DETAIL {scene.sql}").first()
    assert row is not None
    return row["minReaderVersion"], row["minWriterVersion"], set(row["tableFeatures"])


def test_delta_rs_writes_on_after_cluster_by_and_recluster(plain: Scene) -> None:
    before = protocol(plain)
    assert before[:2] == (1, 2)
    table = lk.table(plain.spark, str(plain.path))
    table.cluster_by("k")
    assert table.recluster().commits == 1
    assert protocol(plain) == before
    rival = DeltaTable(str(plain.path))
    write_deltalake(rival, pa.table({"id": [100, 101], "k": [3, 4]}), mode="append")
    DeltaTable(str(plain.path)).delete("id = 7")
    DeltaTable(str(plain.path)).optimize.compact()
    ids = sorted(row.id for row in plain.spark.read.format("delta").load(str(plain.path)).collect())
    assert ids == [i for i in (*range(60), 100, 101) if i != 7]
    table = lk.table(plain.spark, str(plain.path))
    assert str(plain.adapter().snapshot().key) == "(k)"
    table.recluster(options={"policy": "full"})
    table.cluster_by(None)
    DeltaTable(str(plain.path)).delete("id = 8")
    assert protocol(plain) == before


def test_native_reports_its_changes_beforehand_and_makes_exactly_these(
    plain: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    table = lk.table(plain.spark, str(plain.path))
    preview = table.cluster_by("k", native=True, dry_run=True)
    assert protocol(plain) == (1, 2, {"appendOnly", "invariants"})
    with caplog.at_level(logging.WARNING, "lakekeeper"):
        done = table.cluster_by("k", native=True)
    reader, writer, features = protocol(plain)
    changes = {what: (before, after) for what, before, after in done.changes}
    assert changes["writer version"] == ("2", str(writer)) == ("2", "7")
    assert changes["writer features"] == ("", ", ".join(sorted(features)))
    assert {"clustering", "domainMetadata"} <= features
    assert "reader version" not in changes
    assert reader == 1
    assert preview.changes == done.changes
    for text in (str(preview), str(done), caplog.text):
        assert "writer version: 2 -> 7" in text
        assert "clustering, domainMetadata" in text
    assert table.cluster_by("id").changes == (), "a table that has CLUSTER BY needs no further change"
    assert done.to_dict()["changes"][0] == {"what": "writer version", "before": "2", "after": "7"}


@pytest.mark.parametrize(
    "properties", ["", "'delta.enableDeletionVectors'='true'", "'delta.columnMapping.mode'='name'"]
)
def test_the_reported_protocol_is_the_resulting_one(scene: Scene, properties: str) -> None:
    scene.run(f"CREATE TABLE {{t}} (id BIGINT, k BIGINT) USING delta TBLPROPERTIES ({properties})".replace(
        " TBLPROPERTIES ()", ""
    ))  # fmt: skip
    preview = lk.table(scene.spark, str(scene.path)).cluster_by("k", native=True)
    after = {what: text for what, _, text in preview.changes}
    reader, writer, features = protocol(scene)
    assert after.get("reader version", str(reader)) == str(reader)
    assert after.get("writer version", str(writer)) == str(writer)
    assert after["writer features"] == ", ".join(sorted(features))


def test_a_key_set_before_column_mapping_survives_a_later_rename(plain: Scene) -> None:
    """Old files use the column's old name, which is its physical name from then on."""
    lk.table(plain.spark, str(plain.path)).cluster_by("k")
    mapping = "'delta.columnMapping.mode'='name', 'delta.minReaderVersion'='2', 'delta.minWriterVersion'='5'"
    plain.run(f"ALTER TABLE {{t}} SET TBLPROPERTIES ({mapping})", "ALTER TABLE {t} RENAME COLUMN k TO kk")
    assert str(plain.adapter().snapshot().key) == "(kk)"


@pytest.mark.parametrize("checkpoint", ["none", "classic", "v2"])
def test_columns_of_cluster_by_are_read_without_a_job(scene: Scene, checkpoint: str) -> None:
    """Delta built the state of the whole table for them, at each version that another writer committed."""
    interval = 100 if checkpoint == "none" else 1
    scene.run(
        "CREATE TABLE {t} (k INT, `a b` INT, s STRUCT<x: INT, `y.z`: INT>) USING delta CLUSTER BY (k) TBLPROPERTIES "
        f"('delta.columnMapping.mode'='name', 'delta.checkpointInterval'='{interval}', "
        f"'delta.checkpointPolicy'='{'v2' if checkpoint == 'v2' else 'classic'}')"
    )
    steps = [
        ("INSERT INTO {t} VALUES (1, 2, named_struct('x', 3, 'y.z', 4))", ("k",)),
        ("ALTER TABLE {t} CLUSTER BY (s.`y.z`, `a b`)", ("s.`y.z`", "`a b`")),
        ("ALTER TABLE {t} RENAME COLUMN `a b` TO c", ("s.`y.z`", "c")),
        ("ALTER TABLE {t} CLUSTER BY NONE", ()),
        ("ALTER TABLE {t} CLUSTER BY (c)", ("c",)),
    ]
    for step, expected in steps:
        scene.run(step)
        log = scene.log()
        state = log.latest()
        with nullcontext() if checkpoint == "v2" else no_job(scene.spark, "columns"):
            assert native_columns(log, state) == expected
        by_delta = log.singleton("skipping.clustering.ClusteringColumnInfo").extractLogicalNames(
            state.snapshot
        )
        assert tuple(map(str, log.jvm.python_list(by_delta))) == expected
    held = state.snapshot.logSegment().checkpointProvider().topLevelFiles()
    assert (int(held.size()) > 0) == (checkpoint != "none")


def test_columns_of_cluster_by_that_the_driver_cannot_read_are_those_of_delta(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.run("CREATE TABLE {t} (k INT, v INT) USING delta CLUSTER BY (v, k)")

    def down(*_: object) -> None:
        raise OSError("the commit cannot be read")

    monkeypatch.setattr(LogFiles, "commit", down)
    log = scene.log()
    assert native_columns(log, log.latest()) == ("v", "k")
