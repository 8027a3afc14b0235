"""The same operations through other catalogs than SQLite: a directory, REST, and in memory."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.conf import RuntimeConfig

import lakekeeper as lk
from lakekeeper.core.model.run_name import RunName
from lakekeeper.errors import AdapterError, CommitError, Conflict, LakekeeperError, UndoError
from lakekeeper.spark import catalogs
from lakekeeper.spark.catalogs import places
from lakekeeper.spark.jvm import Jvm
from lakekeeper.spi import Reversal
from tests.iceberg.scene import Scene, add_position_delete, delete_equal, file_of
from tests.oracles.admission import with_token
from tests.oracles.rest_catalog import rest_catalog
from tests.rewrites import recluster, rewritten, tasks_of

pytestmark = pytest.mark.iceberg
SECRET = "lakekeeper:0f3a-not-for-logs"  # noqa: S105 - a test credential


def fill(start: int, stop: int) -> str:
    rows = f"SELECT /*+ COALESCE(1) */ cast(id % 7 AS int) AS k, concat('v', id) AS v FROM range({start}, {stop})"
    return f"INSERT INTO {{t}} {rows}"


@pytest.fixture
def rest(spark: SparkSession, confs: RuntimeConfig, tmp_path: Path) -> Iterator[Scene]:
    with rest_catalog(tmp_path) as address:
        name = f"rest_{uuid.uuid4().hex[:8]}"
        confs.set(f"spark.sql.catalog.{name}", "org.apache.iceberg.spark.SparkCatalog")
        confs.set(f"spark.sql.catalog.{name}.type", "rest")
        confs.set(f"spark.sql.catalog.{name}.uri", address)
        spark.sql(f"CREATE NAMESPACE {name}.db")
        yield Scene(spark, name)


@pytest.fixture(params=["token", "credential"])
def guarded(
    request: pytest.FixtureRequest, spark: SparkSession, confs: RuntimeConfig, tmp_path: Path
) -> Iterator[tuple[Scene, str]]:
    """(tables of a REST catalog that requires authentication, the conf for it); OAuth for a credential."""
    key, given = str(request.param), {"admits": with_token(SECRET)}
    with rest_catalog(tmp_path, **({"credential": SECRET} if key == "credential" else given)) as address:
        yield Scene(spark, _guarded_catalog(confs, address, key, SECRET)), key


def _guarded_catalog(confs: RuntimeConfig, address: str, key: str, secret: str) -> str:
    """Name a catalog at an address, with a secret of its own."""
    name = f"guarded_{uuid.uuid4().hex[:8]}"
    given = {"type": "rest", "uri": address, key: secret, "rest.auth.type": "oauth2"}
    given |= {"oauth2-server-uri": f"{address}/v1/oauth/tokens", "scope": "catalog"}
    confs.set(f"spark.sql.catalog.{name}", "org.apache.iceberg.spark.SparkCatalog")
    for option, value in given.items():
        confs.set(f"spark.sql.catalog.{name}.{option}", value)
    return name


@pytest.fixture
def memory(spark: SparkSession, confs: RuntimeConfig, tmp_path: Path) -> Scene:
    name = f"memory_{uuid.uuid4().hex[:8]}"
    prefix = f"spark.sql.catalog.{name}"
    confs.set(prefix, "org.apache.iceberg.spark.SparkCatalog")
    confs.set(f"{prefix}.catalog-impl", "org.apache.iceberg.inmemory.InMemoryCatalog")
    confs.set(f"{prefix}.io-impl", "org.apache.iceberg.hadoop.HadoopFileIO")
    confs.set(f"{prefix}.warehouse", str(tmp_path))
    spark.sql(f"CREATE NAMESPACE {name}.db")
    return Scene(spark, name)


def test_notes_and_a_rewrite_of_a_table_whose_files_are_in_memory(
    spark: SparkSession, confs: RuntimeConfig
) -> None:
    """There a missing file raises an error of its own, before a caller can check whether the file exists."""
    name = f"memory_{uuid.uuid4().hex[:8]}"
    confs.set(f"spark.sql.catalog.{name}", "org.apache.iceberg.spark.SparkCatalog")
    confs.set(f"spark.sql.catalog.{name}.catalog-impl", "org.apache.iceberg.inmemory.InMemoryCatalog")
    spark.sql(f"CREATE NAMESPACE {name}.db")
    scene = Scene(spark, name)
    scene.create("k INT, v STRING").run(fill(0, 20), fill(20, 40))
    notes = scene.adapter().notes
    notes.remove("a.json")
    assert notes.read("a.json") is None
    assert notes.keep("a.json", "1") == "1"
    assert notes.keep("a.json", "2") == "1"
    notes.replace("a.json", "3")
    assert notes.read("a.json") == "3"
    notes.remove("a.json")
    assert notes.read("a.json") is None
    rows = scene.spark_rows()
    assert lk.table(spark, scene.sql).recluster("k", options={"policy": "full"}).changed
    assert scene.spark_rows() == rows


@pytest.fixture
def directory(spark: SparkSession) -> Scene:
    return Scene(spark, "hdp")


@pytest.mark.parametrize("catalog", ["directory", "rest", "memory"])
def test_a_rewrite_and_its_races(catalog: str, request: pytest.FixtureRequest) -> None:
    scene: Scene = request.getfixturevalue(catalog)
    scene.create("k INT, v STRING").run(fill(0, 20), fill(20, 40), "DELETE FROM {t} WHERE v = 'v3'")
    rows = scene.spark_rows()
    recluster(scene, level=2)
    assert scene.spark_rows() == rows
    if catalog != "memory":  # its metadata is not a file that another process can open
        assert scene.log_rows() == rows
    assert {(b.level, b.deleted_rows) for b in scene.adapter().snapshot(["k"]).blocks} == {(2, 0)}

    adapter = scene.adapter()
    snapshot = adapter.snapshot(["k"])
    made = [rewritten(adapter, task) for task in tasks_of(snapshot, level=3)]
    scene.run(fill(40, 50), "ALTER TABLE {t} ADD COLUMN w INT")
    delete_equal(scene, "k", [5])
    scene.run("INSERT INTO {t} VALUES (5, 'later', 1)")
    rows = scene.spark_rows()
    adapter.commit(made, snapshot, "run-2")
    assert scene.spark_rows() == rows
    assert sorted(b.level for b in scene.adapter().snapshot(["k"]).blocks) == [0, 0, 3]

    snapshot = adapter.snapshot(["k"])
    made = [rewritten(adapter, task) for task in tasks_of(snapshot)]
    scene.run("DELETE FROM {t} WHERE v = 'v7'")
    rows = scene.spark_rows()
    with pytest.raises(Conflict) as lost:
        adapter.commit(made, snapshot, "run-3")
    assert lost.value.winner
    adapter.discard(made)
    assert scene.spark_rows() == rows
    assert scene.leftovers() == scene.metadata_leftovers() == set()


def test_a_rest_catalog_that_requires_authentication(guarded: tuple[Scene, str]) -> None:
    table, _ = guarded
    table.spark.sql(f"CREATE NAMESPACE {table.catalog}.db")
    table.create("k INT, v STRING").run(fill(0, 20), fill(20, 40), "DELETE FROM {t} WHERE v = 'v3'")
    rows = table.spark_rows()
    opened = lk.table(table.spark, table.sql)
    report = opened.recluster("k", policy="full")
    assert report.rewritten_data_files_count == 2
    assert opened.vacuum(retention_hours=0, allow_unsafe_retention=True).failed_files_count == 0
    assert table.spark_rows() == table.log_rows() == rows
    assert SECRET not in f"{report}"


def test_a_rest_catalog_that_refuses_access(
    guarded: tuple[Scene, str], confs: RuntimeConfig, caplog: pytest.LogCaptureFixture
) -> None:
    table, key = guarded
    address = confs.get(f"spark.sql.catalog.{table.catalog}.uri")
    other = _guarded_catalog(confs, str(address), key, "lakekeeper:0f3a-a-wrong-one")
    with pytest.raises(AdapterError, match=rf"{other}") as refused:
        lk.table(table.spark, f"{other}.db.t")
    assert "0f3a" not in f"{refused.value}{caplog.text}"


def test_small_delete_files_are_merged_with_a_catalog_over_http(rest: Scene) -> None:
    """By a commit of ours: if its response is lost, Iceberg's own merge may delete files of that commit."""
    rest.create("k INT, v STRING").run(fill(0, 20))
    for i in range(6):
        add_position_delete(rest, file_of(rest, "v15"), i)
    rows, versions = rest.spark_rows(), rest.versions()
    adapter = rest.adapter()
    done = adapter.deletes.tidy(adapter.snapshot(), "run-0")
    assert (done.removed_delete_files, done.added_delete_files) == (6, 1)
    assert rest.versions() == [*versions, done.version]
    assert rest.spark_rows() == rest.log_rows() == rows


def test_manifests_are_not_rewritten_with_a_catalog_over_http(rest: Scene) -> None:
    """Loss L34: after a 409, Iceberg's rewrite of manifests cleans up as that of delete files does."""
    rest.create("k INT, v STRING")
    for start in range(0, 60, 10):
        rest.run(fill(start, start + 10))
    versions = rest.versions()
    done = rest.adapter().storage.compact_metadata(dry_run=False)
    assert (done.version, done.files_before, done.files_after) == (None, 6, 6)
    assert (done.reason.code, done.reason["before"]) == ("manifests_repeated", 6)
    assert str(done.reason) == "6 manifests kept: the catalog may repeat a commit"
    assert rest.versions() == versions


def test_a_catalog_that_ignores_the_parent_of_namespaces(rest: Scene) -> None:
    """Each response lists all namespaces; a vacuum that looks for other tables requests each of them once."""
    rest.create("k INT, v STRING").run(fill(0, 20))
    listed = [place.name for place in places(Jvm(rest.spark), rest.catalog)]
    assert listed == [rest.name]


def merged(table: Scene) -> str:
    [run] = lk.table(table.spark, table.sql).recluster("k", policy="full").run_ids
    return run


def found(table: Scene, run: str) -> Reversal:
    reversal = table.adapter().undos.find(RunName.parse(run))
    assert isinstance(reversal, Reversal)
    return reversal


@pytest.mark.parametrize("catalog", ["scene", "directory", "rest"])
def test_a_commit_between_the_check_of_an_undo_and_its_swap_wins(
    catalog: str, request: pytest.FixtureRequest
) -> None:
    table: Scene = request.getfixturevalue(catalog)
    table.create("k INT, v STRING").run(fill(0, 20), fill(20, 40), "DELETE FROM {t} WHERE v = 'v3'")
    run = merged(table)
    undos, reversal = table.adapter().undos, found(table, run)
    table.run("DELETE FROM {t} WHERE v = 'v7'")
    rows = table.spark_rows()
    with pytest.raises(Conflict):
        undos.commit(reversal, "abc-undo1")
    assert table.spark_rows() == rows
    assert undos.landed(reversal, "abc-undo1") is None
    with pytest.raises(UndoError, match="1 commit of others"):
        undos.find(RunName.parse(run))


@pytest.mark.parametrize("catalog", ["scene", "directory", "rest"])
def test_an_undo_does_not_return_to_a_snapshot_that_expires_before_the_swap(
    catalog: str, request: pytest.FixtureRequest
) -> None:
    """Its files are being deleted; a REST commit has no requirement on that snapshot."""
    table: Scene = request.getfixturevalue(catalog)
    table.create("k INT, v STRING").run(fill(0, 20), fill(20, 40))
    run = merged(table)
    undos, reversal = table.adapter().undos, found(table, run)
    table.java().expireSnapshots().expireOlderThan(time.time_ns() // 1_000_000).retainLast(1).commit()
    rows = table.spark_rows()
    with pytest.raises(CommitError):
        undos.commit(reversal, "abc-undo1")
    assert table.spark_rows() == rows
    with pytest.raises(UndoError, match="expired"):
        undos.find(RunName.parse(run))


@pytest.mark.parametrize("catalog", ["scene", "directory", "rest"])
def test_an_undo_restores_the_snapshot(catalog: str, request: pytest.FixtureRequest) -> None:
    table: Scene = request.getfixturevalue(catalog)
    table.create("k INT, v STRING").run(fill(0, 20), fill(20, 40), "DELETE FROM {t} WHERE v = 'v3'")
    before, rows = table.version, table.spark_rows()
    done = lk.table(table.spark, table.sql).undo(merged(table), allow_rollback=True)
    assert (table.version, done.version_after, done.rollback_to) == (before, before, before)
    assert (done.restored_data_files_count, done.run_id) == (2, "")
    assert table.spark_rows() == rows
    table.run(fill(40, 50), "DELETE FROM {t} WHERE v = 'v41'")
    assert sum(table.spark_rows().values()) == sum(rows.values()) + 9


def test_a_table_that_is_dropped_during_a_run(spark: SparkSession) -> None:
    scene = Scene(spark).create("k INT, v STRING").run(fill(0, 20), fill(20, 40))

    def race(phase: str, _: object) -> None:
        if phase == "before_commit":
            scene.run("DROP TABLE {t}")

    with pytest.raises(LakekeeperError, match="no such Iceberg table"):
        lk.table(spark, scene.sql).recluster("k", policy="full", observer=race)


class Nested:
    """A catalog with tables outside of all namespaces and in one."""

    def __init__(self, *, down: bool = False) -> None:
        self.down = down

    def listNamespaces(self, parent: Sequence[str] = ()) -> list[list[str]]:  # noqa: N802 - Java's name
        return [] if parent else [["db"]]

    def listTables(self, namespace: Sequence[str]) -> list[tuple[str, ...]]:  # noqa: N802 - Java's name
        if self.down and not namespace:
            raise OSError("the catalog does not answer")
        return [(*namespace, "t")]


def test_tables_without_a_namespace_are_listed() -> None:
    """Loss L77: a vacuum did not see them, and their data files in a shared folder counted as orphans."""
    jvm: Any = SimpleNamespace(
        array=lambda _, steps: list(steps),
        view=SimpleNamespace(java=SimpleNamespace(lang=SimpleNamespace(String=str))),
    )
    assert list(catalogs.identifiers(jvm, Nested())) == [("t",), ("db", "t")]
    with pytest.raises(OSError, match="does not answer"):
        list(catalogs.identifiers(jvm, Nested(down=True)))


@pytest.mark.parametrize("kept", [True, False], ids=["one Table object", "a new one"])
def test_another_table_in_a_directory_with_as_many_versions_is_seen(spark: SparkSession, kept: bool) -> None:
    """Loss L107: Iceberg reads a version by its number alone; the next commit brought the metadata of the old back."""
    elsewhere = Scene(spark.newSession(), "hdp")
    elsewhere.spark.sql("CREATE NAMESPACE IF NOT EXISTS hdp.db")

    def create(*keys: int) -> None:
        elsewhere.create("k INT").run(*(f"INSERT INTO {{t}} VALUES ({k})" for k in keys))

    create(1, 2)
    table = lk.table(spark, elsewhere.sql)
    table.compact(dry_run=True)
    elsewhere.run("DROP TABLE {t} PURGE")
    create(101, 102)
    if not kept:
        table = lk.table(spark, elsewhere.sql)
    table.cluster_by("k")
    assert table.delete("k = 101").deleted_rows_count == 1
    reader = Scene(spark.newSession(), "hdp", elsewhere.name)
    assert [row.k for row in reader.spark.table(reader.sql).collect()] == [102]


@pytest.mark.parametrize(
    "kind, listed",
    [
        ({}, True),
        ({"type": "hive"}, True),
        ({"catalog-impl": "org.apache.iceberg.hive.HiveCatalog"}, True),
        ({"type": "rest"}, False),
        ({"type": "hadoop"}, False),
        ({"catalog-impl": "org.apache.iceberg.aws.glue.GlueCatalog"}, False),
    ],
    ids=str,
)
def test_a_session_catalog_that_lists_the_tables_of_another_is_refused(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, kind: dict[str, str], listed: bool
) -> None:
    key = "spark.sql.catalog.spark_catalog"
    given = {key: "org.apache.iceberg.spark.SparkSessionCatalog"} | {f"{key}.{k}": v for k, v in kind.items()}
    monkeypatch.setattr(catalogs, "shim", lambda: SimpleNamespace(confs=lambda _: given))
    if listed:
        places(Jvm(spark), "spark_catalog")
        return
    with pytest.raises(AdapterError, match="does not list its Iceberg tables"):
        places(Jvm(spark), "spark_catalog")
