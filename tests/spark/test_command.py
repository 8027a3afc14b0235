"""The command as a user starts it: in its own process, with only the user's Spark configuration."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakekeeper
from lakekeeper.spark.session_confs import catalog_conf

pytestmark = [pytest.mark.slow, pytest.mark.delta, pytest.mark.iceberg]

_ROOTS = tuple(str(Path(path)) for path in sys.path if path)
Run = Callable[..., dict[str, Any]]


@pytest.fixture
def catalog(tmp_path: Path) -> str:
    return f"jdbc:sqlite:{tmp_path}/catalog.db"


@pytest.fixture
def run(tmp_path: Path, catalog: str, quick_confs: dict[str, str]) -> Run:
    """Run a program with a spark-defaults.conf that sets the Iceberg catalog; return the object on its stdout."""
    confs = catalog_conf("of_command", catalog, tmp_path / "warehouse")
    confs |= {"spark.driver.memory": "1g", "spark.master": "local[2]"}
    confs |= quick_confs
    (tmp_path / "conf").mkdir()
    lines = [f"{key}   {value}" for key, value in confs.items()]
    (tmp_path / "conf" / "spark-defaults.conf").write_text("# of the cluster\n" + "\n".join(lines) + "\n")

    def run(*command: str, env: Mapping[str, str] | None = None) -> dict[str, Any]:
        given = {**os.environ, "SPARK_CONF_DIR": str(tmp_path / "conf"), **(env or {})}
        given["PYTHONPATH"] = os.pathsep.join(_ROOTS)
        given.pop("PYSPARK_GATEWAY_PORT", None)
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=given, check=False)
        assert done.returncode == 0, done.stderr + done.stdout
        lines = done.stdout.splitlines()
        # spark-submit of Spark 3.5 logs to stdout itself, before the program starts.
        if "--packages" in command:
            lines = [line for line in lines if not line.startswith(":: loading settings ::")]
        assert len(lines) == 1, done.stdout
        found: dict[str, Any] = json.loads(lines[0])
        return found

    return run


@pytest.fixture
def table(spark: SparkSession, catalog: str, tmp_path: Path) -> str:
    """An Iceberg table of six overlapping files, created by a session that has its catalog."""
    for key, value in catalog_conf("of_command", catalog, tmp_path / "warehouse").items():
        spark.conf.set(key, value)
    spark.sql("CREATE NAMESPACE of_command.db")
    spark.sql("CREATE TABLE of_command.db.t (id BIGINT, k INT) USING iceberg")
    for _ in range(6):
        spark.sql("INSERT INTO of_command.db.t SELECT id, CAST(id % 7 AS INT) FROM range(0, 200, 1, 1)")
    return "of_command.db.t"


@pytest.fixture
def delta(spark: SparkSession, tmp_path: Path) -> Path:
    """A Delta table of six overlapping files."""
    path = tmp_path / "delta"
    for _ in range(6):
        rows = spark.range(200).selectExpr("id", "CAST(id % 7 AS INT) AS k").coalesce(1)
        rows.write.format("delta").mode("append").save(str(path))
    return path


def test_a_catalog_of_spark_defaults_is_found(run: Run, table: str) -> None:
    module = (sys.executable, "-m", "lakekeeper")
    done = run(*module, "recluster", table, "--columns", "k", "--policy", "full", "--json")
    assert done["rewritten_data_files_count"] == 6
    assert run(*module, "vacuum", table, "--dry-run", "--json")["dry_run"] is True


def test_a_delta_table_by_its_path(run: Run, delta: Path, spark: SparkSession) -> None:
    module = (sys.executable, "-m", "lakekeeper")
    done = run(*module, "recluster", str(delta), "--columns", "k", "--policy", "full", "--json")
    assert done["rewritten_data_files_count"] == 6
    rows = spark.read.format("delta").load(str(delta))
    assert (rows.count(), len(rows.inputFiles())) == (1_200, 1)


@pytest.mark.parametrize("script", ['"$@" 2>&-', '"$@" >&- && echo "{}"'], ids=["stderr", "stdout"])
def test_a_stream_that_the_shell_has_closed_stops_no_command(run: Run, delta: Path, script: str) -> None:
    command = (sys.executable, "-m", "lakekeeper", "info", str(delta), "--columns", "k", "--json")
    found = run("sh", "-c", script, "sh", *command)
    assert found in ({}, found | {"total_partition_count": 6})


def test_spark_submit_leaves_stdout_to_the_result(run: Run, delta: Path, spark: SparkSession) -> None:
    program = Path(str(lakekeeper.__file__)).parent / "__main__.py"
    packages = spark.sparkContext.getConf().get("spark.jars.packages", "")
    submit = Path(sys.executable).parent / "spark-submit"
    extension = "io.delta.sql.DeltaSparkSessionExtension"
    found = run(
        *(str(submit), "--packages", str(packages), "--conf", f"spark.sql.extensions={extension}"),
        *("--conf", "spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog"),
        *(str(program), "info", str(delta), "--columns", "k", "--json"),
        env={"PYSPARK_PYTHON": sys.executable},
    )
    assert found["total_partition_count"] == 6
