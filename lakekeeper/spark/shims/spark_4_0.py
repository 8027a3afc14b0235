"""Spark 4.0: rows cannot name their partition, and relations have no time travel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakekeeper.spark.shims.hashed_numbers import hashed_to
from lakekeeper.spark.shims.spark_4_1 import Spark41

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class Spark40(Spark41):
    """Calls of Spark 4.0 that differ from Spark 4.1."""

    line = "4.0"

    def repartition_by_id(self, frame: DataFrame, count: int, number: Column) -> DataFrame:
        """Spark 4.0 hashes the partition column, so each number is replaced by one whose hash selects its partition."""
        from pyspark.sql import functions as F

        numbers = F.array(*[F.lit(int(each)) for each in hashed_to(count)])
        return frame.repartition(count, F.get(numbers, number))

    def with_output(self, plan: Any, output: Any) -> Any:
        return plan.copy(plan.table(), output, plan.catalog(), plan.identifier(), plan.options())
