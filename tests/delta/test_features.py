"""A feature that Delta itself does not support raises Unsupported with its name, wherever it appears."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakekeeper as lk
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.errors import AdapterError, Conflict, Unsupported
from lakekeeper.spark.jvm import Jvm
from tests.delta.scene import Scene
from tests.formats.verbs import VERBS
from tests.rewrites import rewritten, tasks_of

pytestmark = pytest.mark.delta

PROTOCOLS: list[tuple[Mapping[str, Any], Mapping[str, str], str]] = [
    # the protocol action, the configuration that enables the feature, the feature that the error names
    ({"r": 3, "w": 7, "readerFeatures": ["quantum"], "writerFeatures": ["quantum"]}, {}, "quantum"),
    ({"r": 3, "w": 7, "readerFeatures": ["zeta", "beta"], "writerFeatures": ["zeta", "beta"]}, {}, "beta"),
    ({"r": 1, "w": 7, "writerFeatures": ["quantum"]}, {}, "quantum"),
    ({"r": 4, "w": 8}, {}, 'protocol {"minReaderVersion": 4, "minWriterVersion": 8}'),
    ({"r": 3, "w": 8, "readerFeatures": [], "writerFeatures": []}, {}, "writer protocol version 8"),
    (
        {"r": 1, "w": 2, "readerFeatures": ["deletionVectors"], "writerFeatures": []},
        {},
        'protocol {"minReaderVersion": 1',
    ),
    ({"r": 3, "w": 7}, {}, 'protocol {"minReaderVersion": 3, "minWriterVersion": 7}'),
    ({"r": 1, "w": 7, "writerFeatures": []}, {"delta.enableRowTracking": "true"}, "domainMetadata"),
]  # fmt: skip


@pytest.fixture
def table(scene: Scene) -> Scene:
    rows = "INSERT INTO {t} SELECT /*+ COALESCE(1) */ id AS k FROM range(20)"
    return scene.run("CREATE TABLE {t} (k BIGINT) USING delta", rows, rows)


def commit(scene: Scene, protocol: Mapping[str, Any], configuration: Mapping[str, str]) -> None:
    """Commit this protocol as another engine would, with new metadata if there is a configuration."""
    short = {"r": "minReaderVersion", "w": "minWriterVersion"}
    actions: list[dict[str, Any]] = [{"protocol": {short.get(k, k): v for k, v in protocol.items()}}]
    if configuration:
        [first] = [a["metaData"] for a in scene.actions(0) if "metaData" in a]
        actions.append({"metaData": {**first, "configuration": dict(configuration)}})
    place = scene.path / "_delta_log" / f"{scene.version + 1:020d}.json"
    place.write_text("".join(json.dumps(action) + "\n" for action in actions))


def files(folder: Path) -> set[Path]:
    return {p for p in folder.rglob("*") if p.is_file()}


def fresh(spark: SparkSession) -> None:
    Jvm(spark).view.org.apache.spark.sql.delta.DeltaLog.clearCache()


@pytest.mark.parametrize("protocol,configuration,feature", PROTOCOLS, ids=[p[2] for p in PROTOCOLS])
def test_a_table_that_delta_does_not_open(
    table: Scene, protocol: Mapping[str, Any], configuration: Mapping[str, str], feature: str
) -> None:
    opened = lk.table(table.spark, str(table.path))
    commit(table, protocol, configuration)
    before = files(table.path)
    for entry in VERBS.values():
        with pytest.raises(Unsupported) as refused:
            entry(opened)
        assert refused.value.feature.startswith(feature)
        assert "nothing was written" in str(refused.value)
    fresh(table.spark)
    for name in (str(table.path), f"delta.`{table.path}`"):
        with pytest.raises(Unsupported) as refused:
            lk.table(table.spark, name)
        assert refused.value.feature.startswith(feature)
    assert files(table.path) == before


def test_a_table_of_a_catalog(spark: SparkSession, table_name: str) -> None:
    spark.sql(f"CREATE TABLE {table_name} (k BIGINT) USING delta")
    [row] = spark.sql(f"DESCRIBE DETAIL {table_name}").collect()
    scene = Scene(spark, Path(row["location"].removeprefix("file:")))
    commit(scene, *PROTOCOLS[0][:2])
    fresh(spark)
    with pytest.raises(Unsupported, match="'quantum'"):
        lk.table(spark, table_name)


def test_a_type_that_spark_does_not_know(table: Scene) -> None:
    [first] = [a["metaData"] for a in table.actions(0) if "metaData" in a]
    column = {"name": "k", "type": "quantum", "nullable": True, "metadata": {}}
    schema = json.dumps({"type": "struct", "fields": [column]})
    place = table.path / "_delta_log" / f"{table.version + 1:020d}.json"
    place.write_text(json.dumps({"metaData": {**first, "schemaString": schema}}) + "\n")
    fresh(table.spark)
    with pytest.raises(Unsupported, match="column type quantum"):
        lk.table(table.spark, str(table.path)).clustering_information("k")


def test_a_damaged_log_is_reported_as_damaged(table: Scene) -> None:
    (table.path / "_delta_log" / f"{table.version + 1:020d}.json").write_text(
        '{"protocol": {"minReaderVersion": "x"}}'
    )
    fresh(table.spark)
    with pytest.raises(AdapterError, match=r"minReaderVersion"):
        lk.table(table.spark, str(table.path))


def test_a_feature_enabled_during_a_rewrite_fails_the_group_and_leaves_no_file(table: Scene) -> None:
    adapter = table.adapter()
    snapshot = adapter.snapshot(["k"])
    before = table.data_files()
    made = [rewritten(adapter, task) for task in tasks_of(snapshot)]
    commit(table, *PROTOCOLS[0][:2])
    obstacle = adapter.changes_since(snapshot).obstacle
    assert obstacle == Reason.of(Code.FEATURE_ADDED, feature="quantum")
    with pytest.raises((Conflict, Unsupported)):
        adapter.commit(made, snapshot, "run")
    adapter.discard(made)
    assert table.data_files() == before

    def upgrade(phase: str, _: Mapping[str, Any]) -> None:
        if phase == "written":
            commit(other, *PROTOCOLS[0][:2])

    other = Scene(table.spark, table.path.parent / "other")
    rows = "INSERT INTO {t} SELECT /*+ COALESCE(1) */ id AS k FROM range(20)"
    other.run("CREATE TABLE {t} (k BIGINT) USING delta", rows, rows)
    before = other.data_files()
    report = lk.table(table.spark, str(other.path)).recluster(
        "k", observer=upgrade, options={"policy": "full"}
    )
    assert {group.status for group in report.groups} == {"dropped"}
    assert all("quantum" in str(group.detail) for group in report.groups)
    assert other.data_files() == before
