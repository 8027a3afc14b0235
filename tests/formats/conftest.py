from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.formats.lakes import KINDS, Lake


@pytest.fixture(params=[pytest.param(k, marks=getattr(pytest.mark, k.partition("-")[0])) for k in KINDS])
def lake(request: pytest.FixtureRequest, spark: SparkSession) -> Lake:
    """A lake of each kind in turn."""
    return Lake(spark, request.param)
