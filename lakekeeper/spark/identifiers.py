"""Resolve the text of a table name to a table and its format, from Spark's own catalogs and never by guessing."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lakekeeper.core.model.keys import parse_column, quote
from lakekeeper.errors import AdapterError, NotFound, OptionError, causes, nearest, reason
from lakekeeper.spark.catalogs import SESSION_CATALOG, catalogs
from lakekeeper.spark.jvm import Jvm, says_no_such_table
from lakekeeper.spi import TableName

DROPPED = "__lakekeeper_trash_"
"""Part of the names of dropped tables that can be restored."""
_REFUSALS = frozenset({"NotAuthorizedException", "ForbiddenException"})
"""What a REST catalog's client throws for the status 401 and 403."""
_A_NAME = "a table name such as catalog.db.table, or a path with a slash"


def resolve(spark: Any, text: str) -> TableName:
    """The table that ``text`` names: ``cat.db.t``, ``db.t``, ``t``, ``delta.`/path```, or a path.

    Raises NotFound if no such table exists or it is a view, AdapterError if the catalog does not respond or the session
    is a Connect session, OptionError if ``text`` is not a table name.
    """
    if not isinstance(text, str):
        raise OptionError("table", text, _A_NAME)
    jvm = Jvm(spark)
    _activate(jvm)
    if "/" in text and "`" not in text:
        return _by_path(jvm, text, text)
    try:
        with jvm.parser() as parser:
            parts = list(jvm.python_list(parser.parseMultipartIdentifier(text)))
    except Exception as error:
        raise OptionError("table", text, _A_NAME) from error
    if len(parts) == 2 and "/" in parts[1]:
        if parts[0].lower() not in ("delta", "iceberg"):
            return TableName(text, parts[0].lower(), text, path=parts[1])  # the registry reports the error
        return _by_path(jvm, text, parts[1], parts[0].lower())
    return _by_name(jvm, text, parts)


def _activate(jvm: Jvm) -> None:
    """Make the session the active one of a thread without one: Spark loads a catalog by the confs of that session."""
    kind = jvm.session_class
    if not kind.getActiveSession().isDefined():
        kind.setActiveSession(jvm.session)


def _by_path(jvm: Jvm, text: str, path: str, provider: str = "") -> TableName:
    location = jvm.view.org.apache.hadoop.fs.Path(path)
    files = location.getFileSystem(jvm.session.sessionState().newHadoopConf())

    def has(child: str) -> bool:
        return bool(files.exists(jvm.view.org.apache.hadoop.fs.Path(location, child)))

    if has("_delta_log") and provider in ("", "delta"):
        full = str(files.makeQualified(location).toString())
        return TableName(text, "delta", f"delta.{_quoted(full)}", path=full)
    if has("metadata") and provider in ("", "iceberg"):
        raise NotFound(text, "an Iceberg table is opened through a catalog: name it catalog.namespace.table")
    raise NotFound(
        text,
        "no Delta table at this path (it has no _delta_log folder); name an Iceberg table as catalog.namespace.table",
    )


def full_name(spark: Any, text: str, parts: Sequence[str]) -> tuple[str, ...]:
    """Catalog, namespace and name of a table whose name has these parts; it need not exist. ``text`` is for messages.

    Raises NotFound for an unknown catalog, AdapterError for one that does not respond.
    """
    jvm = Jvm(spark)
    _activate(jvm)
    return _full_name(jvm, text, parts)


def _full_name(jvm: Jvm, text: str, parts: Sequence[str]) -> tuple[str, ...]:
    manager = jvm.session.sessionState().catalogManager()
    try:
        named = len(parts) > 1 and _is_catalog(jvm, parts[0])
    except AdapterError as error:
        raise AdapterError(f"{text}: {error}") from error
    if len(parts) == 3 and not named:
        raise NotFound(text, _no_catalog(jvm.spark, parts[0]))
    catalog, rest = (parts[0], parts[1:]) if named else (str(manager.currentCatalog().name()), parts)
    # As in Spark: only a name of one part is in the current namespace, and `catalog.t` is in none. The session's own
    # catalog has no table without a database, and takes the current one.
    outside = named and catalog != SESSION_CATALOG
    namespace = rest[:-1] if len(rest) > 1 or outside else _current_namespace(manager, catalog)
    return (catalog, *namespace, rest[-1])


def _by_name(jvm: Jvm, text: str, parts: list[str]) -> TableName:
    manager = jvm.session.sessionState().catalogManager()
    catalog, *namespace, name = _full_name(jvm, text, parts)
    _refuse_view(jvm, text)
    identifier = jvm.view.org.apache.spark.sql.connector.catalog.Identifier.of(
        jvm.array(jvm.view.java.lang.String, namespace), name
    )
    try:
        table = manager.catalog(catalog).loadTable(identifier)
        provider = str(table.properties().get("provider") or "").lower()
    except Exception as error:
        if _is_view(manager, catalog, identifier):
            raise NotFound(text, "is a view; name its table") from error
        if says_no_such_table(error):
            raise NotFound(text, _no_table(jvm, manager.catalog(catalog), catalog, namespace)) from error
        raise AdapterError(f"{text}: catalog '{catalog}' cannot load it: {reason(error)}") from error
    if not _is_namespace(jvm, manager.catalog(catalog), namespace):
        owner = ".".join((catalog, *namespace))
        raise NotFound(text, f"is a part of a table (metadata, branch or tag); name the table, {owner}")
    if not provider:
        raise AdapterError(f"{text}: catalog '{catalog}' does not report the format of the table")
    sql = ".".join(_quoted(step) for step in (catalog, *namespace, name))
    return TableName(text, provider, sql, catalog, tuple(namespace), name)


def _no_table(jvm: Jvm, plugin: Any, catalog: str, namespace: Sequence[str]) -> str:
    """Why there is no such table: it is not in its namespace, or the catalog has no such namespace."""
    try:
        known = not namespace or bool(plugin.namespaceExists(jvm.array(jvm.view.java.lang.String, namespace)))
    except Exception:  # a catalog without namespaces
        known = True
    if known:
        return f"no such table; SHOW TABLES IN {'.'.join((catalog, *namespace))} lists those that exist"
    missing = ".".join(namespace)
    return f"catalog '{catalog}' has no namespace '{missing}'; SHOW NAMESPACES IN {catalog} lists those that exist"


def _is_namespace(jvm: Jvm, catalog: Any, steps: Sequence[str]) -> bool:
    """Whether a table's namespace is one, and not itself a table, as in ``db.t.files`` and ``t.branch_b``."""
    if not steps:
        return True
    namespace = jvm.array(jvm.view.java.lang.String, steps)
    if len(steps) > 1:
        return bool(catalog.namespaceExists(namespace))
    try:
        identifier = jvm.view.org.apache.spark.sql.connector.catalog.Identifier
        outside = jvm.array(jvm.view.java.lang.String, [])
        # Not every catalog reports its namespaces.
        return bool(catalog.namespaceExists(namespace)) or not catalog.tableExists(
            identifier.of(outside, steps[0])
        )
    except Exception:
        return True


def aliases(spark: Any, name: TableName) -> tuple[str, ...]:
    """All names of a table in executed plans: its path; or its name with and without catalog, and its location."""
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


def namespaces(spark: Any, catalog: str) -> tuple[str, ...]:
    """The top-level namespaces of a catalog, sorted.

    Raises NotFound if the session has no such catalog, AdapterError if the catalog does not respond.
    """
    if not _is_catalog(Jvm(spark), catalog):
        raise NotFound(catalog, _no_catalog(spark, catalog))
    try:
        rows = spark.sql(f"SHOW NAMESPACES IN {_quoted(catalog)}").collect()
    except Exception as error:  # a catalog's client can throw anything
        raise AdapterError(_no_answer(catalog, error)) from error
    return tuple(sorted(map(_namespace, rows)))


def _namespace(row: Any) -> str:
    """The name in a row of SHOW NAMESPACES: Spark quotes it where it is not a word, except in the legacy output."""
    return str(row[0]) if "databaseName" in row else parse_column(str(row[0]))[0]


def _is_catalog(jvm: Jvm, name: str) -> bool:
    """Whether the session has this catalog. Raises AdapterError if it is configured but cannot be loaded."""
    try:
        known = jvm.session.sessionState().catalogManager().isCatalogRegistered(name)
    except Exception as error:  # this creates the catalog's client, which may call its server immediately
        raise AdapterError(_no_answer(name, error)) from error
    return bool(known) or name == SESSION_CATALOG


def _no_catalog(spark: Any, name: str) -> str:
    known = catalogs(spark)
    remedy = f"set the conf spark.sql.catalog.{name} (on the command line: --catalog {name}=TYPE:URI)"
    return f"this session has no catalog '{name}'{nearest(name, known)}, only {', '.join(known)}: {remedy}"


def _no_answer(catalog: str, error: BaseException) -> str:
    if any(kind.rpartition(".")[2] in _REFUSALS for kind, _ in causes(error)):
        conf = f"spark.sql.catalog.{catalog}"
        return (
            f"catalog '{catalog}' refuses access (check {conf}.token or {conf}.credential): {reason(error)}"
        )
    return f"catalog '{catalog}' does not respond: {reason(error)}"


def _current_namespace(manager: Any, catalog: str) -> list[str]:
    if str(manager.currentCatalog().name()) != catalog:
        return []
    return [str(step) for step in manager.currentNamespace()]


def _refuse_view(jvm: Jvm, text: str) -> None:
    catalog = jvm.spark.catalog
    try:
        found = catalog.getTable(text)
    except Exception:  # unknown to this lookup: loadTable gives a better error
        return
    if found.isTemporary or found.tableType == "VIEW":
        raise NotFound(text, "is a view; name its table")


def _is_view(manager: Any, catalog: str, identifier: Any) -> bool:
    try:
        return manager.catalog(catalog).loadView(identifier) is not None
    except Exception:  # no such view, or a catalog without views
        return False


def _quoted(step: str) -> str:
    return "`" + step.replace("`", "``") + "`"


@dataclass(frozen=True, slots=True)
class Expanded:
    """The tables of one name or pattern. ``error`` states what could not be listed, ``""`` if everything was."""

    pattern: str
    names: tuple[str, ...]
    error: str = ""


def is_pattern(text: str) -> bool:
    """Whether a text is a pattern of names, not a name or a path."""
    return "*" in text and "/" not in text


def expand(spark: Any, patterns: tuple[str, ...]) -> tuple[Expanded, ...]:
    """Table names for names and patterns (``ice.db.*``, ``*`` also within a step), one result per input.

    A plain name is returned unchanged, whether it exists or not, so that a misspelled name is reported later. Patterns
    have the form ``catalog.namespace.pattern``, or ``namespace.pattern`` in the current catalog; the namespace may be a
    pattern too. A pattern that cannot be expanded, or whose catalog does not respond, raises nothing: see
    ``Expanded.error``.
    """
    return tuple(_expanded(spark, text) if is_pattern(text) else Expanded(text, (text,)) for text in patterns)


def _expanded(spark: Any, pattern: str) -> Expanded:
    try:
        steps = list(parse_column(pattern))
    except OptionError:
        steps = []
    short = len(steps) == 2
    if short:
        steps = [spark.catalog.currentCatalog(), *steps]
    if len(steps) != 3:
        return Expanded(pattern, (), "expected catalog.namespace.pattern or namespace.pattern, e.g. ice.db.*")
    catalog, space, name = steps
    try:
        inside = [found for found in namespaces(spark, catalog) if fnmatch.fnmatchcase(found, space)]
        if short and not inside and _is_catalog(Jvm(spark), space):
            return Expanded(pattern, (), f"'{space}' is a catalog; for all its namespaces: {space}.*.{name}")
    except (NotFound, AdapterError) as error:
        return Expanded(pattern, (), str(error))
    names: list[str] = []
    errors: list[str] = []
    for found in inside:
        try:
            tables = [table for table in _tables(spark, catalog, found) if fnmatch.fnmatchcase(table, name)]
        except Exception as error:  # a namespace that cannot be listed does not affect the others
            errors.append(f"{catalog}.{quote(found)}: {reason(error)}")
            continue
        names += [".".join(quote(step) for step in (catalog, found, table)) for table in sorted(tables)]
    return Expanded(pattern, tuple(names), "; ".join(errors))


def _tables(spark: Any, catalog: str, namespace: str) -> Iterator[str]:
    """Tables of a namespace, without views, temporary tables, and dropped tables in the trash."""
    inside = f"{_quoted(catalog)}.{_quoted(namespace)}"
    rows = spark.sql(f"SHOW TABLES IN {inside}").collect()
    views = _views(spark, inside)
    for row in rows:
        if not row.isTemporary and row.tableName not in views and DROPPED not in row.tableName:
            yield str(row.tableName)


def _views(spark: Any, inside: str) -> set[str]:
    """Views of a namespace: some catalogs list them among the tables."""
    try:
        return {row.viewName for row in spark.sql(f"SHOW VIEWS IN {inside}").collect()}
    except Exception:  # a catalog without views
        return set()
