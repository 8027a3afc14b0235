"""A fresh Delta table for each test."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.delta.by_hand import ByHand, by_hand, removed
from tests.delta.scene import Scene


@pytest.fixture
def scene(spark: SparkSession, tmp_path: Path) -> Scene:
    """A path for a table; the test creates it."""
    return Scene(spark, tmp_path / "table")


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> ByHand:
    """Three files, of which version 2 removes one."""
    made = by_hand(spark, tmp_path / "table")
    adds = [made.add(f"{name}.parquet", [n]) for n, name in enumerate("abc")]
    made.commit(*adds)
    made.commit(removed(adds[0]))
    return made
