"""Log stores of Delta on S3, as an operator configures them."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from lakekeeper.spark.jvm import Jvm
from tests.oracles.java_source import define

CONDITIONAL = "stores.ConditionalStore"
_CONF = "spark.delta.logStore.s3a.impl"
_JAVA = Path(__file__).parent / "java"


def use_log_store(spark: SparkSession, name: str) -> None:
    """Write commits on s3a with this class; empty: with Delta's default."""
    if name == CONDITIONAL:
        define(spark, _JAVA / "ConditionalStore.java", beside="io.delta.storage.LogStore")
    conf = spark.sparkContext._jsc.sc().conf()
    conf.set(_CONF, name) if name else conf.remove(_CONF)
    Jvm(spark).view.org.apache.spark.sql.delta.DeltaLog.clearCache()
