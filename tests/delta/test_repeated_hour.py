"""A TIMESTAMP partition in the hour that is repeated at the end of summer time: a rewrite moves no row by this hour."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timezone

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import SparkSession

import lakekeeper as lk
from lakekeeper.errors import Unsupported
from tests.delta.race import COPIES, VECTORS, Race
from tests.delta.scene import Scene
from tests.rewrites import recluster

pytestmark = [pytest.mark.delta, pytest.mark.usefixtures("berlin")]

HOURS = ("2024-10-27T00:30:00Z", "2024-10-27T01:30:00Z")  # both are 02:30 in Berlin
INSTANTS = [datetime.fromisoformat(hour.replace("Z", "+00:00")) for hour in HOURS]


@pytest.fixture
def berlin(spark: SparkSession) -> Iterator[None]:
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    yield
    spark.conf.set("spark.sql.session.timeZone", "UTC")


def filled(scene: Scene, properties: str) -> Scene:
    """Two files for each of the two instants, written where no hour is repeated."""
    scene.spark.conf.set("spark.sql.session.timeZone", "UTC")
    scene.run(
        f"CREATE TABLE {{t}} (k INT, at TIMESTAMP) USING delta PARTITIONED BY (at) TBLPROPERTIES ({properties})"
    )
    for low in (0, 10):
        for hour in HOURS:
            ids = (
                f"SELECT /*+ COALESCE(1) */ cast(id AS INT), timestamp'{hour}' FROM range({low}, {low + 10})"
            )
            scene.run(f"INSERT INTO {{t}} {ids}")
    scene.spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    return scene


def counts(scene: Scene) -> list[int]:
    """Rows at each of the two instants, by Spark and by delta-rs, which must agree; no row is elsewhere."""
    table = scene.spark.read.format("delta").load(str(scene.path))
    seconds = table.selectExpr("unix_seconds(at) AS s").groupBy("s").count().collect()
    by_spark = Counter({datetime.fromtimestamp(row["s"], timezone.utc): row["count"] for row in seconds})
    if not any(
        "deletionVector" in action.get("add", {}) for v in scene.versions() for action in scene.actions(v)
    ):
        text = "SELECT at, count(*) AS n FROM t GROUP BY at"
        found = pa.table(QueryBuilder().register("t", DeltaTable(str(scene.path))).execute(text).read_all())
        assert (
            Counter({row["at"].astimezone(timezone.utc): row["n"] for row in found.to_pylist()}) == by_spark
        )
    assert set(by_spark) <= set(INSTANTS)
    return [by_spark[instant] for instant in INSTANTS]


@pytest.mark.parametrize("columnar", [True, False], ids=["columns", "rows"])
def test_a_merge(scene: Scene, columnar: bool) -> None:
    filled(scene, COPIES)
    recluster(scene, columnar=columnar)
    assert counts(scene) == [20, 20]
    assert len(scene.log_records()) == 40


@pytest.mark.parametrize("feed", ["true", "false"])
def test_a_delete_by_copies(scene: Scene, feed: str) -> None:
    filled(scene, f"{COPIES}, 'delta.enableChangeDataFeed'='{feed}'")
    assert lk.table(scene.spark, scene.sql).delete("k = 3").deleted_rows_count == 2
    assert counts(scene) == [19, 19]
    if feed == "true":
        feed_of = scene.spark.read.format("delta").option("readChangeFeed", True)
        changes = feed_of.option("startingVersion", scene.version).load(str(scene.path))
        gone = changes.selectExpr("_change_type", "unix_seconds(at) AS s").collect()
        assert Counter(map(tuple, gone)) == {("delete", int(instant.timestamp())): 1 for instant in INSTANTS}


@pytest.mark.parametrize("properties", [COPIES, VECTORS], ids=["copies", "vectors"])
def test_a_replay(scene: Scene, properties: str) -> None:
    race = Race.start(filled(scene, VECTORS))
    scene.spark.conf.set("spark.sql.session.timeZone", "UTC")
    scene.run("DELETE FROM {t} WHERE k = 3", f"ALTER TABLE {{t}} SET TBLPROPERTIES ({properties})")
    scene.spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    race.replay()
    race.commit()
    assert counts(scene) == [19, 19]


def test_a_restore_of_rows_is_refused(scene: Scene) -> None:
    filled(scene, VECTORS)
    adapter = scene.adapter()
    where = "k >= 5"
    lk.table(scene.spark, scene.sql).delete(where)
    then, _ = adapter.restores.around(scene.version, where, scene.version)
    files = scene.files()
    with pytest.raises(Unsupported, match="repeated"):
        adapter.restores.copy(None, then.blocks.path.to_pylist(), then, "run-1")
    assert scene.files() == files
