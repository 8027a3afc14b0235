"""A rewrite changes no row of any version, on tables with every supported feature."""

from __future__ import annotations

import itertools
import json
import struct
from collections import Counter
from dataclasses import dataclass
from functools import partial

import pytest
from delta.tables import IdentityGenerator
from deltalake import DeltaTable as RustTable

from lakekeeper.spark.jvm import Jvm
from lakekeeper_delta.rewrite import discard
from tests.delta.scene import Scene, Step
from tests.oracles import delta_log
from tests.rewrites import recluster, rewritten, tasks_of

pytestmark = [pytest.mark.delta, pytest.mark.usefixtures("merged_by")]

_DV = "'delta.enableDeletionVectors'='true'"
_FILL = "INSERT INTO {t} SELECT /*+ REPARTITION(2) */ id %% 7 AS k, concat('v', id) AS v FROM range(%d, %d)"


@dataclass(frozen=True)
class Kind:
    """How to create a table with a feature, and which readers besides Spark support it."""

    steps: tuple[Step, ...]
    key: tuple[str, ...] = ("k",)
    oracle: bool = True
    rust: bool = False
    feature: str = ""


def _plain(properties: str, *more: str) -> tuple[Step, ...]:
    return (
        f"CREATE TABLE {{t}} (k BIGINT, v STRING) USING delta TBLPROPERTIES ({properties})",
        _FILL % (0, 40),
        _FILL % (20, 60),
        *more,
    )


_WEIRD = "array('a b', 'a%20b', 'ä', ':', '+', '#', 'x=y', '''', '/', null)"

KINDS = {
    "plain": Kind(_plain("'delta.enableDeletionVectors'='false'", "DELETE FROM {t} WHERE k = 3"), rust=True),
    "deletionVectors": Kind(
        _plain(_DV, "DELETE FROM {t} WHERE k = 3", "UPDATE {t} SET v = 'u' WHERE k = 2"),
        feature="deletionVectors",
    ),
    "partitioned": Kind(
        (
            f"CREATE TABLE {{t}} (k BIGINT, p STRING, d DATE) USING delta PARTITIONED BY (p, d) TBLPROPERTIES ({_DV})",
            f"INSERT INTO {{t}} SELECT id % 11, {_WEIRD}[int(id % 10)], date'2024-02-29' FROM range(60)",
            f"INSERT INTO {{t}} SELECT id % 11, {_WEIRD}[int(id % 10)], date'2024-02-29' FROM range(60)",
            "DELETE FROM {t} WHERE k = 4 AND p = 'a%20b'",
        ),
    ),
    "columnMapping-name": Kind(
        _plain(
            f"{_DV}, 'delta.columnMapping.mode'='name'",
            "ALTER TABLE {t} RENAME COLUMN k TO `the key`",
            "ALTER TABLE {t} ADD COLUMN x INT",
            "ALTER TABLE {t} DROP COLUMN v",
            "ALTER TABLE {t} ADD COLUMN v INT",
            "INSERT INTO {t} SELECT id, 1, 2 FROM range(20)",
            "DELETE FROM {t} WHERE `the key` = 5",
        ),
        key=("`The Key`",),
        feature="columnMapping",
    ),
    "columnMapping-id": Kind(_plain(f"{_DV}, 'delta.columnMapping.mode'='id'"), feature="columnMapping"),
    "columnMapping-partitioned": Kind(
        (
            (
                "CREATE TABLE {t} (k BIGINT, p STRING) USING delta PARTITIONED BY (p) "
                f"TBLPROPERTIES ({_DV}, 'delta.columnMapping.mode'='name')"
            ),
            "ALTER TABLE {t} RENAME COLUMN p TO `p q`",
            "INSERT INTO {t} SELECT id, concat('a b', id % 2) FROM range(20)",
            "INSERT INTO {t} SELECT id, concat('a b', id % 2) FROM range(20)",
        ),
    ),
    "generatedColumns": Kind(
        (
            lambda scene: (
                scene.builder().addColumn("k", "BIGINT").addColumn("g", "BIGINT", generatedAlwaysAs="k * 2")
            ),
            "INSERT INTO {t} (k) SELECT id FROM range(30)",
            "INSERT INTO {t} (k) SELECT id FROM range(30)",
        ),
        feature="generatedColumns",
    ),
    "checkConstraints": Kind(
        _plain(_DV, "ALTER TABLE {t} ADD CONSTRAINT small CHECK (k < 100)"), feature="checkConstraints"
    ),
    "invariants": Kind(
        (
            "CREATE TABLE {t} (k BIGINT NOT NULL, v STRING NOT NULL) USING delta",
            _FILL % (0, 40),
            _FILL % (20, 60),
        ),
        feature="invariants",
    ),
    "rowTracking": Kind(
        _plain(f"{_DV}, 'delta.enableRowTracking'='true'", "UPDATE {t} SET v = 'u' WHERE k = 2"),
        feature="rowTracking",
    ),
    "changeDataFeed": Kind(
        _plain(f"{_DV}, 'delta.enableChangeDataFeed'='true'", "UPDATE {t} SET v = 'u' WHERE k = 2"),
        feature="changeDataFeed",
    ),
    "inCommitTimestamp": Kind(
        _plain(f"{_DV}, 'delta.enableInCommitTimestamps'='true'"), feature="inCommitTimestamp"
    ),
    "appendOnly": Kind(_plain("'delta.appendOnly'='true'"), feature="appendOnly"),
    "v2Checkpoint": Kind(
        _plain(f"{_DV}, 'delta.checkpointPolicy'='v2', 'delta.checkpointInterval'='2'"),
        feature="v2Checkpoint",
    ),
    "identityColumns": Kind(
        (
            lambda scene: (
                scene.builder()
                .addColumn("i", "BIGINT", generatedAlwaysAs=IdentityGenerator())
                .addColumn("k", "BIGINT")
            ),
            "INSERT INTO {t} (k) SELECT id FROM range(30)",
            "INSERT INTO {t} (k) SELECT id FROM range(30)",
        ),
        feature="identityColumns",
    ),
    "clustering": Kind(
        (
            f"CREATE TABLE {{t}} (k BIGINT, v STRING) USING delta CLUSTER BY (k) TBLPROPERTIES ({_DV})",
            _FILL % (0, 40),
            _FILL % (20, 60),
        ),
        feature="clustering",
    ),
    "timestampNtz": Kind(
        (
            "CREATE TABLE {t} (k TIMESTAMP_NTZ) USING delta",
            "INSERT INTO {t} SELECT timestamp_ntz'2024-03-01 10:00:00.123456' + make_dt_interval(id) FROM range(20)",
            "INSERT INTO {t} SELECT timestamp_ntz'2024-03-01 10:00:00.123456' + make_dt_interval(id) FROM range(20)",
        ),
        feature="timestampNtz",
    ),
    "allowColumnDefaults": Kind(
        (
            (
                "CREATE TABLE {t} (k BIGINT, v STRING DEFAULT 'dflt') USING delta "
                "TBLPROPERTIES ('delta.feature.allowColumnDefaults'='supported')"
            ),
            "INSERT INTO {t} (k) SELECT id FROM range(20)",
            "INSERT INTO {t} (k) SELECT id FROM range(20)",
        ),
        feature="allowColumnDefaults",
    ),
    "vacuumProtocolCheck": Kind(
        _plain(f"{_DV}, 'delta.feature.vacuumProtocolCheck'='supported'"), feature="vacuumProtocolCheck"
    ),
    "typeWidening": Kind(
        (
            "CREATE TABLE {t} (k INT, d DECIMAL(5,2)) USING delta TBLPROPERTIES ('delta.enableTypeWidening'='true')",
            "INSERT INTO {t} SELECT id, id / 3 FROM range(20)",
            "ALTER TABLE {t} ALTER COLUMN k TYPE BIGINT",
            "ALTER TABLE {t} ALTER COLUMN d TYPE DECIMAL(12,4)",
            "INSERT INTO {t} SELECT id + 5000000000, id / 7 FROM range(20)",
        ),
        oracle=False,
        feature="typeWidening",
    ),
    "variantType": Kind(
        (
            "CREATE TABLE {t} (k BIGINT, v VARIANT) USING delta",
            """INSERT INTO {t} SELECT id, parse_json(concat('{"a":', id, '}')) FROM range(20)""",
            """INSERT INTO {t} SELECT id, parse_json(concat('[', id, ']')) FROM range(20)""",
        ),
        oracle=False,
        feature="variantType",
    ),
    "nested": Kind(
        (
            (
                "CREATE TABLE {t} (a STRUCT<`y.z`: BIGINT, l: ARRAY<STRUCT<q: INT>>, m: MAP<STRING, INT>>, "
                f"`n.m` STRING) USING delta TBLPROPERTIES ({_DV}, 'delta.columnMapping.mode'='name')"
            ),
            (
                "INSERT INTO {t} SELECT named_struct('y.z', id % 7, 'l', array(named_struct('q', int(id))), "
                "'m', map('x', int(id))), concat('t', id) FROM range(30)"
            ),
            "INSERT INTO {t} SELECT named_struct('y.z', id % 7, 'l', null, 'm', null), null FROM range(30)",
        ),
        key=("a.`Y.Z`", "`n.m`"),
    ),
}


DEEP = (
    "columnMapping-id",
    "columnMapping-partitioned",
    "vacuumProtocolCheck",
    "allowColumnDefaults",
    "v2Checkpoint",
)
"""Kinds that differ from another one only by a name in the protocol, or by how it is spelled."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.deep if name in DEEP else ()) for name in KINDS]
)
def test_every_version_reads_the_same(scene: Scene, name: str) -> None:
    kind = KINDS[name]
    scene.run(*kind.steps)
    assert not kind.feature or kind.feature in scene.features()
    columns = "to_json(struct(*)) AS j" if name == "variantType" else "*"
    read = scene.log_rows if kind.oracle else partial(scene.spark_rows, columns=columns)
    before = {v: read(v) for v in delta_log.versions(scene.path)}
    base = scene.version

    commit = recluster(scene, kind.key, target_rows=25)

    assert commit.version == base + 1 == scene.version
    assert read() == before[base]
    assert sum(before[base].values()) > 0
    for version, rows in {**before, base + 1: before[base]}.items():
        assert scene.spark_rows(version, columns) == rows
    if kind.rust:
        rust = RustTable(str(scene.path)).to_pyarrow_table().to_pylist()
        assert Counter(map(delta_log.canonical, rust)) == before[base]
    snapshot = scene.adapter().snapshot(kind.key)
    assert snapshot.key is not None
    assert {b.key_id for b in snapshot.blocks} == {snapshot.key.key_id}
    assert {b.level for b in snapshot.blocks} == {1}
    assert {b.delete_id for b in snapshot.blocks} == {""}
    files = [a[name] for a in scene.actions() for name in ("add", "remove") if name in a]
    assert files
    assert not [f for f in files if f["dataChange"]]


def test_outputs_are_sorted_and_cut(scene: Scene) -> None:
    scene.run(*_plain(_DV))
    recluster(scene, target_rows=30)
    blocks = sorted(scene.adapter().snapshot(["k"]).blocks, key=lambda b: b.lo)
    assert [b.rows for b in blocks] == [27, 27, 26]
    assert all(left.hi <= right.lo for left, right in itertools.pairwise(blocks))


def test_target_bytes_cut_by_the_inputs_bytes_per_row(scene: Scene) -> None:
    scene.run(*_plain(_DV))
    size = sum(b.bytes for b in scene.adapter().snapshot(["k"]).blocks)
    recluster(scene, target_bytes=size // 4)
    assert len(scene.adapter().snapshot(["k"]).blocks) in (4, 5)


@pytest.mark.parametrize("partitioned", [True, False])
def test_rows_are_in_key_order_within_a_file(scene: Scene, partitioned: bool) -> None:
    scene.run(
        f"CREATE TABLE {{t}} (k BIGINT, p STRING) USING delta {'PARTITIONED BY (p)' if partitioned else ''}",
        # A constraint makes Delta convert text partitions, which hides the row order from its writer.
        "ALTER TABLE {t} ADD CONSTRAINT positive CHECK (k >= 0)",
        "INSERT INTO {t} SELECT hash(id) & 1048575, 'a b' FROM range(5000)",
        "INSERT INTO {t} SELECT hash(id) & 1048575, 'a b' FROM range(5000, 9000)",
    )
    recluster(scene, target_rows=4000)
    for add in delta_log.replay(scene.path).adds.values():
        keys = [
            row["k"] for row in delta_log.file_rows(scene.path, add, delta_log.replay(scene.path).metadata)
        ]
        assert keys == sorted(keys)


def test_the_users_session_is_unchanged(scene: Scene) -> None:
    scene.run(*_plain(_DV))
    scene.spark.conf.set("spark.databricks.delta.stats.collect", "false")
    try:
        recluster(scene)
        assert scene.spark.conf.get("spark.databricks.delta.stats.collect") == "false"
        active = Jvm(scene.spark).session_class.active()
        assert active.equals(scene.spark._jsparkSession)
    finally:
        scene.spark.conf.unset("spark.databricks.delta.stats.collect")
    assert scene.spark.conf.get("spark.sql.maxConcurrentOutputFileWriters") == "0"
    assert all(b.lo != (None,) for b in scene.adapter().snapshot(["k"]).blocks)


def test_row_ids_and_commit_versions_are_kept(scene: Scene) -> None:
    scene.run(*KINDS["rowTracking"].steps)
    ids = "to_json(struct(*, _metadata.row_id AS r, _metadata.row_commit_version AS c)) AS j"
    before = scene.spark_rows(columns=ids)
    recluster(scene)
    recluster(scene, level=2)
    assert scene.spark_rows(columns=ids) == before
    assert scene.adapter().capabilities.row_lineage


def test_the_change_feed_is_empty(scene: Scene) -> None:
    scene.run(*KINDS["changeDataFeed"].steps)
    version = recluster(scene).version
    feed = (
        scene.spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", version)
    )
    assert feed.load(str(scene.path)).count() == 0


def test_empty_table_has_no_blocks(scene: Scene) -> None:
    scene.run("CREATE TABLE {t} (k BIGINT) USING delta")
    snapshot = scene.adapter().snapshot(["k"])
    assert len(snapshot.blocks) == 0
    assert snapshot.version == 0


def test_one_file(scene: Scene) -> None:
    scene.run("CREATE TABLE {t} (k BIGINT) USING delta", "INSERT INTO {t} VALUES (1)")
    rows = scene.spark_rows()
    recluster(scene)
    assert scene.spark_rows() == rows == scene.log_rows()


def test_all_rows_deleted(scene: Scene) -> None:
    scene.run(*_plain(_DV), "DELETE FROM {t} WHERE v IS NOT NULL")
    assert len(scene.adapter().snapshot(["k"]).blocks) == 0
    assert not scene.spark_rows()


def test_a_file_whose_rows_are_all_masked_is_removed(scene: Scene) -> None:
    scene.run(
        f"CREATE TABLE {{t}} (k BIGINT) USING delta TBLPROPERTIES ({_DV})", "INSERT INTO {t} VALUES (1)"
    )
    add = next(a["add"] for a in scene.actions() if "add" in a)
    # Delta removes such a file; other writers may not: an inline vector masks position 0.
    bitmap = struct.pack("<iqiIIHHIH", 1681511377, 1, 0, 12346, 1, 0, 0, 16, 0)
    vector = {
        "storageType": "i",
        "pathOrInlineDv": _z85(bitmap),
        "sizeInBytes": len(bitmap),
        "cardinality": 1,
    }
    remove = {"path": add["path"], "dataChange": True, "deletionTimestamp": 1}
    masked = {
        **add,
        "deletionVector": vector,
        "stats": json.dumps({**json.loads(add["stats"]), "tightBounds": False}),
    }
    lines = [{"commitInfo": {"operation": "MASK"}}, {"remove": remove}, {"add": masked}]
    target = scene.path / "_delta_log" / f"{scene.version + 1:020d}.json"
    target.write_text("\n".join(json.dumps(line) for line in lines))
    files = scene.data_files()
    block = next(iter(scene.adapter().snapshot(["k"]).blocks))
    assert (block.rows, block.deleted_rows) == (1, 1)
    commit = recluster(scene)
    assert commit.added == ()
    assert scene.spark_rows() == scene.log_rows() == {}
    assert scene.data_files() == files


def _z85(blob: bytes) -> str:
    padded, text = blob + bytes(-len(blob) % 4), ""
    for i in range(0, len(padded), 4):
        value, word = int.from_bytes(padded[i : i + 4], "big"), ""
        for _ in range(5):
            value, digit = divmod(value, 85)
            word = delta_log.Z85[digit] + word
        text += word
    return text


def test_discard_deletes_all_outputs_and_nothing_else(scene: Scene) -> None:
    scene.run(*KINDS["partitioned"].steps)
    files = scene.data_files()
    adapter = scene.adapter()
    done = [rewritten(adapter, task) for task in tasks_of(adapter.snapshot(["k"]))]
    assert scene.data_files() - files
    adapter.discard(done)
    adapter.discard(done)
    assert scene.data_files() == files


def test_a_file_that_cannot_be_discarded_keeps_no_other_one_and_is_no_error(scene: Scene) -> None:
    """A store that failed one delete cost every finished group of the run."""
    scene.run(*KINDS["partitioned"].steps)
    kept = scene.path / "kept" / "part.parquet"
    kept.parent.mkdir()
    kept.touch()
    lost = scene.path / "lost.parquet"
    lost.touch()
    discard(scene.log(), ["kept", "lost.parquet"])  # a folder with a file cannot be deleted
    assert kept.exists()
    assert not lost.exists()
