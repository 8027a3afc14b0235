from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.formats.lakes import KINDS, Lake

_DELETES = {"test_delete", "test_drop_partition", "test_merge_deletes", "test_races", "test_undo"}


def pytest_itemcollected(item: pytest.Item) -> None:
    """Where nothing is deleted, format 3 covers both: the formats differ in their delete files."""
    if "iceberg-v2" in item.name and item.path.stem not in _DELETES:
        item.add_marker("deep")


@pytest.fixture(params=[pytest.param(k, marks=getattr(pytest.mark, k.partition("-")[0])) for k in KINDS])
def lake(request: pytest.FixtureRequest, spark: SparkSession) -> Lake:
    """A lake of each kind in turn."""
    return Lake(spark, request.param)
