"""Opens an Iceberg table of any Spark catalog and returns its adapter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lakekeeper.core.model.finding import Finding
from lakekeeper.errors import AdapterError, Unsupported
from lakekeeper.spark.catalogs import Place
from lakekeeper.spark.library_versions import (
    Versions,
    package_of,
    require_tested,
    version_findings,
    versions_in_session,
)
from lakekeeper.spi import TableName
from lakekeeper_iceberg import foreign_tables, nessie, purge, surface
from lakekeeper_iceberg.commit import is_lost_race
from lakekeeper_iceberg.features import refused, unreadable
from lakekeeper_iceberg.native import Iceberg
from lakekeeper_iceberg.table import IcebergTable

_EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"


class IcebergFormat:
    """Satisfies ``spi.Format``."""

    name = "iceberg"

    def refused(self, table: str, error: BaseException) -> Unsupported | None:
        """Unsupported if the error is Iceberg's exception for metadata that it cannot read; else None."""
        return refused(table, error)

    def examine(self, spark: Any) -> list[Finding]:
        """The versions of Iceberg and Spark in the session."""
        try:
            jvm = Iceberg(spark)
            return version_findings(_versions(jvm)) if _is_there(jvm) else []
        except Exception as error:
            found = str(error).splitlines()[0]
            advice = "start another session"
            return [
                Finding("iceberg", ok=False, found=found, expected="a session that responds", advice=advice)
            ]

    def open(self, spark: Any, identifier: TableName) -> IcebergTable:
        """The adapter of a table. Raises NotFound, Unsupported, or AdapterError if the jar is missing or untested."""
        jvm = Iceberg(spark)
        if not _is_there(jvm):
            raise AdapterError(
                f"{identifier.text}: the session has no Iceberg classes: start it with "
                f"--packages {package_of(jvm, 'iceberg')} and --conf spark.sql.extensions={_EXTENSIONS}"
            )
        require_tested(jvm, identifier.text, _versions(jvm), lambda: surface.of_session(jvm))
        try:
            table = jvm.load(identifier.sql)
        except Exception as error:
            raise unreadable(identifier.text, error) from error
        opened = IcebergTable(jvm, identifier, table)
        opened.check()
        return opened

    def keeps_files(
        self,
        spark: Any,
        identifier: TableName,
        tables: Callable[[str], Sequence[Place]],
        allowed: Sequence[str] = (),
    ) -> str:
        """Why the files must stay if the catalog drops the name.

        For example ``gc.enabled=false``, Nessie, a second name, a second catalog, or files outside its location.
        """
        jvm = Iceberg(spark)
        try:
            table = jvm.load(identifier.sql)
        except Exception as error:
            raise unreadable(identifier.text, error) from error
        refused = nessie.keeps_files(table.operations(), jvm.text_map(table.properties()))
        if refused:
            return refused
        other = foreign_tables.same_table(jvm, identifier, table, tables(identifier.catalog))
        if other:
            return f"{other} is the same table"
        return purge.why_not(IcebergTable(jvm, identifier, table), identifier, tables, allowed)

    def lost_race(self, error: BaseException) -> bool:
        """Whether the error is a commit conflict reported by Iceberg, and not one that leaves the outcome unknown."""
        return is_lost_race(error)


def _versions(jvm: Iceberg) -> Versions:
    iceberg = str(jvm.static("org.apache.iceberg.IcebergBuild", "version")())
    return versions_in_session(jvm, "Iceberg", iceberg, "iceberg")


def _is_there(jvm: Iceberg) -> bool:
    return bool(jvm.view.org.apache.spark.util.Utils.classIsLoadable("org.apache.iceberg.spark.Spark3Util"))
