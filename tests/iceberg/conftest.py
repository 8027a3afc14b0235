"""A fresh Iceberg table for each test."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.iceberg.scene import Scene


@pytest.fixture
def scene(spark: SparkSession) -> Scene:
    """A table name in the SQLite catalog; the test creates the table."""
    return Scene(spark)
