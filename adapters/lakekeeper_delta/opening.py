"""Opens a Delta table and returns its adapter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lakekeeper.core.config.options import CONF_PREFIX, resolve
from lakekeeper.core.model.finding import Finding
from lakekeeper.core.vacuum.path_guard import may_be_within
from lakekeeper.errors import AdapterError, LakekeeperError, NotFound, Unsupported, reason
from lakekeeper.spark.catalogs import Place
from lakekeeper.spark.jvm import Jvm, causes
from lakekeeper.spark.library_versions import (
    Versions,
    package_of,
    require_tested,
    version_findings,
    versions_in_session,
)
from lakekeeper.spi import TableName
from lakekeeper_delta import features, log_stores, surface
from lakekeeper_delta.commit import LOST
from lakekeeper_delta.native import Log, protocol_text
from lakekeeper_delta.shims import delta_version
from lakekeeper_delta.table import DeltaTable

_NO_JARS = (
    "the session has no Delta classes: start it with --packages {package}, "
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
        """Whether the error is one of the exceptions with which Delta's conflict checker rejects a commit."""
        return any(name.rpartition(".")[2] in LOST for name, _ in causes(error))

    def keeps_files(
        self,
        spark: Any,
        identifier: TableName,
        tables: Callable[[str], Sequence[Place]],
        allowed: Sequence[str] = (),
    ) -> str:
        """Why the files stay if the catalog drops the name: the table is external.

        Raises AdapterError for a managed table that has a second name or contains another table's folder: dropping it
        would delete the other table's files. Shallow clones are checked by vacuums only.
        """
        if not identifier.catalog:
            return ""
        listed = tables(identifier.catalog)
        own = next((place for place in listed if place.is_named(identifier)), None)
        if own is None:
            raise AdapterError(
                f"{identifier.text}: catalog '{identifier.catalog}' does not list its location"
            )
        if own.external:
            return "it is an external table, of which the catalog drops only the name"
        for other in listed:
            if other is not own and (may_be_within(other.location, own.location)):
                raise AdapterError(
                    f"{identifier.text}: {other} has its files in the same folder, and dropping a managed table "
                    "deletes the folder; drop or move the other table first"
                )
        return ""

    def refused(self, table: str, error: BaseException) -> Unsupported | None:
        """The error to raise for a table that Delta refuses to open; None for any other error."""
        return features.refused(table, error)

    def examine(self, spark: Any) -> list[Finding]:
        """The versions in the session, and for each scheme the log store that Delta writes commits with."""
        try:
            jvm = Jvm(spark)
            if not _is_there(jvm):
                return []  # reported with everything else that the session lacks
            key = CONF_PREFIX + log_stores.OPTION
            single_driver = resolve(conf={key: spark.conf.get(key, None)}).session.single_driver
            return [
                *version_findings(_versions(jvm)),
                *log_stores.findings(jvm, single_driver=single_driver),
            ]
        except Exception as error:
            found = str(error).splitlines()[0]
            return [
                Finding(
                    "delta",
                    ok=False,
                    found=found,
                    expected="a session that responds",
                    advice="start another session",
                )
            ]

    def open(self, spark: Any, identifier: TableName) -> DeltaTable:
        """The adapter of one table, by path or by catalog name.

        Raises NotFound if no Delta log exists, AdapterError if Delta's jars are missing or of an untested version, and
        Unsupported for a feature that is not on the allow-list or that Delta itself rejects.
        """
        jvm = Jvm(spark)
        if not _is_there(jvm):
            raise AdapterError(f"{identifier.text}: {_NO_JARS.format(package=package_of(jvm, 'delta'))}")
        require_tested(jvm, identifier.text, _versions(jvm), lambda: surface.of_session(jvm))
        folder = jvm.view.org.apache.hadoop.fs.Path
        log_path = (lambda: folder(identifier.path, "_delta_log")) if identifier.path else lambda: None
        try:
            with features.refusals(identifier.text, lambda: protocol_text(jvm, log_path())):
                table = load(jvm, identifier)
            opened = DeltaTable(Log(jvm, identifier.text, *table), identifier)
            opened.refuse_unsupported()
        except LakekeeperError:
            raise
        except Exception as error:
            raise AdapterError(f"{identifier.text}: its log cannot be read ({reason(error)})") from error
        return opened


def _versions(jvm: Jvm) -> Versions:
    return versions_in_session(jvm, "Delta Lake", delta_version(jvm), "delta")


def _is_there(jvm: Jvm) -> bool:
    return bool(jvm.view.org.apache.spark.util.Utils.classIsLoadable("org.apache.spark.sql.delta.DeltaLog"))


def load(jvm: Jvm, identifier: TableName) -> tuple[Any, Any]:
    """(DeltaLog, Option of the catalog table)."""
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
        if features.refused(identifier.text, error):
            raise
        raise NotFound(identifier.text, f"no such table ({reason(error)})") from error
    kind = str(table.getClass().getName())
    if kind == "org.apache.spark.sql.delta.catalog.DeltaTableV2":
        return table.deltaLog(), table.catalogTable()
    if kind == "org.apache.spark.sql.connector.catalog.V1Table":
        described = table.catalogTable()
        return delta.DeltaLog.forTable(jvm.session, described), jvm.some(described)
    raise AdapterError(
        f"{identifier.text}: catalog '{identifier.catalog}' returns {kind}, which is not a Delta table of delta-spark"
    )
