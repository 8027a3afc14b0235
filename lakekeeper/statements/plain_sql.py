"""Plain ``spark.sql``: procedures, table functions and views of lakekeeper in a session. Experimental.

CALL lakekeeper.system.recluster('t')        a catalog of procedures
SELECT * FROM lakekeeper_plan('t')           table functions
SELECT * FROM lakekeeper_history             temporary views of all tables, in a session with a history

They belong to this session alone: a session from ``newSession()`` does not have them. They depend on members of Spark
that are not public API; a Spark without one is refused with an error that names the member.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from lakekeeper.core.config.options import CONF_PREFIX, set_by
from lakekeeper.errors import AdapterError, OptionError
from lakekeeper.spark import call_catalog, function_registry
from lakekeeper.spark.call_catalog import ProcedureCatalog
from lakekeeper.spark.callbacks import listen_for_callbacks
from lakekeeper.spark.confs import lakekeeper_confs
from lakekeeper.spark.jvm import Jvm
from lakekeeper.spark.parsed import Argument, evaluated
from lakekeeper.spark.surface import joined, missing_members
from lakekeeper.statements.procedures import (
    NAMESPACE,
    OWN_CATALOG,
    PROCEDURES,
    Call,
    procedure_name,
    run_call,
)
from lakekeeper.statements.recorded import is_configured
from lakekeeper.statements.table_functions import FUNCTIONS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ENABLED = CONF_PREFIX + "sql.call.enabled"
VIEWS = ("lakekeeper_history", "lakekeeper_cost")
_CATALOG, _SYSTEM = NAMESPACE


def is_enabled(spark: SparkSession) -> bool:
    """Whether the session's conf enables them. Raises OptionError for a value that is neither true nor false."""
    return bool(set_by(lakekeeper_confs(spark), "sql.call.enabled"))


def add_statements(spark: SparkSession) -> None:
    """Add them to a session; a second call has no effect.

    Raises AdapterError if Spark lacks a member that they need, OptionError if the session has a catalog of this name.
    """
    jvm = Jvm(spark)
    _require(jvm)
    listen_for_callbacks(jvm)
    ProcedureCatalog(jvm, _CATALOG, _SYSTEM, tuple(PROCEDURES), _run(spark)).add_to_session()
    for name in FUNCTIONS:
        function_registry.register(jvm, name, _evaluate(spark, name))
    for name in VIEWS if is_configured(spark) else ():
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {name} AS SELECT * FROM {name}()")  # noqa: S608 - our own names


def remove_statements(spark: SparkSession) -> None:
    """Remove them from a session; without effect if it does not have them."""
    jvm = Jvm(spark)
    for name in VIEWS:
        spark.catalog.dropTempView(name)
    for name in FUNCTIONS:
        function_registry.drop(jvm, name)
    call_catalog.remove_from_session(jvm, _CATALOG)


def _require(jvm: Jvm) -> None:
    lacking = missing_members(jvm, joined(call_catalog.SURFACE, function_registry.SURFACE))
    if lacking:
        raise AdapterError(
            f"{ENABLED}=true: Spark {jvm.spark.version} lacks {lacking[0]}, which CALL in spark.sql needs. "
            "Use lakekeeper.sql(spark, …), or set the conf to false"
        )
    if jvm.spark.conf.get(OWN_CATALOG, None) is not None:
        raise OptionError(
            ENABLED,
            "true",
            f"a session without a catalog named {_CATALOG}, and {OWN_CATALOG} is set: give that catalog another "
            "name, or use lakekeeper.sql(spark, …)",
        )


def _run(spark: SparkSession) -> Callable[[Sequence[str], Sequence[tuple[str, Any]]], DataFrame]:
    return lambda parts, given: run_call(spark, Call(procedure_name(parts), given), None, None)


def _evaluate(spark: SparkSession, name: str) -> Callable[[Sequence[Argument]], DataFrame]:
    return lambda given: run_call(spark, Call(FUNCTIONS[name], evaluated(spark, given)), None, None)
