"""A catalog of procedures in a session: plain ``spark.sql`` finds them, and Python carries them out.

    CALL lakekeeper.system.recluster('t')  ─► Spark loads catalog, procedure ─► binds ─► call(row) ─► rows of a scan
                                              └──────── objects of this module, through py4j ────────┘

Spark makes a catalog from the name of a Java class. This one has none, so it is put beside those that Spark made, in a
private map of its catalog manager.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from lakekeeper.spark.callbacks import JavaObject, failing_iterator
from lakekeeper.spark.jvm import Jvm
from lakekeeper.spark.row_values import row_values

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_CONNECTOR = "org.apache.spark.sql.connector"
_PROCEDURES = f"{_CONNECTOR}.catalog.procedures"
SURFACE = {
    f"{_CONNECTOR}.catalog.CatalogManager": {".catalogs"},
    f"{_CONNECTOR}.catalog.ProcedureCatalog": {"loadProcedure/1"},
    f"{_PROCEDURES}.UnboundProcedure": {"bind/1"},
    f"{_PROCEDURES}.BoundProcedure": {"parameters/0", "isDeterministic/0", "call/1"},
    f"{_PROCEDURES}.ProcedureParameter": {"in/2"},
    f"{_CONNECTOR}.read.LocalScan": {"rows/0"},
    "org.apache.spark.sql.catalyst.plans.logical.LocalRelation$": {"apply/4"},
    "org.apache.spark.sql.catalyst.types.DataTypeUtils": {"toAttributes/1"},
}
"""Members of Spark that are not public API, or not in every release line."""

Run = Callable[[Sequence[str], Sequence[tuple[str, Any]]], "DataFrame"]
"""Parts of the procedure's name after the catalog, and its arguments → rows.

An argument is a name, empty for a positional one, and a value."""


class ProcedureCatalog(JavaObject):
    """The catalog. It loads a procedure of any name: for an unknown one, ``run`` raises the better error."""

    class Java:  # noqa: D106 - py4j reads it
        implements = (f"{_CONNECTOR}.catalog.ProcedureCatalog",)

    def __init__(self, jvm: Jvm, name: str, namespace: str, procedures: Sequence[str], run: Run) -> None:
        self._jvm, self._name, self._namespace = jvm, name, namespace
        self._procedures, self._run = procedures, run

    def add_to_session(self) -> None:
        """Replace the session's catalog of this name."""
        _catalogs(self._jvm).put(self._name, self)

    def initialize(self, _name: str, _options: Any) -> None:
        """Nothing: the session's confs are read at each call."""

    def name(self) -> str:
        return self._name

    def defaultNamespace(self) -> Any:  # noqa: N802  # Spark calls it by this name
        return _texts(self._jvm, [self._namespace])

    def loadProcedure(self, identifier: Any) -> _Unbound:  # noqa: N802  # Spark calls it by this name
        return _Unbound(self._jvm, (*map(str, identifier.namespace()), str(identifier.name())), self._run)

    def listProcedures(self, _namespace: Any) -> Any:  # noqa: N802  # Spark calls it by this name
        named = self._jvm.view.org.apache.spark.sql.connector.catalog.Identifier
        namespace = _texts(self._jvm, [self._namespace])
        return self._jvm.array(named, [named.of(namespace, each) for each in self._procedures])


def remove_from_session(jvm: Jvm, name: str) -> None:
    """Remove a catalog that was added; no effect without one."""
    _catalogs(jvm).remove(name)


class _Procedure(JavaObject):
    """A procedure by its name, as Spark's ``Procedure``."""

    def __init__(self, jvm: Jvm, parts: Sequence[str], run: Run) -> None:
        self._jvm, self._parts, self._run = jvm, parts, run

    def name(self) -> str:
        return self._parts[-1]

    def description(self) -> str:
        return f"the maintenance call {self.name()} of lakekeeper"


class _Unbound(_Procedure):
    """A procedure without arguments yet."""

    class Java:
        implements = (f"{_PROCEDURES}.UnboundProcedure",)

    def bind(self, given: Any) -> _Bound:
        return _Bound(self._jvm, self._parts, self._run, given)


class _Bound(_Procedure):
    """A procedure with the arguments of one call: its parameters are what was given, as it was given."""

    class Java:
        implements = (f"{_PROCEDURES}.BoundProcedure",)

    def __init__(self, jvm: Jvm, parts: Sequence[str], run: Run, given: Any) -> None:
        super().__init__(jvm, parts, run)
        self._given = given

    def isDeterministic(self) -> bool:  # noqa: N802  # Spark calls it by this name
        return False

    def parameters(self) -> Any:
        kind = self._jvm.view.org.apache.spark.sql.connector.catalog.procedures.ProcedureParameter
        into = getattr(kind, "in")
        made = [into(str(field.name()), field.dataType()).build() for field in self._given.fields()]
        return self._jvm.array(kind, made)

    def call(self, row: Any) -> Any:
        """An iterator over one scan with the rows of the result; one that throws where the call failed."""
        try:
            found = _Rows(self._run(self._parts, self._arguments(row)))
        except Exception as error:
            return failing_iterator(self._jvm, error)
        return self._jvm.array_list([found]).iterator()

    def _arguments(self, row: Any) -> list[tuple[str, Any]]:
        jvm, fields = self._jvm, list(self._given.fields())
        attributes = jvm.view.org.apache.spark.sql.catalyst.types.DataTypeUtils.toAttributes(self._given)
        relation = jvm.object("org.apache.spark.sql.catalyst.plans.logical.LocalRelation")
        plan = relation.apply(attributes, jvm.seq([row]), False, jvm.none())
        values = row_values(jvm.dataframe(jvm.rows_of_plan(plan))) if fields else []
        by_name = [bool(field.metadata().contains("BY_NAME")) for field in fields]
        return [
            (str(field.name()).lower() if named else "", value)
            for field, named, value in zip(fields, by_name, values, strict=True)
        ]


class _Rows(JavaObject):
    """The rows of a DataFrame as a scan that Spark has nothing left to do for."""

    class Java:
        implements = (f"{_CONNECTOR}.read.LocalScan",)

    def __init__(self, frame: DataFrame) -> None:
        java: Any = frame._jdf
        self._schema = java.schema()
        self._rows = java.queryExecution().executedPlan().executeCollect()

    def readSchema(self) -> Any:  # noqa: N802  # Spark calls it by this name
        return self._schema

    def rows(self) -> Any:
        return self._rows


def _catalogs(jvm: Jvm) -> Any:
    """The private map of a session's catalogs by name."""
    manager = jvm.session.sessionState().catalogManager()
    field = manager.getClass().getDeclaredField("catalogs")
    field.setAccessible(True)
    return field.get(manager)


def _texts(jvm: Jvm, texts: Sequence[str]) -> Any:
    return jvm.array(jvm.view.java.lang.String, texts)
