"""Locations of the tables of a catalog, needed before any file in a folder may count as an orphan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from lakekeeper.errors import AdapterError
from lakekeeper.spark.jvm import Jvm, causes
from lakekeeper.spark.shims import shim
from lakekeeper.spi import TableName

SESSION_CATALOG = "spark_catalog"
"""The name of Spark's own catalog."""
_SESSION_CATALOGS = (
    "org.apache.spark.sql.connector.catalog.CatalogExtension",
    "org.apache.spark.sql.execution.datasources.v2.V2SessionCatalog",
)
_IN_HIVE = frozenset({"hive", "HiveCatalog"})
_THREADS = 4
_GONE = ("NoSuchTableException", "NoSuchNamespaceException")


@dataclass(frozen=True, slots=True)
class Place:
    """A table and its location; ``declared``: property → location, for the requested properties.

    ``external``: the catalog drops only its name.
    """

    catalog: str
    namespace: tuple[str, ...]
    name: str
    provider: str
    location: str
    declared: Mapping[str, str] = field(default_factory=dict)
    external: bool = False

    def __str__(self) -> str:
        return ".".join(self.steps)

    @property
    def steps(self) -> tuple[str, ...]:
        """Catalog, namespace and name."""
        return (self.catalog, *self.namespace, self.name)

    def is_named(self, name: TableName) -> bool:
        """Whether this is the table of a name, in any case of letters: some catalogs ignore it."""
        steps = (name.catalog, *name.namespace, name.name)
        return [step.lower() for step in self.steps] == [step.lower() for step in steps]


def catalogs(spark: Any) -> tuple[str, ...]:
    """Names of the catalogs that the session's confs define, plus Spark's own."""
    prefix = "spark.sql.catalog."
    steps = (key.removeprefix(prefix) for key in shim().confs(spark) if key.startswith(prefix))
    return tuple(sorted({SESSION_CATALOG, *(name for name in steps if "." not in name)}))


def places(jvm: Jvm, catalog: str, properties: Sequence[str] = ()) -> list[Place]:
    """All tables of a catalog that have a location. Raises AdapterError if the location of one cannot be read."""
    try:
        plugin = jvm.session.sessionState().catalogManager().catalog(catalog)
        if _is_session_catalog(jvm, plugin):
            _require_listed(jvm.spark, catalog)
            return list(_in_bulk(jvm, catalog, properties))
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="lakekeeper-catalog") as pool:
            found = pool.map(
                lambda each: _loaded(plugin, catalog, each, properties), list(identifiers(jvm, plugin))
            )
            return [place for place in found if place is not None]
    except AdapterError:
        raise
    except Exception as error:
        raise AdapterError(
            f"catalog '{catalog}' does not report where its tables are ({_brief(error)})"
        ) from error


def _is_session_catalog(jvm: Jvm, plugin: Any) -> bool:
    """Whether the tables are those of Spark's session catalog, which can return many at a time."""
    from py4j.java_gateway import is_instance_of

    gateway = jvm.spark.sparkContext._gateway
    return any(is_instance_of(gateway, plugin, kind) for kind in _SESSION_CATALOGS)


def _require_listed(spark: Any, catalog: str) -> None:
    """Raise AdapterError for a session catalog whose tables are in another catalog, which it does not list.

    Iceberg's SparkSessionCatalog loads tables from the catalog of its confs and lists those of Spark's session catalog,
    which are the same in a Hive metastore only.
    """
    key = f"spark.sql.catalog.{catalog}"
    confs = shim().confs(spark)
    kind = confs.get(f"{key}.catalog-impl") or confs.get(f"{key}.type") or "hive"
    if confs.get(key, "").endswith(".SparkSessionCatalog") and kind.rpartition(".")[2] not in _IN_HIVE:
        raise AdapterError(
            f"catalog '{catalog}' is a SparkSessionCatalog over '{kind}', which does not list its Iceberg tables; give "
            "them a catalog of their own (org.apache.iceberg.spark.SparkCatalog), or omit orphans"
        )


def _in_bulk(jvm: Jvm, catalog: str, properties: Sequence[str]) -> Iterator[Place]:
    shared = jvm.session.sharedState().externalCatalog()
    for database in jvm.python_list(shared.listDatabases()):
        for table in jvm.python_list(shared.getTablesByName(database, shared.listTables(database))):
            location, provider, given = table.storage().locationUri(), table.provider(), table.properties()
            if location.isEmpty():
                continue  # a view
            found = {name: given.get(name) for name in properties}
            yield Place(
                catalog,
                (str(database),),
                str(table.identifier().table()),
                str(provider.get()).lower() if provider.isDefined() else "",
                str(jvm.view.org.apache.hadoop.fs.Path(location.get()).toString()),
                {name: str(value.get()) for name, value in found.items() if value.isDefined()},
                str(table.tableType().name()) == "EXTERNAL",
            )


def identifiers(jvm: Jvm, plugin: Any) -> Iterator[Any]:
    """Spark's identifiers of all tables, in all namespaces.

    A REST server that ignores the parent in a request answers it with all namespaces again: each is visited once.
    """
    yield from _outside(jvm, plugin)
    left = [tuple(map(str, namespace)) for namespace in plugin.listNamespaces()]
    seen = set(left)
    while left:
        namespace = jvm.array(jvm.view.java.lang.String, left.pop())
        yield from plugin.listTables(namespace)
        below = {tuple(map(str, each)) for each in plugin.listNamespaces(namespace)} - seen
        left += sorted(below)
        seen |= below


def _outside(jvm: Jvm, plugin: Any) -> Iterator[Any]:
    """Identifiers of the tables in no namespace, for catalogs that can have and list such tables."""
    try:
        yield from plugin.listTables(jvm.array(jvm.view.java.lang.String, ()))
    except Exception as error:
        if not any(kind.endswith((*_GONE, "IllegalArgumentException")) for kind, _ in causes(error)):
            raise


def _loaded(plugin: Any, catalog: str, identifier: Any, properties: Sequence[str]) -> Place | None:
    """Load a table; None for one that no longer exists or has no location."""
    namespace, name = tuple(map(str, identifier.namespace())), str(identifier.name())
    try:
        given = plugin.loadTable(identifier).properties()
    except Exception as error:
        if any(kind.endswith(_GONE) for kind, _ in causes(error)):
            return None
        shown = ".".join((catalog, *namespace, name))
        raise AdapterError(f"{shown} does not report its location ({_brief(error)})") from error
    location = given.get("location")
    found = {each: given.get(each) for each in properties}
    declared = {each: str(value) for each, value in found.items() if value}
    provider = str(given.get("provider") or "").lower()
    external = given.get("external") == "true"
    return Place(catalog, namespace, name, provider, str(location), declared, external) if location else None


def _brief(error: Exception) -> str:
    chain = causes(error)
    text = chain[-1][1] if chain else str(error)
    return text.strip().splitlines()[0] if text.strip() else type(error).__name__
