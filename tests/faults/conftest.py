"""The full series run on demand."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from pyspark.sql import SparkSession

from tests.faults.ground import Ground, ground_of
from tests.faults.storage import Storage, faulty_storage


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "faults_full" in str(config.option.markexpr):
        return
    left = [item for item in items if item.get_closest_marker("faults_full") is not None]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in left]


@pytest.fixture(scope="session")
def ground(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Ground]:
    """The table of a kind; each is created once. Tests of other modules may have run since its last use."""
    made: dict[str, Ground] = {}

    def of(kind: str) -> Ground:
        _take_out_tables_of_other_tests(spark)
        if kind not in made:
            made[kind] = ground_of(spark, kind, tmp_path_factory.mktemp("faults") / kind)
        return made[kind]

    return of


def _take_out_tables_of_other_tests(spark: SparkSession) -> None:
    """A vacuum reads the location of each table of the catalog, and deletes nothing if one table is broken."""
    catalog = str(spark.conf.get("spark.sql.catalog.ice.uri")).removeprefix("jdbc:sqlite:")
    with closing(sqlite3.connect(catalog, timeout=60)) as tables, tables:
        tables.execute("DELETE FROM iceberg_tables WHERE table_namespace <> 'faults'")


@pytest.fixture
def storage(spark: SparkSession) -> Iterator[Storage]:
    with faulty_storage(spark) as made:
        yield made
