"""``lk.install``: automatic runs inside an application, configured only by its confs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.conf import RuntimeConfig

import lakekeeper as lk
from lakekeeper import application
from lakekeeper.errors import AdapterError, OptionError
from lakekeeper.spark.application import await_listeners

pytestmark = [pytest.mark.spark, pytest.mark.delta, pytest.mark.iceberg]
_PATIENCE_S = 240


@pytest.fixture
def tables(spark: SparkSession, confs: RuntimeConfig, tmp_path: Path, table_name: str) -> Iterator[list[str]]:
    """Names of an empty Delta table and an empty Iceberg table; the confs that enable automatic runs on them."""
    named = [f"delta.`{tmp_path}/t`", f"ice.db.{table_name}"]
    for table, provider in zip(named, ("delta", "iceberg"), strict=True):
        spark.sql(f"CREATE TABLE {table} (id BIGINT, k INT) USING {provider}")
    confs.set("spark.lakekeeper.auto.enabled", "true")
    confs.set("spark.lakekeeper.auto.tables", f"{tmp_path}/t, ice.db.{table_name}")
    confs.set("spark.lakekeeper.auto.every", "30s")
    confs.set("spark.lakekeeper.cluster-by", "k")
    yield named
    lk.install(spark).stop()


def append(spark: SparkSession, table: str, at: int) -> None:
    rows = spark.range(at * 50, at * 50 + 50).selectExpr("id", "cast(pmod(hash(id), 100) AS INT) AS k")
    rows.coalesce(1).writeTo(table).append()


def listeners(spark: SparkSession) -> int:
    return len(spark._jsparkSession.listenerManager().listListeners()) + len(
        spark._jsparkSession.streams().listListeners()
    )


def names(spark: SparkSession) -> list[str]:
    """lakekeeper's names of the tables, in the order of `tables`."""
    return str(spark.conf.get("spark.lakekeeper.auto.tables")).split(", ")


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "lakekeeper-auto"]


@pytest.mark.parametrize("value", [None, "false"])
def test_without_the_conf_nothing_is_attached(
    spark: SparkSession, confs: RuntimeConfig, value: str | None
) -> None:
    if value:
        confs.set("spark.lakekeeper.auto.enabled", value)
    before = listeners(spark)
    handle = lk.install(spark)
    assert (handle.status().state, listeners(spark), threads()) == ("off", before, [])
    handle.stop()


def test_a_wrong_conf_is_an_error_of_the_call(spark: SparkSession, confs: RuntimeConfig) -> None:
    confs.set("spark.lakekeeper.auto.enabled", "true")
    with pytest.raises(OptionError, match=r"auto\.tables"):
        lk.install(spark)


@pytest.mark.usefixtures("tables")
def test_a_start_that_fails_ends_the_application_of_the_heavy_lane(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[bool] = []

    @contextmanager
    def lane(*_: object) -> Iterator[None]:
        try:
            yield
        finally:
            ended.append(True)

    def fails(*_: object) -> None:
        raise AdapterError("the session has no listener manager")

    monkeypatch.setattr(application, "heavy_lane", lane)
    with monkeypatch.context() as broken:
        broken.setattr(application, "listener_of", fails)
        with pytest.raises(AdapterError):
            lk.install(spark)
    assert (ended, threads()) == ([True], [])
    assert threads() == []


def test_a_table_is_maintained_soon_after_a_write(spark: SparkSession, tables: list[str]) -> None:
    """Early passes check only the written table, and our own commits trigger no pass."""
    before = listeners(spark)
    handle = lk.install(spark)
    assert lk.install(spark) is handle
    assert listeners(spark) == before + 2
    assert handle.wait(1, timeout=_PATIENCE_S)
    for number, table in enumerate(tables):
        seen, maintained = handle.status().writes_seen, lk.table(spark, names(spark)[number])
        for at in range(4):
            append(spark, table, at)
        await_listeners(spark)
        assert handle.status().writes_seen >= seen + 4
        # On a slow machine, a pass can merge the first files while the others are being written.
        passes = handle.status().passes
        while maintained.clustering_depth("k") > 1 and handle.wait(passes + 1, timeout=_PATIENCE_S):
            passes = handle.status().passes
        assert handle.status().error == ""
        assert maintained.clustering_depth("k") == 1.0
        assert spark.sql(f"SELECT count(*), sum(id) FROM {table}").first() == (200, 19_900)
    handle.stop()
    assert (handle.status().state, listeners(spark), threads()) == ("stopped", before, [])
    assert lk.install(spark) is not handle


def test_the_end_of_an_application_misses_no_write(spark: SparkSession, tables: list[str]) -> None:
    handle = lk.install(spark)
    assert handle.wait(1, timeout=_PATIENCE_S)
    for table in tables:
        for at in range(2):
            append(spark, table, at)
    handle.finish()
    for table, name in zip(tables, names(spark), strict=True):
        assert lk.table(spark, name).clustering_depth("k") == 1.0
        assert spark.table(table).count() == 100


def test_a_recording_and_automatic_runs_do_not_end_each_other(spark: SparkSession, tables: list[str]) -> None:
    before = listeners(spark)
    recording = lk.listen(spark)
    handle = lk.install(spark)
    handle.stop()
    seen = recording.seen
    spark.table(tables[0]).where("k = 1").collect()
    await_listeners(spark)
    assert recording.seen > seen
    handle = lk.install(spark)
    recording.stop()
    append(spark, tables[0], 0)
    await_listeners(spark)
    assert handle.status().writes_seen >= 1
    handle.stop()
    assert listeners(spark) == before


@pytest.mark.parametrize("number", [0, 1], ids=["delta", "iceberg"])
def test_a_stream_is_a_writer_too(
    spark: SparkSession, tables: list[str], tmp_path: Path, number: int
) -> None:
    handle = lk.install(spark)
    assert handle.wait(1, timeout=_PATIENCE_S)
    source = tmp_path / "source"
    spark.range(5).write.parquet(str(source))
    rows = spark.readStream.schema("id BIGINT").parquet(str(source)).selectExpr("id", "0 AS k")
    writer = rows.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(
        availableNow=True
    )
    started = writer.format("delta").start(f"{tmp_path}/t") if number == 0 else writer.toTable(tables[1])
    started.awaitTermination()
    await_listeners(spark)
    assert handle.wait(2, timeout=_PATIENCE_S)
    last = handle.status().last
    assert last is not None
    expected = names(spark)[number]
    assert expected in [each.table for each in last.tables]
