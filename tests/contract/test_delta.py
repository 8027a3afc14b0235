"""The contract of an adapter, for Delta tables: with deletion vectors, and without."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakekeeper.spi import Capabilities
from lakekeeper.testing.contract import AdapterContract
from lakekeeper.testing.samples import SAMPLES
from tests.contract.delta import DeltaHarness

pytestmark = [pytest.mark.delta, pytest.mark.usefixtures("merged_by")]

# Delta keeps no bounds of text as raw bytes, nor of booleans.
WITH_BOUNDS = tuple(kind for kind in SAMPLES if kind not in ("binary", "boolean"))


class TestDelta(AdapterContract):
    """Column mapping too: a key's name may hold what a Parquet name may not."""

    capabilities = Capabilities(
        row_deletes=True, stores_level=True, row_lineage=True, time_travel=True, native_key=True
    )
    kinds = WITH_BOUNDS

    @pytest.fixture
    def harness(self, spark: SparkSession, tmp_path: Path) -> DeltaHarness:
        properties = {
            "delta.enableDeletionVectors": "true",
            "delta.enableRowTracking": "true",
            "delta.columnMapping.mode": "name",
        }
        return DeltaHarness(spark, tmp_path, properties)


class TestDeltaWithoutDeletionVectors(AdapterContract):
    """What another kind of Delta table reads and keeps in the same way is asked of it on demand only."""

    deep_parts = ("SnapshotContract", "RewriteContract", "StorageContract", "CurveContract")
    capabilities = Capabilities(
        row_deletes=False, stores_level=True, row_lineage=False, time_travel=True, native_key=True
    )
    kinds = WITH_BOUNDS

    @pytest.fixture
    def harness(self, spark: SparkSession, tmp_path: Path) -> DeltaHarness:
        properties = {"delta.enableDeletionVectors": "false", "delta.columnMapping.mode": "name"}
        return DeltaHarness(spark, tmp_path, properties)
