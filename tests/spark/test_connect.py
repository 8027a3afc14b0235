"""Spark Connect has no JVM in the process: each call reports this before any work."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PROGRAM = """
import json
from pyspark.sql import SparkSession
import lakekeeper as lk

spark = SparkSession.builder.remote("local[1]").getOrCreate()
spark.conf.set("spark.lakekeeper.sql.call.enabled", "true")
calls = {
    "install": lambda: lk.install(spark),
    "sql": lambda: lk.sql(spark, "CALL lakekeeper.system.compact('t')"),
    "table": lambda: lk.table(spark, "t"),
    "run": lambda: lk.run(spark, tables="t"),
    "report": lambda: lk.report(spark, ["t"]),
    "listen": lambda: lk.listen(spark),
}
said = {}
for name, call in calls.items():
    try:
        said[name] = repr(call())
    except lk.LakekeeperError as error:
        said[name] = str(error)
print(json.dumps(said))
spark.stop()
"""


def test_each_call_reports_which_session_works() -> None:
    pytest.importorskip("grpc_status", reason="needs pyspark[connect]")
    confs = "--conf spark.ui.enabled=false --conf spark.driver.memory=512m pyspark-shell"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
        env=os.environ | {"PYSPARK_SUBMIT_ARGS": confs, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    said = json.loads(done.stdout.splitlines()[-1])
    assert len(said) == 6
    for call, text in said.items():
        assert text.startswith("this is a Spark Connect session"), call
        assert "run it on the driver with spark-submit, or unset SPARK_REMOTE" in text
