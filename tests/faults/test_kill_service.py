"""kill -9 of a service and its JVM during a merge: the next pass of another process does the work."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.conf import RuntimeConfig

import lakekeeper as lk
from lakekeeper.opening import open_adapter
from lakekeeper.spark.session_confs import catalog_conf
from tests.faults.processes import gone, killed

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "provider",
    [pytest.param("delta", marks=pytest.mark.delta), pytest.param("iceberg", marks=pytest.mark.iceberg)],
)
def test_the_next_pass_picks_up_the_work_of_a_killed_service(
    spark: SparkSession, confs: RuntimeConfig, warehouse: Path, tmp_path: Path, table_name: str, provider: str
) -> None:
    path = tmp_path / "t"
    name = str(path) if provider == "delta" else f"ice.db.{table_name}"
    table = f"delta.`{path}`" if provider == "delta" else name
    spark.sql(f"CREATE TABLE {table} (id BIGINT, k INT) USING {provider}")
    for at in range(4):
        rows = spark.range(at * 50, at * 50 + 50).selectExpr("id", "cast(pmod(hash(id), 100) AS INT) AS k")
        rows.coalesce(1).writeTo(table).append()

    settings = {
        "auto.tables": name,
        "auto.verbs": "recluster",
        "cluster-by": "k",
        "queries-per-hour": "100000000",
    }
    lines = [f"spark.lakekeeper.{key} {value}" for key, value in settings.items()]
    lines += [
        f"{key} {value}"
        for key, value in catalog_conf("ice", f"jdbc:sqlite:{warehouse}/ice.db", warehouse).items()
    ]
    (tmp_path / "auto.conf").write_text("\n".join([*lines, "spark.master local[2]"]))
    conf = str(tmp_path / "auto.conf")
    printed = killed("tests.faults.service_victim", "auto", "--every", "1h", "--properties-file", conf)
    assert gone(int(printed.partition("java ")[2].split()[0])), "the JVM is still running after its driver"

    confs.set("spark.lakekeeper.cluster-by", "k")
    notes = open_adapter(spark, name).adapter.notes
    assert notes.read("service.json") is not None, "it died holding its lease"
    assert lk.table(spark, name).clustering_depth("k") == 4.0, "the merge was committed before the kill"
    report = lk.run(spark, name, verbs=["recluster"])
    assert [(each.status, each.rewritten_data_files_count) for each in report.tables] == [("done", 4)], str(
        report
    )
    assert lk.table(spark, name).clustering_depth("k") == 1.0
    assert spark.sql(f"SELECT count(*), sum(id), count(DISTINCT id) FROM {table}").first() == (
        200,
        19_900,
        200,
    )
    assert notes.read("service.json") is None
