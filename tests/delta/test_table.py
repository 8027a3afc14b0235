"""Opening tables, their keys, predicates, and which features are refused by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakekeeper.errors import AdapterError, NotFound, OptionError, Unsupported
from lakekeeper.spi import TableName
from lakekeeper.testing.harness import task_for
from lakekeeper_delta import FORMAT, features
from lakekeeper_delta.known_state import add_files
from lakekeeper_delta.rewrite import rows_per_file
from tests.delta.by_hand import ByHand
from tests.delta.scene import Scene
from tests.jvm_calls import jvm_calls
from tests.rewrites import recluster, rewritten, tasks_of

pytestmark = pytest.mark.delta


def _named(name: str) -> TableName:
    return TableName(name, "delta", f"spark_catalog.default.{name}", "spark_catalog", ("default",), name)


# ------------------------------------------------------------------------------------------------------------- opening


def test_a_folder_without_a_log_is_not_a_table(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no Delta table"):
        FORMAT.open(spark, TableName("x", "delta", "delta.`x`", path=str(tmp_path)))
    with pytest.raises(NotFound, match="no such table"):
        FORMAT.open(spark, _named("never_made"))


def test_catalog_table(spark: SparkSession, table_name: str) -> None:
    spark.sql(
        f"CREATE TABLE {table_name} (k BIGINT, v STRING) USING delta TBLPROPERTIES ('lakekeeper.policy'='sizes')"
    )
    spark.sql(f"INSERT INTO {table_name} SELECT id % 7, 'a' FROM range(40)")
    adapter = FORMAT.open(spark, _named(table_name))
    adapter.set_cluster_key(["K"], "linear")
    snapshot = adapter.snapshot()
    assert str(snapshot.key) == "(k)"
    assert adapter.properties()["lakekeeper.policy"] == "sizes"
    done = [rewritten(adapter, task) for task in tasks_of(snapshot)]
    adapter.commit(done, snapshot, "run-1")
    assert spark.table(table_name).count() == 40
    assert {b.level for b in adapter.snapshot().blocks} == {1}
    spark.sql(f"DROP TABLE {table_name}")
    with pytest.raises(NotFound):
        adapter.snapshot()


def test_a_table_of_another_format_in_the_session_catalog(spark: SparkSession, table_name: str) -> None:
    spark.sql(f"CREATE TABLE {table_name} (k BIGINT) USING parquet")
    with pytest.raises((NotFound, AdapterError)):
        FORMAT.open(spark, _named(table_name))


# ------------------------------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    "reader, writer, named, properties, feature",
    [
        (3, 7, ["icebergCompatV2", "columnMapping"], {}, "icebergCompatV2"),
        (3, 7, ["catalogManaged", "deletionVectors"], {}, "catalogManaged"),
        (3, 7, ["coordinatedCommits-preview"], {}, "coordinatedCommits-preview"),
        (3, 7, ["redirectReaderWriter-preview"], {}, "redirectReaderWriter-preview"),
        (3, 7, ["brandNew"], {}, "brandNew"),
        (4, 7, [], {}, "reader protocol version 4"),
        (3, 8, [], {}, "writer protocol version 8"),
        (1, 2, [], {"delta.universalFormat.enabledFormats": "iceberg"}, "universalFormat"),
        (1, 2, [], {"delta.redirectReaderWriter-preview": "{}"}, "redirect"),
    ],
)
def test_features_that_are_not_known(
    reader: int, writer: int, named: list[str], properties: dict[str, str], feature: str
) -> None:
    with pytest.raises(Unsupported, match=r"nothing was written|not written to this log") as refused:
        features.check("t", reader, writer, named, properties)
    assert refused.value.feature == feature


def test_a_real_table_with_a_feature_that_is_not_allowed(scene: Scene) -> None:
    scene.run(
        "CREATE TABLE {t} (k BIGINT) USING delta TBLPROPERTIES ('delta.columnMapping.mode'='name', "
        "'delta.enableIcebergCompatV2'='true', 'delta.enableDeletionVectors'='false')"
    )
    with pytest.raises(Unsupported, match="icebergCompatV2"):
        scene.adapter()


def test_shallow_clones_are_refused(scene: Scene, tmp_path: Path) -> None:
    scene.run("CREATE TABLE {t} (k BIGINT) USING delta", "INSERT INTO {t} VALUES (1)")
    clone = Scene(scene.spark, tmp_path / "clone")
    scene.spark.sql(f"CREATE TABLE {clone.sql} SHALLOW CLONE {scene.sql}")
    adapter = clone.adapter()
    with pytest.raises(Unsupported, match="shallow clone"):
        adapter.snapshot(["k"])


def test_statistics_of_shallow_clones_are_refused(scene: Scene, tmp_path: Path) -> None:
    """A dry run reported its files as due, and the call failed after it had read them."""
    no_statistics = "TBLPROPERTIES ('delta.dataSkippingNumIndexedCols'='0')"
    scene.run(f"CREATE TABLE {{t}} (k BIGINT) USING delta {no_statistics}", "INSERT INTO {t} VALUES (1)")
    clone = Scene(scene.spark, tmp_path / "clone")
    scene.spark.sql(f"CREATE TABLE {clone.sql} SHALLOW CLONE {scene.sql}")
    clone.run("ALTER TABLE {t} SET TBLPROPERTIES ('delta.dataSkippingNumIndexedCols'='32')")
    with pytest.raises(Unsupported, match="shallow clone"):
        clone.adapter().statistics.find(["k"], 0.0)


def test_discard_stays_below_the_table(scene: Scene, tmp_path: Path) -> None:
    from dataclasses import replace

    from lakekeeper.core.planning.rewrites import Output

    scene.run("CREATE TABLE {t} (k BIGINT) USING delta", "INSERT INTO {t} VALUES (1)")
    adapter = scene.adapter()
    done = rewritten(adapter, tasks_of(adapter.snapshot(["k"]))[0])
    outside = tmp_path / "keep.parquet"
    outside.write_text("x")
    for path in (
        "../keep.parquet",
        str(outside),
        f"file:{outside}",
        "_delta_log/00000000000000000000.json",
        "%2E%2E/keep.parquet",
    ):
        with pytest.raises(AdapterError, match="nothing was deleted"):
            adapter.discard([replace(done, outputs=(*done.outputs, Output(path, 1, 1)))])
    assert outside.exists()
    assert {o.path for o in done.outputs} <= scene.data_files()


# ---------------------------------------------------------------------------------------------------------------- keys


def test_key_from_cluster_by_else_property(scene: Scene) -> None:
    scene.run("CREATE TABLE {t} (`a.b` STRUCT<`x``y`: INT>, k INT) USING delta CLUSTER BY (k)")
    assert str(scene.adapter().snapshot().key) == "(k)"
    assert scene.adapter().capabilities.native_key


def test_set_cluster_key_by_cluster_by(scene: Scene) -> None:
    scene.run(
        "CREATE TABLE {t} (`x'; DROP` STRUCT<`a.b`: INT>, k INT) USING delta "
        "TBLPROPERTIES ('delta.columnMapping.mode'='name')"
    )
    adapter = scene.adapter()
    assert adapter.snapshot().key is None
    adapter.set_cluster_key(["K", "`X'; DROP`.`a.b`"], native=True)
    row = scene.spark.sql(f"DESCRIBE DETAIL {scene.sql}").first()
    assert row is not None
    assert len(row["clusteringColumns"]) == 2
    key = adapter.snapshot().key
    assert key is not None
    assert [c.path for c in key.columns] == [("k",), ("x'; DROP", "a.b")]


def test_set_cluster_key_by_property_on_a_partitioned_table(scene: Scene) -> None:
    scene.run(
        "CREATE TABLE {t} (`o'k \\\\` INT, p INT) USING delta PARTITIONED BY (p) "
        "TBLPROPERTIES ('delta.columnMapping.mode'='name')"
    )
    adapter = scene.adapter()
    assert not adapter.capabilities.native_key
    name = next(f for f in scene.spark.table(scene.sql).columns if f != "p")
    adapter.set_cluster_key([f"`{name}`"], "linear")
    assert adapter.properties()["lakekeeper.cluster-by"] == f"`{name}`"
    key = adapter.snapshot().key
    assert key is not None
    assert key.columns[0].path == (name,)


def test_a_bad_key_changes_nothing(scene: Scene) -> None:
    scene.run("CREATE TABLE {t} (k INT, b BINARY) USING delta")
    adapter = scene.adapter()
    for columns, layout in (
        (["nope"], "linear"),
        (["b"], "linear"),
        (["k"], "spiral"),
        (["k", "k"], "linear"),
    ):
        with pytest.raises(OptionError):
            adapter.set_cluster_key(columns, layout)
    assert scene.version == 0


def test_key_id_survives_a_rename_with_column_mapping(scene: Scene) -> None:
    scene.run("CREATE TABLE {t} (k INT) USING delta TBLPROPERTIES ('delta.columnMapping.mode'='name')")
    before = scene.adapter().snapshot(["k"]).key
    scene.run("ALTER TABLE {t} RENAME COLUMN k TO kk")
    after = scene.adapter().snapshot(["kk"]).key
    assert before is not None
    assert after is not None
    assert before.key_id == after.key_id


# --------------------------------------------------------------------------------------------------------------- where


@pytest.fixture
def days(scene: Scene) -> Scene:
    return scene.run(
        "CREATE TABLE {t} (k INT, day DATE, s STRUCT<x: INT>) USING delta PARTITIONED BY (day)",
        *(
            f"INSERT INTO {{t}} SELECT id + {d}00, date'2024-01-0{d}', named_struct('x', int(id)) FROM range(50)"
            for d in (1, 2, 3)
        ),
    )


@pytest.mark.parametrize(
    "where, partitions",
    [
        ("day >= '2024-01-02'", {2, 3}),
        ("DAY = date'2024-01-01'", {1}),
        ("k BETWEEN 210 AND 220", {2}),
        ("k % 100 = 3", {1, 2, 3}),
        ("k > 320 OR day = '2024-01-01'", {1, 2, 3}),
        ("k IS NULL", set()),
        ("s.x > 49", set()),
        ("s.x >= 49 AND k < 200", {1}),
        ("false", set()),
        ("true", {1, 2, 3}),
        ("k = 1 AND k = 2", set()),
    ],
)
def test_where_keeps_every_file_that_may_match(days: Scene, where: str, partitions: set[int]) -> None:
    snapshot = days.adapter().snapshot(["k"], where)
    assert not snapshot.complete
    assert {b.partition for b in snapshot.blocks} == {f'{{"day":"2024-01-0{n}"}}' for n in partitions}


@pytest.mark.parametrize("where", ["nope = 1", "k >", "k + day"])
def test_bad_where(days: Scene, where: str) -> None:
    with pytest.raises(OptionError) as refused:
        days.adapter().snapshot(["k"], where)
    assert refused.value.key == "where"


def test_where_without_data_skipping_keeps_all(days: Scene) -> None:
    days.spark.conf.set("spark.databricks.delta.stats.skipping", "false")
    try:
        assert len(days.adapter().snapshot(["k"], "k = 105").blocks) >= 3
    finally:
        days.spark.conf.unset("spark.databricks.delta.stats.skipping")


def test_a_subset_of_a_table_is_rewritten(days: Scene) -> None:
    adapter = days.adapter()
    rows = days.spark_rows()
    snapshot = adapter.snapshot(["k"], "day = '2024-01-02'")
    adapter.commit([rewritten(adapter, t) for t in tasks_of(snapshot)], snapshot, "r")
    assert days.spark_rows() == rows == days.log_rows()
    assert {b.level for b in adapter.snapshot(["k"], "day <> '2024-01-02'").blocks} == {0}


# --------------------------------------------------------------------------------------------------------------- sizes


@pytest.mark.parametrize(
    "rows, limit_rows, target, cuts, expected",
    [
        (1000, 400, 1 << 40, 0, 334),
        (1000, 1000, 1 << 40, 0, 1000),
        (1000, 1 << 40, 2500, 0, 250),
        (0, 10, 1 << 40, 0, 10),
        (1000, 400, 1 << 40, 3, 276),
        (1000, 100, 1 << 40, 3, 93),
    ],
)
def test_rows_per_file(
    scene: Scene, rows: int, limit_rows: int, target: int, cuts: int, expected: int
) -> None:
    from dataclasses import replace

    scene.run("CREATE TABLE {t} (k INT) USING delta", "INSERT INTO {t} VALUES (1)")
    task = task_for(scene.adapter().snapshot(["k"]))
    sized = replace(
        task,
        input_rows=rows,
        live_rows=rows,
        input_bytes=rows * 10,
        target_rows=limit_rows,
        target_bytes=target,
        cuts=tuple(range(cuts)),
    )
    assert rows_per_file(sized) == expected


def test_a_plan_survives_its_session(scene: Scene) -> None:
    """A task is self-contained: an adapter that never read the snapshot can execute it."""
    scene.run(
        "CREATE TABLE {t} (k INT) USING delta TBLPROPERTIES ('delta.enableDeletionVectors'='true')",
        "INSERT INTO {t} SELECT id FROM range(50)",
    )
    snapshot = scene.adapter().snapshot(["k"])
    text = tasks_of(snapshot)[0].to_json()
    scene.run("INSERT INTO {t} SELECT id FROM range(50)")
    rows = scene.spark_rows()
    other = scene.adapter()
    done = rewritten(other, type(tasks_of(snapshot)[0]).from_json(text))
    other.commit([done], snapshot, "r")
    assert scene.spark_rows() == rows == scene.log_rows()
    assert json.loads(text)["table"] == str(scene.path)
    recluster(scene)


def test_selecting_many_files_takes_few_jvm_calls(table: ByHand) -> None:
    """Loss L18: PySpark made three JVM calls for each path, one minute for 100,000 files."""
    one = table.add("one.parquet")["add"]
    paths = [f"{n}.parquet" for n in range(500)]
    table.commit(*({"add": {**one, "path": path}} for path in paths))
    log = table.scene.log()
    state = log.latest()
    with jvm_calls() as calls:
        found = add_files(log, state, paths)
    assert len(calls) < 100
    assert sorted(str(add.path()) for add in found) == sorted(paths)
    with pytest.raises(AdapterError, match="1 of 2 files are not in version"):
        add_files(log, state, ["0.parquet", "gone.parquet"])
