"""Table functions in a session that Python evaluates on the driver, while Spark analyses a query.

    SELECT … FROM f('t')  ─► Spark looks f up ─► arguments as SQL ─► Python ─► a DataFrame ─► its plan in the query

PySpark's own table functions run on executors, which have no session.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from lakekeeper.spark.callbacks import function
from lakekeeper.spark.jvm import Jvm
from lakekeeper.spark.parsed import Argument, arguments_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_CATALYST = "org.apache.spark.sql.catalyst"
SURFACE = {
    f"{_CATALYST}.analysis.TableFunctionRegistry": {"registerFunction/3", "dropFunction/1"},
    f"{_CATALYST}.FunctionIdentifier": {"new/1"},
    f"{_CATALYST}.expressions.ExpressionInfo": {"new/2"},
}
"""Members of Spark that are not public API."""


def register(jvm: Jvm, name: str, body: Callable[[Sequence[Argument]], DataFrame]) -> None:
    """Register a temporary table function; it replaces one of this name."""

    def plan(expressions: Any) -> Any:
        frame: Any = body(arguments_of(jvm, expressions))
        return frame._jdf.logicalPlan()

    info = jvm.view.org.apache.spark.sql.catalyst.expressions.ExpressionInfo("lakekeeper", name)
    _registry(jvm).registerFunction(_identifier(jvm, name), info, function(jvm, plan))


def drop(jvm: Jvm, name: str) -> None:
    """Drop a table function; no effect without one."""
    _registry(jvm).dropFunction(_identifier(jvm, name))


def _registry(jvm: Jvm) -> Any:
    return jvm.session.sessionState().tableFunctionRegistry()


def _identifier(jvm: Jvm, name: str) -> Any:
    return jvm.view.org.apache.spark.sql.catalyst.FunctionIdentifier(name)
