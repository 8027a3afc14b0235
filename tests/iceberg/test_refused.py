"""What Iceberg itself does not read is Unsupported, by name, wherever it is met."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import lakekeeper as lk
from lakekeeper.errors import Unsupported
from tests.delta.test_refused import ENTRIES
from tests.iceberg.scene import Scene

pytestmark = pytest.mark.iceberg

Change = Callable[[dict[str, Any]], object]


def typed(metadata: dict[str, Any], kind: str) -> None:
    for schema in metadata["schemas"]:
        schema["fields"][0]["type"] = kind


CHANGES: dict[str, tuple[Change, str]] = {
    "a future version": (lambda m: m.update({"format-version": 9}), "format-version 9"),
    "a version that lakekeeper does not know": (
        lambda m: m.update({"format-version": 4, "next-row-id": 0}),
        "format-version 4",
    ),
    "an unknown type": (lambda m: typed(m, "quantum"), "column type quantum"),
    "a type of nanoseconds": (lambda m: typed(m, "timestamp_ns"), "column type timestamp_ns"),
    "fields that are missing": (lambda m: m.pop("schemas"), "metadata file"),
}


def commit(scene: Scene, change: Change) -> None:
    """Another engine's commit: the metadata with a change that this Iceberg cannot make."""
    catalog = str(scene.spark.conf.get("spark.sql.catalog.ice.uri")).removeprefix("jdbc:sqlite:")
    with closing(sqlite3.connect(catalog, timeout=60)) as pointers, pointers:
        where = "WHERE table_namespace = 'db' AND table_name = ?"
        [(place,)] = pointers.execute(f"SELECT metadata_location FROM iceberg_tables {where}", (scene.name,))
        metadata = json.loads(Path(place.removeprefix("file:")).read_text())
        change(metadata)
        new = Path(place.removeprefix("file:")).with_name("99999-by-hand.metadata.json")
        new.write_text(json.dumps(metadata))
        pointers.execute(f"UPDATE iceberg_tables SET metadata_location = ? {where}", (str(new), scene.name))


@pytest.mark.parametrize("kind", CHANGES)
def test_a_table_that_iceberg_does_not_read(scene: Scene, kind: str) -> None:
    change, feature = CHANGES[kind]
    scene.create("k BIGINT").run("INSERT INTO {t} SELECT id FROM range(10)")
    opened = lk.table(scene.spark, scene.sql)
    home = Path(str(scene.java().location()).removeprefix("file:"))
    commit(scene, change)
    before = {p for p in home.rglob("*") if p.is_file()}
    for entry in ENTRIES.values():
        with pytest.raises(Unsupported) as refused:
            entry(opened)
        assert refused.value.feature == feature
    scene.spark.catalog.clearCache()
    with pytest.raises(Unsupported) as refused:
        lk.table(scene.spark, scene.sql)
    assert refused.value.feature == feature
    assert {p for p in home.rglob("*") if p.is_file()} == before
