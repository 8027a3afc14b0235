"""``lk.sql`` runs Spark's own statements again if they lose to lakekeeper's rewrites, and only then."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakekeeper as lk
from lakekeeper.errors import OptionError
from tests.formats.gate import Gate
from tests.formats.lakes import Lake
from tests.oracles.spark_jobs import no_job

STATEMENTS = {
    "delete": "DELETE FROM {t} WHERE id = 7 AND {gate}(id)",
    "update": "UPDATE {t} SET v = 'new' WHERE id = 7 AND {gate}(id)",
    "merge": "MERGE INTO {t} USING (SELECT 7L AS i) s ON {t}.id = s.i AND {gate}({t}.id) WHEN MATCHED THEN DELETE",
}


def expected(lake: Lake, name: str, kind: str) -> list[Any]:
    frame = lake.spark.table(name)
    if kind == "update":
        frame = frame.selectExpr("id", "k", "if(id = 7, 'new', v) v")
        return sorted(map(tuple, frame.collect()))
    return sorted(map(tuple, frame.where("id <> 7").collect()))


@pytest.mark.parametrize(
    "kind", ["update", *(pytest.param(kind, marks=pytest.mark.deep) for kind in ("delete", "merge"))]
)
def test_a_statement_that_loses_to_our_rewrite_is_retried(
    lake: Lake, tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    name = lake.overlapping(3, 20)
    table = lake.table(name)
    table.cluster_by("k")
    gate = Gate(lake.spark, tmp_path)
    after = expected(lake, name, kind)
    conflicts: list[Mapping[str, Any]] = []
    statement = STATEMENTS[kind].format(t=name, gate=gate.name)

    def run() -> Any:
        return lk.sql(lake.spark, statement, observer=lambda _, info: conflicts.append(info))

    with caplog.at_level(logging.WARNING, "lakekeeper"):
        future = gate.around(run, table.recluster)
    future.result()
    assert sorted(map(tuple, lake.spark.table(name).collect())) == after
    assert len(conflicts) == 1, "it lost exactly once"
    assert conflicts[0]["reason"].code == "conflict"
    assert "lakekeeper run" in str(conflicts[0]["reason"])
    assert "run again" in caplog.text


def test_a_statement_that_loses_to_another_writer_still_fails(lake: Lake, tmp_path: Path) -> None:
    name = lake.overlapping(2, 20)
    gate = Gate(lake.spark, tmp_path)
    statement = STATEMENTS["update"].format(t=name, gate=gate.name)
    rival = f"UPDATE {name} SET v = 'rival' WHERE id = 7"
    future = gate.around(lambda: lk.sql(lake.spark, statement), lambda: lake.spark.sql(rival))
    error = future.exception()
    assert error is not None
    assert [r["v"] for r in lake.spark.table(name).where("id = 7").collect()] == ["rival"]


def test_other_statements_are_passed_to_spark(lake: Lake) -> None:
    name = lake.overlapping(1, 5)
    assert lk.sql(lake.spark, f"SELECT count(*) FROM {name}").collect()[0][0] == 5
    with pytest.raises(OptionError, match="statement"):
        lk.sql(lake.spark, "DELETE FORM nothing")
    with pytest.raises(Exception, match=r"(?i)not.found|cannot be found"):
        lk.sql(lake.spark, f"DELETE FROM {name}_not_there WHERE id = 1")


def test_a_bad_property_does_not_stop_a_statement(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    """The property is ignored with a warning, and the statement is still guarded."""
    name = lake.overlapping(1, 20)
    bad = "'lakekeeper.max-levle'='3', 'lakekeeper.max-rounds'='x'"
    lake.spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ({bad})")
    with caplog.at_level(logging.WARNING, "lakekeeper"):
        lk.sql(lake.spark, f"DELETE FROM {name} WHERE id = 3")
        assert lake.table(name).delete("id = 4").deleted_rows_count == 1
    assert lake.spark.table(name).count() == 18
    assert caplog.text.count("lakekeeper.max-levle is ignored") == 1
    assert "not run again" not in caplog.text
    with pytest.raises(OptionError, match="max-level"):
        lake.table(name).compact()


def test_a_bad_conf_does_not_stop_a_statement(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    name = lake.overlapping(1, 20)
    conf = "spark.lakekeeper.commit.retry.num-retries"
    lake.spark.conf.set(conf, "many")
    try:
        with caplog.at_level(logging.WARNING, "lakekeeper"):
            lk.sql(lake.spark, f"DELETE FROM {name} WHERE id = 3")
    finally:
        lake.spark.conf.unset(conf)
    assert lake.spark.table(name).count() == 19
    assert "not run again" in caplog.text
    with pytest.raises(OptionError, match="num-retries"):
        lk.sql(lake.spark, f"DELETE FROM {name} WHERE id = 4", options={"commit.retry.num-retries": "many"})


@pytest.mark.delta
def test_a_statement_on_an_unsupported_table_still_runs(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    """A shallow clone has files by absolute path, which lakekeeper refuses to maintain."""
    lake = Lake(spark, "delta")
    origin = lake.overlapping(1, 20)
    spark.sql(f"CREATE TABLE {origin}_clone SHALLOW CLONE {origin}")
    lk.sql(spark, f"DELETE FROM {origin}_clone WHERE id = 3")
    assert (spark.table(f"{origin}_clone").count(), spark.table(origin).count()) == (19, 20)


def test_reading_the_version_lists_nothing(lake: Lake) -> None:
    """No job, which listing data files needs on either format, and the version of a snapshot."""
    name = lake.overlapping(2, 20)
    adapter = lake.adapter(name)
    with no_job(lake.spark, "version"):
        seen = adapter.version()
        changes = adapter.changes_since(seen)
    whole = adapter.snapshot()
    assert (seen.version, seen.table_uuid, seen.schema_id) == (
        whole.version,
        whole.table_uuid,
        whole.schema_id,
    )
    assert (len(seen.blocks), seen.complete, changes.winners) == (0, False, ())


def test_changes_since_a_version_need_no_listing(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    name = lake.overlapping(3, 20)
    table = lake.table(name)
    seen = lake.adapter(name).version()
    table.recluster("k")
    if lake.iceberg:
        monkeypatch.setattr("lakekeeper_iceberg.listing.list_files", lambda *_: pytest.fail("listed"))
    assert lake.adapter(name).changes_since(seen).only_our_rewrites
    lake.spark.sql(f"DELETE FROM {name} WHERE id = 3")
    assert not lake.adapter(name).changes_since(seen).only_our_rewrites
