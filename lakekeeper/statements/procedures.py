"""``CALL lakekeeper.system.<procedure>(table => 't', …)``: the calls of a table, with their own parameters.

A procedure has the name of a method of :class:`lakekeeper.api.Table`. Its parameters are ``table``, then those of the
method in the same order; only ``observer`` has no counterpart in SQL. Arguments are positional or named constants.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from lakekeeper.api import Table, table
from lakekeeper.arguments import columns_and_layout
from lakekeeper.core.config.options import overridden
from lakekeeper.errors import OptionError
from lakekeeper.spark.parsed import Node, arguments, dotted, evaluated, parse, table_parts
from lakekeeper.spi import Observer
from lakekeeper.statements import recorded
from lakekeeper.statements import result_rows as rows
from lakekeeper.statements.sql_text import text_of, tokens

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAMESPACE = ("lakekeeper", "system")
OWN_CATALOG = f"spark.sql.catalog.{NAMESPACE[0]}"
"""The conf of a user's catalog with our name, such as that of the REST catalog Lakekeeper."""
_OBSERVER = "observer"
_TABLE_NAME = "a table name as text, such as 'catalog.namespace.table'"


Frame = Callable[["SparkSession", Any], "DataFrame"]


@dataclass(frozen=True, slots=True)
class Procedure:
    """A method of a table as a procedure: its name, and how its result becomes rows.

    ``fleet`` is the function behind a call without a table, if there is one. ``nullable`` is the parameter for which
    NULL is a value, if there is one.
    """

    method: str
    frame: Frame
    fleet: Callable[..., Any] | None = None
    nullable: str = ""

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters, the table first."""
        return ("table", *(each.name for each in self._own))

    @property
    def required(self) -> tuple[str, ...]:
        """Names of the parameters without a default."""
        single = (each for each in self._own if each.kind is not each.VAR_POSITIONAL)
        own = tuple(each.name for each in single if each.default is each.empty)
        return own if self.fleet else ("table", *own)

    @property
    def _own(self) -> list[inspect.Parameter]:
        own = inspect.signature(getattr(Table, self.method)).parameters
        return [each for name, each in own.items() if name not in ("self", _OBSERVER)]


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a procedure, and its arguments: a name (empty for a positional one) and a value for each."""

    name: str
    given: Sequence[tuple[str, Any]]


def _one(columns: rows.Columns) -> Frame:
    return lambda spark, result: rows.as_frame(spark, columns, (result,))


def _each(columns: rows.Columns) -> Frame:
    return lambda spark, results: rows.as_frame(spark, columns, results)


PROCEDURES: Mapping[str, Procedure] = {
    procedure.method: procedure
    for procedure in (
        Procedure("recluster", _one(rows.MERGE)),
        Procedure("compact", _one(rows.MERGE)),
        Procedure("merge_deletes", _one(rows.MERGE)),
        Procedure("build_filters", _one(rows.MERGE)),
        Procedure("vacuum", _one(rows.VACUUM)),
        Procedure("compact_metadata", _one(rows.METADATA)),
        Procedure("compute_statistics", _one(rows.STATISTICS)),
        Procedure("cluster_by", _one(rows.KEY), nullable="columns"),
        Procedure("delete", _one(rows.DELETE)),
        Procedure("drop_partition", _one(rows.DELETE)),
        Procedure("expire_rows", _one(rows.LIFECYCLE)),
        Procedure("trash", _each(rows.TRASH)),
        Procedure("restore", _one(rows.RESTORE)),
        Procedure("undo", _one(rows.UNDO)),
        Procedure("empty_trash", _each(rows.TRASH)),
        Procedure("streams", _one(rows.STREAMS)),
        Procedure("clustering_information", _one(rows.INFORMATION)),
        Procedure("clustering_depth", _one(rows.DEPTH)),
        Procedure("advise", _one(rows.ADVICE)),
        Procedure("blocks", lambda _, frame: frame),
        Procedure("plan", lambda spark, plan: plan.to_frame(spark)),
        Procedure("history", lambda spark, history: history.to_frame(spark), recorded.history),
        Procedure("cost", lambda spark, costs: costs.to_frame(spark), recorded.cost),
    )
}


def called(plan: Node) -> Call | None:
    """The call of one of our procedures; None for another statement.

    Raises OptionError for an unknown procedure, unless the user has a catalog ``lakekeeper``, which may have
    that procedure.
    """
    if plan.kind != "Call":
        return None
    named = plan.child("procedure")
    parts = named.strings("nameParts") if named.kind == "UnresolvedProcedure" else ()
    if not _is_ours(plan.jvm.spark, parts):
        return None
    return Call(procedure_name(parts[1:]), evaluated(plan.jvm.spark, arguments(plan, "args")))


def called_in_text(spark: SparkSession, statement: str) -> Call | None:
    """As :func:`called`, on Spark 3.5, which has no CALL: the arguments are parsed as those of a table function."""
    words = [word for word in tokens(statement) if not word.is_sign(";")]
    begin = next((at for at, word in enumerate(words) if word.is_sign("(")), 0)
    if begin < 2 or not words[0].says("CALL") or not words[-1].is_sign(")"):
        return None
    parts = table_parts(spark, text_of(statement, words[1:begin]))
    if not _is_ours(spark, parts):
        return None
    arguments_text = text_of(statement, words[begin:])
    select = parse(spark, f"SELECT * FROM called{arguments_text}")  # noqa: S608 - it is parsed, and not run
    [function] = [node for node in select.walk() if node.kind == "UnresolvedTableValuedFunction"]
    return Call(procedure_name(parts[1:]), evaluated(spark, arguments(function, "functionArgs")))


def _is_ours(spark: SparkSession, parts: Sequence[str]) -> bool:
    """Whether a procedure of this name is lakekeeper's, known or not."""
    if tuple(part.lower() for part in parts[:2]) != NAMESPACE:
        return False
    return parts[-1].lower() in PROCEDURES or spark.conf.get(OWN_CATALOG, None) is None


def procedure_name(parts: Sequence[str]) -> str:
    """The procedure that the parts of a name after ``lakekeeper`` mean. Raises OptionError for an unknown one."""
    namespace, *rest = (part.lower() for part in parts)
    name = ".".join(rest)
    if namespace != NAMESPACE[1] or name not in PROCEDURES:
        raise OptionError("CALL", ".".join((NAMESPACE[0], *parts)), _one_of(name))
    return name


def run_call(
    spark: SparkSession, call: Call, observer: Observer | None, options: Mapping[str, Any] | None
) -> DataFrame:
    """Carry out a call. Raises OptionError for arguments that do not fit, else what the method raises."""
    procedure = PROCEDURES[call.name]
    given = bound(procedure, call.given)
    if procedure.fleet is not None and "table" not in given:
        return procedure.frame(spark, procedure.fleet(spark, **given))
    opened = table(spark, _table_name(spark, call.name, given.pop("table", None)))
    method = getattr(opened, procedure.method)
    if _OBSERVER in inspect.signature(method).parameters:
        given[_OBSERVER] = observer
    if options and "options" in procedure.parameters:
        given["options"] = overridden(options, given.get("options", {}))
    result = _cluster_by(method, given) if procedure.method == "cluster_by" else method(**given)
    return procedure.frame(spark, result)


def bound(procedure: Procedure, given: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Parameter → value.

    Raises OptionError for a parameter that is unknown, given twice, missing or NULL, and for too many arguments.
    """
    name, parameters = procedure.method, procedure.parameters
    found: dict[str, Any] = {}
    for number, (named, value) in enumerate(given):
        if not named and number >= len(parameters):
            raise OptionError(name, value, f"at most {len(parameters)} arguments: {', '.join(parameters)}")
        parameter = named or parameters[number]
        if parameter not in parameters:
            raise OptionError(
                f"{name}({parameter} => …)", value, f"a parameter of {name}: {', '.join(parameters)}"
            )
        if parameter in found:
            raise OptionError(f"{name}({parameter} => …)", value, "each parameter once")
        found[parameter] = _python(value)
    for parameter in dict.fromkeys((*procedure.required, *found)):
        _require_value(procedure, parameter, found.get(parameter))
    return found


def _require_value(procedure: Procedure, parameter: str, value: Any) -> None:
    """Raise OptionError for NULL, also in an array or a map: it would count as if nothing had been given."""
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    if parameter == procedure.nullable and value is None:
        return
    if value is None or any(each is None for each in inner):
        if parameter == "table":
            expected = _TABLE_NAME
        elif parameter in procedure.required:
            expected = f"a value, which {procedure.method} needs"
        else:
            expected = "a value without NULL; to get the default, leave the argument out"
        raise OptionError(f"{procedure.method}({parameter} => …)", value, expected)


def _python(value: Any) -> Any:
    """A value of Spark converted for the calls: in SQL, ``0.5`` is a decimal."""
    return float(value) if isinstance(value, Decimal) else value


def _table_name(spark: SparkSession, name: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise OptionError(f"{name}(table => …)", value, _TABLE_NAME)
    return value if "/" in value else dotted(table_parts(spark, value))


def _cluster_by(method: Callable[..., Any], given: dict[str, Any]) -> Any:
    """``columns`` as an array or as text, which may name a layout; NULL removes the key."""
    if "columns" not in given:
        raise OptionError("cluster_by(columns => …)", None, "column names, or NULL to remove the key")
    columns, layout = columns_and_layout(given.pop("columns"))
    if layout != "linear" and given.setdefault("layout", layout) != layout:
        raise OptionError(
            "cluster_by(layout => …)", given["layout"], f"{layout}, as in columns, or no layout"
        )
    return method(*(columns or (None,)), **given)


def _one_of(name: str) -> str:
    close = get_close_matches(name, PROCEDURES, 1)
    hint = f"; did you mean {close[0]}?" if close else ""
    return f"one of lakekeeper.system.{{{', '.join(PROCEDURES)}}}{hint}"
