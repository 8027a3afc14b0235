"""Calls that differ between release lines of Spark: one module for each, chosen by the version of PySpark.

    spark_4_1   the newest release line: all of these calls
    spark_4_0   those that Spark 4.0 makes differently from 4.1
    spark_3_5   those that Spark 3.5 makes differently from 4.0

Code outside this package calls the shim and never compares versions.
"""

from __future__ import annotations

from functools import cache

from lakekeeper.spark.lines import nearest_line
from lakekeeper.spark.shims.spark_3_5 import Spark35
from lakekeeper.spark.shims.spark_4_0 import Spark40
from lakekeeper.spark.shims.spark_4_1 import Spark41

__all__ = ["Spark41", "shim"]


@cache
def shim() -> Spark41:
    """The shim of the installed PySpark; for an unknown version, that of the nearest older release line.

    PySpark needs a JVM of its own release line; `lakekeeper.spark.doctor` reports a SPARK_HOME of another one.
    """
    import pyspark

    shims = {each.line: each for each in (Spark41(), Spark40(), Spark35())}
    return shims[nearest_line(pyspark.__version__).name]
