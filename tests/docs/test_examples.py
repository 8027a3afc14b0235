"""The quickstart and each how-to, block by block, in an empty folder: a stranger's path works."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.conf import RuntimeConfig

import lakekeeper as lk
from tests.docs.blocks import RUN, Block, blocks, commands, run, statements

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [DOCS / "quickstart.md", *sorted((DOCS / "how-to").glob("*.md"))]
DEEP = {"automatic-runs", "sql", "vacuum"}
COLUMNS = "id BIGINT, user_id BIGINT, ts TIMESTAMP, day DATE, note STRING, seen BOOLEAN"
ROWS = """SELECT id, id % 997 * 10 AS user_id, timestamp '2026-01-01' + make_interval(0, 0, 0, 0, 0, id) AS ts,
date '2026-01-01' AS day, concat('note ', id) AS note, false AS seen FROM range({first}, {first} + 300)"""
TABLES = {
    "ice.db.events": "iceberg",
    "ice.db.old": "iceberg",
    "ice.db.small": "iceberg",
    "spark_catalog.db.events": "delta",
    "spark_catalog.db.clone": "delta",
    "delta.`{place}/data/delta/events`": "delta",
}
"""What a page may name → its format."""


def _params() -> list[Any]:
    return [
        pytest.param(page, id=page.stem, marks=[pytest.mark.deep] if page.stem in DEEP else [])
        for page in PAGES
    ]


@pytest.fixture
def place(
    page: Path, spark: SparkSession, confs: RuntimeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """An empty folder, the tables of the pages, and the files that the pages find on a machine."""
    monkeypatch.chdir(tmp_path)
    for folder in ("data/delta", "logs", "conf", "var"):
        (tmp_path / folder).mkdir(parents=True)
    confs.set("spark.lakekeeper.history.path", str(tmp_path / "history.db"))
    confs.set("spark.lakekeeper.auto.tables", "ice.db.events")
    auto = (
        f"spark.lakekeeper.auto.tables ice.db.events\nspark.lakekeeper.history.path {tmp_path}/history.db\n"
    )
    for name in ("conf/auto.example.conf", "lakekeeper.conf"):
        (tmp_path / name).write_text(auto)
    (tmp_path / "logs" / "app-20261122").write_text("\n".join(map(json.dumps, _event_log())))
    spark.sql("CREATE NAMESPACE IF NOT EXISTS spark_catalog.db")
    made = [name.format(place=tmp_path) for name in TABLES if _names(page, name)]
    for name in made:
        spark.sql(
            f"CREATE OR REPLACE TABLE {name} ({COLUMNS}) USING {'iceberg' if name.startswith('ice') else 'delta'} "
            "PARTITIONED BY (day) TBLPROPERTIES ('lakekeeper.cluster-by' = 'user_id')"
        )
    for first in (0, 100):
        for name in made:
            spark.sql(f"INSERT INTO {name} {ROWS.format(first=first)}")
        time.sleep(1)  # files that are added within a second are one commit to a simulation
    yield tmp_path
    for name in made:
        if "/" not in name:
            spark.sql(f"DROP TABLE IF EXISTS {name}")


def _event_log() -> Iterator[dict[str, Any]]:
    """What Spark writes of twenty queries for one user."""
    yield {"Event": "SparkListenerLogStart", "Spark Version": "4.1.1"}
    node = {"nodeName": "BatchScan ice.db.events", "children": [], "metadata": {}, "metrics": []}
    scan = "IcebergScan(table=ice.db.events, schemaId=0, snapshotId=1, branch=null, filters=user_id = 70, "
    tree = {
        **node,
        "simpleString": f"BatchScan ice.db.events[] {scan}runtimeFilters=, groupedBy=) RuntimeFilters: []",
    }
    event = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecution"
    for number in range(20):
        this, at = {"executionId": number}, 1_800_000_000_000 + number * 60_000
        yield {"Event": f"{event}Start", **this, "description": "count", "time": at, "sparkPlanInfo": tree}
        yield {"Event": f"{event}End", **this, "time": at + 500}


def _names(page: Path, table: str) -> bool:
    """Whether a page names a table, by path or name, Spark's catalog aside; the quickstart makes its own."""
    if page.stem == "quickstart" and "/" not in table:
        return False
    name = table.partition("`")[2].removeprefix("{place}").removesuffix("`") or table
    spelled = re.escape(name).replace(r"spark_catalog\.", r"(?<!ice\.)")
    return re.search(spelled, page.read_text()) is not None


def _here(text: str, place: Path, spark: SparkSession) -> str:
    """The page for this machine: its folders, its catalog, and options that it abbreviates with an ellipsis."""
    for folder in ("/data", "/logs", "/var"):
        text = text.replace(f" {folder}", f" {place}{folder}").replace(f'"{folder}', f'"{place}{folder}')
    uri = str(spark.conf.get("spark.sql.catalog.ice.uri"))
    text = text.replace("jdbc:sqlite:/data/catalog.db", uri).replace("jdbc:sqlite:warehouse/catalog.db", uri)
    warehouse = str(spark.conf.get("spark.sql.warehouse.dir")).removeprefix("file:")
    return text.replace('Path("warehouse")', f'Path("{warehouse}")').replace("--catalog …", "")


@pytest.mark.spark
@pytest.mark.delta
@pytest.mark.iceberg
@pytest.mark.parametrize("page", _params())
def test_each_block_of_a_page_runs(page: Path, place: Path, spark: SparkSession) -> None:
    names: dict[str, Any] = {"spark": spark, "lk": lk, "__name__": "page"}
    ran = 0
    try:
        for block in blocks(_here(page.read_text(), place, spark)):
            if block.kind in RUN and not block.why:
                run(block, names, page)
                ran += 1
    finally:
        for value in names.values():
            if isinstance(value, lk.Listening | lk.Service):
                value.stop()
    assert ran or all(block.why for block in blocks(page.read_text()) if block.kind in RUN)


def test_pages_mark_few_blocks_and_say_why() -> None:
    marked = {page.stem: [b.why for b in blocks(page.read_text()) if b.why] for page in PAGES}
    total = sum(b.kind in RUN for page in PAGES for b in blocks(page.read_text()))
    assert total > 40
    assert sum(map(len, marked.values())) < total / 4
    assert all(why.strip() for found in marked.values() for why in found)


def test_the_reader_of_pages_finds_what_is_planted() -> None:
    page = "# T\n```python\nx = 1\n```\n<!-- not run: a cluster -->\n```sh\nspark-submit\n```\n```text\nout\n```\n"
    assert blocks(page) == [
        Block("python", "x = 1\n", 3),
        Block("sh", "spark-submit\n", 7, "a cluster"),
        Block("text", "out\n", 10),
    ]
    assert list(commands("a 'b c' # d\ne \\\n  f\n")) == [["a", "b c"], ["e", "f"]]
    assert list(statements("SELECT 1\nCALL a(1,\n  2);\nSET x = 1")) == [
        "SELECT 1",
        "CALL a(1,\n  2)",
        "SET x = 1",
    ]


def test_a_command_that_fails_fails_the_page() -> None:
    with pytest.raises(AssertionError, match="exited with 2"):
        run(Block("sh", "lakekeeper plan t --budget ten\n", 1), {}, Path("page.md"))
    with pytest.raises(AssertionError, match="mark the block"):
        run(Block("sh", "make demo\n", 1), {}, Path("page.md"))
    with pytest.raises(AssertionError, match=r"page\.md:1: name 'missing' is not defined"):
        run(Block("python", "missing\n", 1), {}, Path("page.md"))


@pytest.mark.spark
@pytest.mark.delta
@pytest.mark.iceberg
@pytest.mark.slow
def test_the_quickstart_begins_in_an_empty_folder_with_a_session_of_its_own(tmp_path: Path) -> None:
    """The test above runs in the session of the tests, whose warehouse exists."""
    python = [block.code for block in blocks((DOCS / "quickstart.md").read_text()) if block.kind == "python"]
    path = os.pathsep.join([str(DOCS.parent), str(DOCS.parent / "adapters")])
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(python[:3])],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name != "PYSPARK_SUBMIT_ARGS"}
        | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert (tmp_path / "warehouse" / "catalog.db").is_file()
