"""Spark 3.5: PySpark's API has no Arrow tables, there is no package ``classic``, and Scala is 2.12."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakekeeper.spark.shims.spark_4_0 import Spark40

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from lakekeeper.spark.jvm import Jvm


class Spark35(Spark40):
    """Calls of Spark 3.5 that differ from Spark 4.0."""

    line = "3.5"
    session_type = "org.apache.spark.sql.SparkSession"
    dataset_type = "org.apache.spark.sql.Dataset"
    placeholder_rules = ("ReplaceExpressions",)
    jar_cache = ".ivy2"
    parses_call = False

    # ------------------------------------------------------------------------------------------------- PySpark

    def to_arrow(self, frame: DataFrame) -> pa.Table:
        from pyspark.sql.pandas.types import to_arrow_schema

        classic: Any = frame
        batches = classic._collect_as_arrow()
        schema = to_arrow_schema(frame.schema)
        return pa.Table.from_batches(batches, batches[0].schema if batches else schema).cast(schema)

    def from_arrow(self, spark: SparkSession, table: pa.Table) -> DataFrame:
        """Through an Arrow stream in a file, as PySpark does for pandas DataFrames, which have fewer types."""
        from pyspark.sql import DataFrame
        from pyspark.sql.pandas.serializers import ArrowStreamSerializer
        from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

        schema = from_arrow_schema(table.schema)
        batches = table.cast(to_arrow_schema(schema)).to_batches(max_chunksize=10_000)
        java: Any = spark._jvm
        stream = spark._sc._serialize_to_jvm(
            batches,
            ArrowStreamSerializer(),
            java.PythonSQLUtils.readArrowStreamFromFile,
            java.ArrowIteratorServer,
        )
        frame = java.PythonSQLUtils.toDataFrame(stream, schema.json(), spark._jsparkSession)
        return DataFrame(frame, spark)

    def metadata_column(self, frame: DataFrame, name: str) -> Column:
        return _column(frame._jdf.metadataColumn(name))

    def try_cast(self, column: Column, kind: str) -> Column:
        from pyspark import SparkContext

        java: Any = SparkContext._active_spark_context._jvm  # type: ignore[union-attr]  # a Column needs one
        expressions = java.org.apache.spark.sql.catalyst.expressions
        of_type = java.org.apache.spark.sql.types.DataType.fromDDL(kind)
        mode = expressions.EvalMode.TRY()
        classic: Any = column
        cast = expressions.Cast(classic._jc.expr(), of_type, java.scala.Option.empty(), mode)
        return _column(java.org.apache.spark.sql.Column(cast))

    def confs(self, spark: SparkSession) -> dict[str, str]:
        """PySpark 3.5 lists no confs."""
        java: Any = spark._jvm
        found = java.scala.collection.JavaConverters.mapAsJavaMap(spark._jsparkSession.conf().getAll())
        return {str(key): str(value) for key, value in dict(found).items()}

    def observed(self, observation: Any) -> Any:
        """The only public method waits for the metrics, forever if the query did not run."""
        made = observation._jo
        metrics = made.getClass().getDeclaredField("metrics")
        metrics.setAccessible(True)
        found = metrics.get(made)
        return found.get() if found.isDefined() else observation._jvm.PythonUtils.toScalaMap({})

    def silence_errors(self) -> None:
        """Spark 3.5 prints no errors."""

    # ---------------------------------------------------------------------------------------------------- Java

    def expression(self, jvm: Jvm, column: Any) -> Any:
        return column.expr()

    def column(self, jvm: Jvm, expression: Any) -> Any:
        return jvm.view.org.apache.spark.sql.Column(expression)

    def java_confs(self, jvm: Jvm) -> Any:
        return self.java_map(jvm, jvm.session.conf().getAll())

    def with_relation(self, plan: Any, relation: Any, output: Any) -> Any:
        return plan.copy(relation, output, plan.catalogTable(), plan.isStreaming())

    def cancel_group(self, context: Any, group: str) -> None:
        """Spark 3.5 can only cancel the jobs that were started."""
        context.cancelJobGroup(group)

    # --------------------------------------------------------------------------------------------------- Scala

    def java_collection(self, jvm: Jvm, scala: Any) -> Any:
        return jvm.view.scala.collection.JavaConverters.asJavaCollection(scala)

    def java_map(self, jvm: Jvm, scala: Any) -> Any:
        return jvm.view.scala.collection.JavaConverters.mapAsJavaMap(scala)

    def scala_seq(self, jvm: Jvm, items: Any) -> Any:
        return jvm.view.scala.collection.JavaConverters.asScalaBuffer(items).toSeq()

    def wrapped(self, jvm: Jvm, array: Any) -> Any:
        return jvm.object("scala.collection.mutable.WrappedArray").make(array)


def _column(java: Any) -> Column:
    """A PySpark Column around a Java Column."""
    from pyspark.sql import Column

    wrap: Any = Column  # the newer PySpark, whose types are checked, has no such constructor
    made: Column = wrap(java)
    return made
