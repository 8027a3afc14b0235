from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from lakekeeper_iceberg.columnar_files import FilesOfTable
from lakekeeper_iceberg.native import Iceberg
from tests.iceberg.scene import Scene
from tests.jvm_calls import jvm_calls
from tests.rewrites import tasks_of

pytestmark = pytest.mark.iceberg


@pytest.mark.parametrize(
    "location",
    [
        "/a/b.parquet",
        "file:/a/b.parquet",
        "file:///a/b.parquet",
        "file:/a//b///c.parquet",
        "file:/a/b/",
        "file:/a b/c%20d/ü?x#y&z=1.parquet",
        "file:/a:b/at=2024-01-01 00:00:00/c.parquet",
    ],
)
def test_paths_are_those_of_hadoop(spark: SparkSession, location: str) -> None:
    jvm = Iceberg(spark)
    io = jvm.view.org.apache.iceberg.hadoop.HadoopFileIO(spark._jsc.hadoopConfiguration())
    files = FilesOfTable(jvm, io, "file:/a")
    expected = str(jvm.view.org.apache.hadoop.fs.Path(location).toUri().getPath())
    assert files.store is None
    assert [files.path(location), files.path(location)] == [expected, expected]


def test_a_further_input_takes_few_calls(scene: Scene) -> None:
    """Each call waits for the other process: thirteen for each file took seconds for a group of a thousand."""
    scene.create("k INT, v STRING")
    made = {}
    for _ in range(2):
        scene.run(*(f"INSERT INTO {{t}} VALUES ({n}, 'a')" for n in range(10)))
        adapter = scene.adapter()
        (task,) = tasks_of(adapter.snapshot(["k"]))
        adapter.columnar.plan(task, "run-1")  # looks up the tasks of the inputs, and makes functions
        with jvm_calls() as counted:
            adapter.columnar.plan(task, "run-1")
        made[len(task.inputs)] = len(counted)
    assert made[20] - made[10] <= 30
