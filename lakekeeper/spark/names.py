"""Which table a text means, and what format it is: asked of Spark's own catalogs, never guessed."""

from __future__ import annotations

import fnmatch
from typing import Any

from lakekeeper.core.keys import quote
from lakekeeper.errors import AdapterError, NotFound, OptionError
from lakekeeper.spark.jvm import Jvm, causes
from lakekeeper.spi import TableName

DROPPED = "__lakekeeper_trash_"
"""In the names of tables that were dropped and can come back."""


def resolve(spark: Any, text: str) -> TableName:
    """The table that ``text`` names: ``cat.db.t``, ``db.t``, ``t``, ``delta.`/path```, or a path.

    Raises NotFound where there is none or it is a view, AdapterError on a Connect session.
    """
    jvm = Jvm(spark)
    if "/" in text and "`" not in text:
        return _by_path(jvm, text, text)
    try:
        parts = list(jvm.python_list(jvm.session.sessionState().sqlParser().parseMultipartIdentifier(text)))
    except Exception as error:
        raise OptionError(
            "table", text, "a table name such as catalog.db.table, or a path with a slash"
        ) from error
    if len(parts) == 2 and "/" in parts[1]:
        if parts[0].lower() not in ("delta", "iceberg"):
            return TableName(text, parts[0].lower(), text, path=parts[1])  # no adapter: the registry says so
        return _by_path(jvm, text, parts[1], parts[0].lower())
    return _by_name(jvm, text, parts)


def _by_path(jvm: Jvm, text: str, path: str, provider: str = "") -> TableName:
    location = jvm.view.org.apache.hadoop.fs.Path(path)
    files = location.getFileSystem(jvm.session.sessionState().newHadoopConf())

    def has(child: str) -> bool:
        return bool(files.exists(jvm.view.org.apache.hadoop.fs.Path(location, child)))

    if has("_delta_log") and provider in ("", "delta"):
        full = str(files.makeQualified(location).toString())
        return TableName(text, "delta", f"delta.{_quoted(full)}", path=full)
    if has("metadata") and provider in ("", "iceberg"):
        raise NotFound(text, "an Iceberg table is reached through a catalog: name it catalog.namespace.table")
    raise NotFound(text, "no table at this path (no _delta_log folder in it)")


def _by_name(jvm: Jvm, text: str, parts: list[str]) -> TableName:
    manager = jvm.session.sessionState().catalogManager()
    catalog, rest = (
        (parts[0], parts[1:]) if _is_catalog(jvm, parts) else (str(manager.currentCatalog().name()), parts)
    )
    namespace = rest[:-1] if len(rest) > 1 else _current_namespace(manager, catalog)
    _refuse_view(jvm, text)
    identifier = jvm.view.org.apache.spark.sql.connector.catalog.Identifier.of(
        jvm.array(jvm.view.java.lang.String, namespace), rest[-1]
    )
    try:
        table = manager.catalog(catalog).loadTable(identifier)
    except Exception as error:
        if _is_view(manager, catalog, identifier):
            raise NotFound(text, "is a view: name the table under it") from error
        told = causes(error)
        detail = (told[0][1] if told else str(error)).splitlines()[0]
        raise NotFound(text, f"no such table ({detail})") from error
    if len(namespace) > 1 and not manager.catalog(catalog).namespaceExists(identifier.namespace()):
        owner = ".".join((catalog, *namespace))
        raise NotFound(text, f"is a part of a table (metadata, branch or tag): name the table, {owner}")
    provider = str(table.properties().get("provider") or "").lower()
    if not provider:
        raise AdapterError(f"{text}: catalog '{catalog}' does not say what format the table has")
    sql = ".".join(_quoted(step) for step in (catalog, *namespace, rest[-1]))
    return TableName(text, provider, sql, catalog, tuple(namespace), rest[-1])


def aliases(spark: Any, name: TableName) -> tuple[str, ...]:
    """All that executed plans may call a table: its path; its name with and without catalog, and its location."""
    if name.path:
        return (name.path,)
    steps = (*name.namespace, name.name)
    found = [".".join((name.catalog, *steps)), ".".join(steps)]
    jvm = Jvm(spark)
    identifier = jvm.view.org.apache.spark.sql.connector.catalog.Identifier.of(
        jvm.array(jvm.view.java.lang.String, name.namespace), name.name
    )
    loaded = jvm.session.sessionState().catalogManager().catalog(name.catalog).loadTable(identifier)
    location = loaded.properties().get("location")
    return (*found, str(location)) if location else tuple(found)


def _is_catalog(jvm: Jvm, parts: list[str]) -> bool:
    if len(parts) < 2:
        return False
    known = jvm.session.sessionState().catalogManager().isCatalogRegistered(parts[0])
    return bool(known) or parts[0] == "spark_catalog"


def _current_namespace(manager: Any, catalog: str) -> list[str]:
    if str(manager.currentCatalog().name()) != catalog:
        return []
    return [str(step) for step in manager.currentNamespace()]


def _refuse_view(jvm: Jvm, text: str) -> None:
    catalog = jvm.spark.catalog
    try:
        found = catalog.getTable(text)
    except Exception:  # unknown to this lookup: loadTable tells what is wrong with better words
        return
    if found.isTemporary or found.tableType == "VIEW":
        raise NotFound(text, "is a view: name the table under it")


def _is_view(manager: Any, catalog: str, identifier: Any) -> bool:
    try:
        return manager.catalog(catalog).loadView(identifier) is not None
    except Exception:  # no such view, or a catalog that has none at all
        return False


def _quoted(step: str) -> str:
    return "`" + step.replace("`", "``") + "`"


def expand(spark: Any, patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Table names for names and patterns (``ice.db.*``, ``*`` also within a step), sorted, each once.

    A plain name stays as it is, whether it exists or not, so that a misspelt one is reported. Patterns
    need catalog and namespace: ``catalog.namespace.pattern``; the namespace may be a pattern too.
    """
    names: list[str] = []
    for pattern in patterns:
        names += [pattern] if "*" not in pattern or "/" in pattern else _matching(spark, pattern)
    return tuple(dict.fromkeys(names))


def _matching(spark: Any, pattern: str) -> list[str]:
    steps = pattern.split(".")
    if len(steps) == 2:
        steps = [spark.catalog.currentCatalog(), *steps]
    if len(steps) != 3:
        raise OptionError("tables", pattern, "catalog.namespace.pattern, e.g. ice.db.*")
    catalog, namespace, name = steps
    spaces = spark.sql(f"SHOW NAMESPACES IN {_quoted(catalog)}").collect()
    found = []
    for space in sorted(row[0] for row in spaces if fnmatch.fnmatchcase(row[0], namespace)):
        inside = f"{_quoted(catalog)}.{_quoted(space)}"
        rows = spark.sql(f"SHOW TABLES IN {inside}").collect()
        views = _views(spark, inside)
        tables = sorted(
            r.tableName
            for r in rows
            if not r.isTemporary
            and r.tableName not in views
            and DROPPED not in r.tableName
            and fnmatch.fnmatchcase(r.tableName, name)
        )
        found += [".".join(quote(step) for step in (catalog, space, table)) for table in tables]
    return found


def _views(spark: Any, inside: str) -> set[str]:
    """Views of a namespace: some catalogs list them among the tables."""
    try:
        return {row.viewName for row in spark.sql(f"SHOW VIEWS IN {inside}").collect()}
    except Exception:  # a catalog without views
        return set()
