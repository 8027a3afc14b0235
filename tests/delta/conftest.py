"""A fresh Delta table for each test."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.delta.scene import Scene


@pytest.fixture
def scene(spark: SparkSession, tmp_path: Path) -> Scene:
    """A place for a table; the test creates it."""
    return Scene(spark, tmp_path / "table")
