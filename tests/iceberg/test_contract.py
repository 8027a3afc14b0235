"""The contract of an adapter, for Iceberg tables of format 2 and 3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import pytest
from pyspark.sql import SparkSession

from lakekeeper.spi import Capabilities
from lakekeeper.testing.contract import AdapterContract
from lakekeeper.testing.samples import SAMPLES
from tests.contract.iceberg import IcebergHarness

pytestmark = [pytest.mark.iceberg, pytest.mark.usefixtures("merged_by")]


_COARSE = {
    "test_outputs_are_sorted_cut_and_disjoint": "Iceberg's writer looks at its targets every 1,000 rows"
}
_EVERY = Capabilities(
    row_deletes=True, stores_level=True, row_lineage=True, time_travel=True, native_key=True
)


class TestFormat3(AdapterContract):
    capabilities = _EVERY
    kinds = tuple(SAMPLES)
    notyet: ClassVar[Mapping[str, str]] = _COARSE

    @pytest.fixture
    def harness(self, spark: SparkSession) -> IcebergHarness:
        return IcebergHarness(spark, 3)


class TestFormat2(AdapterContract):
    """What it reads and keeps as format 3 does is asked of it on demand only."""

    deep_parts = ("SnapshotContract", "RewriteContract", "StorageContract", "CurveContract")
    capabilities = Capabilities(
        row_deletes=True, stores_level=True, row_lineage=False, time_travel=True, native_key=True
    )
    kinds = tuple(SAMPLES)
    notyet: ClassVar[Mapping[str, str]] = _COARSE

    @pytest.fixture
    def harness(self, spark: SparkSession) -> IcebergHarness:
        return IcebergHarness(spark, 2)
