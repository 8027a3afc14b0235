"""Spark 4.1, the newest release line: all calls that older release lines make differently."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from lakekeeper.spark.jvm import Jvm

LOCAL = "org.apache.spark.sql.classic"


class Spark41:
    """Calls of Spark 4.1; Java objects have the type ``Any``."""

    line = "4.1"
    session_type = f"{LOCAL}.SparkSession"
    dataset_type = f"{LOCAL}.Dataset"
    placeholder_rules: tuple[str, ...] = ("ReplaceExpressions", "RewriteWithExpression")
    """Optimizer rules that replace placeholder expressions, such as BETWEEN, by their definition."""
    jar_cache = ".ivy2.5.2"
    """Folder of downloaded packages in the user's home directory, unless the conf ``spark.jars.ivy`` names another."""
    parses_call = True
    """Whether Spark's parser has CALL."""

    # ------------------------------------------------------------------------------------------------- PySpark

    def to_arrow(self, frame: DataFrame) -> pa.Table:
        """The rows of a DataFrame as an Arrow table."""
        return frame.toArrow()

    def from_arrow(self, spark: SparkSession, table: pa.Table) -> DataFrame:
        """A DataFrame of the rows of an Arrow table."""
        return spark.createDataFrame(table)

    def metadata_column(self, frame: DataFrame, name: str) -> Column:
        """A metadata column of a scan, even if a column of the table has its name."""
        return frame.metadataColumn(name)

    def try_cast(self, column: Column, kind: str) -> Column:
        """A column cast to a type, given as SQL text; NULL if a value cannot be cast."""
        return column.try_cast(kind)

    def repartition_by_id(self, frame: DataFrame, count: int, number: Column) -> DataFrame:
        """The rows in ``count`` partitions, each in the partition of its ``number``: 0, 1 … ``count`` - 1."""
        return frame.repartitionById(count, number)

    def confs(self, spark: SparkSession) -> dict[str, str]:
        """All confs of a session, by PySpark's own API."""
        return dict(spark.conf.getAll)

    def observed(self, observation: Any) -> Any:
        """The metrics of an observation as a Scala Map, empty until they are available; never waits."""
        return observation._jo.getOrEmpty()

    def silence_errors(self) -> None:
        """Keep PySpark from printing each error that it raises as JSON on stderr."""
        from pyspark.logger import PySparkLogger

        for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
            PySparkLogger.getLogger(name).disabled = True

    # ---------------------------------------------------------------------------------------------------- Java

    def expression(self, jvm: Jvm, column: Any) -> Any:
        """The expression of a Java Column."""
        return jvm.object(f"{LOCAL}.ColumnNodeToExpressionConverter").apply(column.node())

    def column(self, jvm: Jvm, expression: Any) -> Any:
        """A Java Column of an expression."""
        return jvm.java_class(f"{LOCAL}.ExpressionUtils").column(expression)

    def java_confs(self, jvm: Jvm) -> Any:
        """All confs of the session as a java.util.Map."""
        return jvm.session.conf().getAllAsJava()

    def with_relation(self, plan: Any, relation: Any, output: Any) -> Any:
        """A LogicalRelation that reads another relation, with these columns."""
        return plan.copy(relation, output, plan.catalogTable(), plan.isStreaming(), plan.stream())

    def with_output(self, plan: Any, output: Any) -> Any:
        """A DataSourceV2Relation with other columns."""
        return plan.copy(
            plan.table(), output, plan.catalog(), plan.identifier(), plan.options(), plan.timeTravelSpec()
        )

    def cancel_group(self, context: Any, group: str) -> None:
        """Cancel the jobs of a group, and those that its threads might still start."""
        context.cancelJobGroupAndFutureJobs(group)

    # --------------------------------------------------------------------------------------------------- Scala

    def java_collection(self, jvm: Jvm, scala: Any) -> Any:
        """A Scala Seq or Set as a java.util.Collection."""
        return jvm.view.scala.jdk.javaapi.CollectionConverters.asJava(scala)

    def java_map(self, jvm: Jvm, scala: Any) -> Any:
        """A Scala Map as a java.util.Map."""
        return jvm.view.scala.jdk.javaapi.CollectionConverters.asJava(scala)

    def scala_seq(self, jvm: Jvm, items: Any) -> Any:
        """A java.util.List as a Scala Seq."""
        return jvm.view.scala.jdk.javaapi.CollectionConverters.asScala(items).toSeq()

    def wrapped(self, jvm: Jvm, array: Any) -> Any:
        """A Java array of primitive numbers as a Scala Seq, without a copy."""
        return jvm.object("scala.collection.immutable.ArraySeq").unsafeWrapArray(array)
