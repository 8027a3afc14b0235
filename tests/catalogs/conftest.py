"""One metastore and one REST server for the tests of a module; each catalog is set up when a test needs it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakekeeper.spark.confs import all_confs
from tests.catalogs.kinds import (
    DELTA,
    ICEBERG,
    KINDS,
    NESSIE,
    Catalog,
    activate,
    add_catalog,
    add_nessie,
    at_the_pace_of,
    hive_session,
)
from tests.catalogs.metastore import hive_metastore
from tests.catalogs.nessie import Nessie, nessie_server
from tests.oracles.rest_catalog import rest_catalog


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what needs a download, as `tests.stores` does."""
    if "stores" in str(config.option.markexpr):
        return
    left = [item for item in items if item.get_closest_marker("stores") is not None]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in left]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the catalogs' data."""
    return tmp_path_factory.mktemp("catalogs")


@pytest.fixture(scope="module")
def metastore(home: Path) -> Iterator[str]:
    """The address of a Hive metastore, which has the namespace of the tests."""
    with hive_metastore(home) as address:
        yield address


@pytest.fixture(scope="module")
def hive(spark: SparkSession, metastore: str, home: Path) -> Iterator[SparkSession]:
    """A session whose ``spark_catalog`` is Delta's, on Hive."""
    with hive_session(spark, metastore) as made:
        made.sql(f"CREATE DATABASE IF NOT EXISTS {DELTA} LOCATION '{home}/hive/{DELTA}'")
        made.sql(f"CREATE DATABASE IF NOT EXISTS {ICEBERG} LOCATION '{home}/hive/{ICEBERG}'")
        yield made


@pytest.fixture(scope="module")
def catalogs(
    request: pytest.FixtureRequest, spark: SparkSession, home: Path
) -> Iterator[Callable[[str], Catalog]]:
    """Sets up each catalog once; the session's confs are restored."""
    before = set(all_confs(spark))
    made: dict[str, Catalog] = {}

    def catalog(kind: str) -> Catalog:
        if kind not in made:
            made[kind] = _set_up(kind, request, spark, home)
        return made[kind]

    yield catalog
    for key in set(all_confs(spark)) - before:
        spark.conf.unset(key)
    spark.sql(f"DROP DATABASE IF EXISTS {DELTA} CASCADE")


def _set_up(kind: str, request: pytest.FixtureRequest, spark: SparkSession, home: Path) -> Catalog:
    if kind in ("sqlite", "hadoop"):
        return Catalog(kind, spark, {"sqlite": "ice", "hadoop": "hdp"}[kind], home)
    if kind == "session":
        spark.sql(f"CREATE DATABASE IF NOT EXISTS {DELTA} LOCATION '{home}/session/{DELTA}'")
        return Catalog(kind, spark, "spark_catalog", home / "session" / DELTA)
    if kind == "rest":
        (home / "rest").mkdir()
        address = request.getfixturevalue("rest")
        name = add_catalog(spark, f"rest_{uuid.uuid4().hex[:8]}", {"type": "rest", "uri": address})
        spark.sql(f"CREATE NAMESPACE {name}.{ICEBERG}")
        return Catalog(kind, spark, name, home)
    if kind == "nessie":
        server: Nessie = request.getfixturevalue("nessie")
        name = add_nessie(spark, server, home)
        spark.sql(f"CREATE NAMESPACE {name}.{ICEBERG}")
        return Catalog(kind, spark, name, home)
    uri, hive = request.getfixturevalue("metastore"), request.getfixturevalue("hive")
    settings = {"type": "hive", "uri": uri, "warehouse": f"{home}/hive"}
    if kind == "hive":
        return Catalog(kind, spark, add_catalog(spark, f"hive_{uuid.uuid4().hex[:8]}", settings), home)
    if kind == "session-iceberg":
        apart = at_the_pace_of(spark, hive.newSession())
        return Catalog(kind, apart, add_catalog(apart, "spark_catalog", settings), home)
    return Catalog(kind, hive, "spark_catalog", home / "hive" / DELTA)


@pytest.fixture(scope="module")
def rest(home: Path) -> Iterator[str]:
    """The address of a REST catalog."""
    with rest_catalog(home / "rest") as address:
        yield address


@pytest.fixture(scope="module")
def nessie(home: Path) -> Iterator[Nessie]:
    """A Nessie server."""
    with nessie_server(home) as server:
        yield server


@pytest.fixture(scope="module")
def main(spark: SparkSession, nessie: Nessie, home: Path) -> str:
    """A catalog on Nessie's branch main, with the namespace of the tests."""
    name = add_nessie(spark, nessie, home)
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {name}.{ICEBERG}")
    return name


@pytest.fixture(params=[*KINDS, NESSIE])
def catalog(
    request: pytest.FixtureRequest, spark: SparkSession, catalogs: Callable[[str], Catalog]
) -> Iterator[Catalog]:
    """A kind of catalog; its session is the active one."""
    found = catalogs(request.param)
    activate(found.spark)
    yield found
    activate(spark)


@pytest.fixture
def name() -> str:
    """A name that no other test uses."""
    return f"t_{uuid.uuid4().hex[:12]}"
