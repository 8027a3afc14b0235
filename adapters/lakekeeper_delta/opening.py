"""Find a Delta table and hand out its adapter."""

from __future__ import annotations

from typing import Any

from lakekeeper.errors import AdapterError, NotFound, reason
from lakekeeper.spark.jvm import Jvm, causes
from lakekeeper.spi import TableName
from lakekeeper_delta.commit import LOST
from lakekeeper_delta.native import Log
from lakekeeper_delta.table import DeltaTable

_NO_JARS = (
    "the session has no Delta classes: start it with --packages io.delta:delta-spark_4.1_2.13:4.3.1, "
    "--conf spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension and "
    "--conf spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog"
)


class DeltaFormat:
    """Satisfies ``spi.Format``."""

    @property
    def name(self) -> str:
        """The provider's name in Spark's catalogs."""
        return "delta"

    def lost_race(self, error: BaseException) -> bool:
        """Is it one of the exceptions by which Delta's conflict checker refuses a commit?"""
        return any(name.rpartition(".")[2] in LOST for name, _ in causes(error))

    def open(self, spark: Any, identifier: TableName) -> DeltaTable:
        """The adapter of one table, by path or by catalog name.

        Raises NotFound where there is no Delta log, AdapterError without Delta's jars, and Unsupported for a
        feature that is not on the allow-list.
        """
        jvm = Jvm(spark)
        if not jvm.view.org.apache.spark.util.Utils.classIsLoadable("org.apache.spark.sql.delta.DeltaLog"):
            raise AdapterError(f"{identifier.text}: {_NO_JARS}")
        table = _load(jvm, identifier)
        log = Log(jvm, identifier.text, *table)
        opened = DeltaTable(log, identifier)
        opened.refuse_unsupported()
        return opened


def _load(jvm: Jvm, identifier: TableName) -> tuple[Any, Any]:
    """(DeltaLog, Option of the catalog's table)."""
    delta = jvm.view.org.apache.spark.sql.delta
    if identifier.path:
        return delta.DeltaLog.forTable(jvm.session, identifier.path), jvm.none()
    catalog = jvm.session.sessionState().catalogManager().catalog(identifier.catalog)
    place = jvm.view.org.apache.spark.sql.connector.catalog.Identifier.of(
        jvm.array(jvm.view.java.lang.String, identifier.namespace), identifier.name
    )
    try:
        table = catalog.loadTable(place)
    except Exception as error:
        raise NotFound(identifier.text, f"no such table ({reason(error)})") from error
    kind = str(table.getClass().getName())
    if kind == "org.apache.spark.sql.delta.catalog.DeltaTableV2":
        return table.deltaLog(), table.catalogTable()
    if kind == "org.apache.spark.sql.connector.catalog.V1Table":
        described = table.catalogTable()
        return delta.DeltaLog.forTable(jvm.session, described), jvm.some(described)
    raise AdapterError(
        f"{identifier.text}: catalog '{identifier.catalog}' hands out {kind}, which is no Delta table of delta-spark"
    )
