"""Dropped tables that can be restored: they remain in the catalog under a reserved name.

    drop_table("ice.db.t")  ─► ice.db.t__lakekeeper_trash_1763769600000 ─┬─ restore_table("ice.db.t")
                                                                         └─ empty_dropped("ice.db"): deleted for good
    with force=True         ─► ice.db.t__lakekeeper_trash_1763769600000_forced

A rename is atomic in most catalogs, and the new name records the table and the time of the drop, so no second record
can get lost. Glue adds the new name before it removes the old one, and may fail in between: no file is deleted while
the catalog has a second name for a table. Files are deleted when the trash is emptied, not by the drop. Most catalogs
keep the location of a renamed table and give the same location to the next table of the old name: the two then share a
folder, and every note in it names its table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from lakekeeper.arguments import checked_flags
from lakekeeper.core.config.options import PROPERTY_PREFIX, Options, spellings
from lakekeeper.core.config.options import resolve as resolve_options
from lakekeeper.core.model.keys import parse_column, quote
from lakekeeper.core.text.formatting import counted
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.plugins import find_format
from lakekeeper.engine.retries import SHORT_PAUSES, retried
from lakekeeper.engine.trash.empty import empty
from lakekeeper.engine.trash.entries import entries
from lakekeeper.errors import (
    AdapterError,
    NotFound,
    OptionError,
    TableError,
    Unsupported,
    causes,
    reason,
)
from lakekeeper.opening import open_adapter
from lakekeeper.spark.catalogs import Place, places
from lakekeeper.spark.confs import lakekeeper_confs
from lakekeeper.spark.identifiers import DROPPED, full_name
from lakekeeper.spark.identifiers import resolve as resolve_name
from lakekeeper.spark.jvm import Jvm, require_classic
from lakekeeper.spi import Adapter, Format

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RETENTION = "vacuum.trash-retention-hours"
_FORCED = "_forced"
_OWN_FORMATS = ("delta", "iceberg")
"""Formats whose adapters are lakekeeper's own: one that is missing is only not installed."""
_NAME = re.compile(rf"(.+){DROPPED}(\d+)({_FORCED})?")


@dataclass(frozen=True, slots=True)
class DroppedTable:
    """A table in the trash: original name, current name, and time of the drop (epoch milliseconds).

    ``files_stay`` is why its files stayed when the trash was emptied; empty if they were deleted. ``forced``: its
    retention ended with the drop.
    """

    name: str
    kept_as: str
    at_ms: int
    files_stay: str = ""
    forced: bool = False


@checked_flags
def drop_table(
    spark: SparkSession, name: str, *, force: bool = False, clock: Clock | None = None
) -> DroppedTable:
    """Move a table to the trash; :func:`restore_table` restores it until the retention ends.

    ``force``: the retention ends immediately, so that the next :func:`empty_dropped` deletes the table. Raises
    NotFound, OptionError for a table that is not in a catalog or is already in the trash, and Unsupported for a catalog
    that cannot rename tables (a Hadoop catalog), or not by this name (Nessie's ``table@branch``).
    """
    require_classic(spark)
    found = resolve_name(spark, name)
    if not found.catalog:
        raise OptionError(
            "name", name, "a table in a catalog; a table that is only a path cannot be dropped by name"
        )
    if _NAME.fullmatch(found.name):
        raise OptionError("name", name, "a table that is not already in the trash")
    at_ms = (clock or Clock()).now_ms()
    namespace = (found.catalog, *found.namespace)
    kept = f"{found.name}{DROPPED}{at_ms}{_FORCED if force else ''}"
    try:
        spark.sql(f"ALTER TABLE {found.sql} RENAME TO {_joined(*found.namespace, kept)}")
    except Exception as error:
        if any("UnsupportedOperation" in kind for kind, _ in causes(error)):
            raise Unsupported(
                name,
                "drop into the trash",
                f"catalog '{found.catalog}' cannot rename a table, so it cannot keep a dropped one; nothing was "
                "changed. DROP TABLE deletes the table at once",
            ) from error
        if any(kind.endswith("IllegalArgumentException") for kind, _ in causes(error)):
            raise Unsupported(
                name,
                "drop into the trash",
                f"catalog '{found.catalog}' refuses to rename it ({reason(error)}); nothing was changed",
            ) from error
        raise
    return DroppedTable(_joined(*namespace, found.name), _joined(*namespace, kept), at_ms, forced=force)


def dropped_tables(spark: SparkSession, namespace: str) -> tuple[DroppedTable, ...]:
    """The dropped tables of a namespace, oldest first: ``catalog.namespace``, or ``catalog`` for those outside all.

    Raises OptionError for text that is not a name, NotFound for an unknown catalog.
    """
    require_classic(spark)
    *space, _ = full_name(spark, namespace, (*_steps("namespace", namespace), "any"))
    return _dropped_in(spark, space)


def _dropped_in(spark: SparkSession, space: Sequence[str]) -> tuple[DroppedTable, ...]:
    rows = spark.sql(f"SHOW TABLES IN {_joined(*space)}").collect()
    found = [
        DroppedTable(_joined(*space, m[1]), _joined(*space, row.tableName), int(m[2]), forced=bool(m[3]))
        for row in rows
        if (m := _NAME.fullmatch(row.tableName))
    ]
    return tuple(sorted(found, key=lambda table: (table.at_ms, table.name)))


def restore_table(spark: SparkSession, name: str) -> DroppedTable:
    """Restore the dropped table of this name, the last one dropped if there are several.

    Letter case counts only where names differ in nothing else: some catalogs change that of the tables they keep.
    Raises NotFound if the trash has no such table, OptionError if another table has the name now.
    """
    require_classic(spark)
    *space, wanted = full_name(spark, name, _steps("name", name))
    fits = _named(_dropped_in(spark, space), _joined(*space, wanted))
    if not fits:
        raise NotFound(name, "the trash has no table of that name")
    last = fits[-1]
    if spark.catalog.tableExists(last.name):
        raise OptionError("name", name, "a name that is free; rename the table that has it now")
    spark.sql(f"ALTER TABLE {last.kept_as} RENAME TO {_joined(*space[1:], parse_column(last.name)[-1])}")
    return last


def _named(tables: Sequence[DroppedTable], name: str) -> list[DroppedTable]:
    """The tables of this name; without one, those of the only name that differs from it in letter case."""
    same = [table for table in tables if table.name == name]
    alike = [table for table in tables if table.name.lower() == name.lower()]
    return same or (alike if len({table.name for table in alike}) == 1 else [])


def empty_dropped(
    spark: SparkSession,
    namespace: str,
    *,
    options: Mapping[str, Any] | None = None,
    clock: Clock | None = None,
) -> tuple[DroppedTable, ...]:
    """Delete for good, with their files, tables dropped more than ``vacuum.trash-retention-hours`` ago.

    A table's own property may raise that, unless the call sets it. The table's own trash is emptied first, because
    nothing refers to it once the table is deleted. A table is kept if its retention is not known or its trash cannot be
    emptied; so is one that this session cannot open, unless its drop was forced, and a managed Delta table with a
    second name. Only the name goes where others may need the files (``gc.enabled=false``, Nessie, a second name of an
    Iceberg table, another catalog that has it, files outside its location that ``vacuum.allowed-locations`` does not
    list), and for an external Delta table; ``files_stay`` is the reason. Raises AdapterError for the first table that
    cannot be deleted, after all others.
    """
    confs, clock = lakekeeper_confs(spark), clock or Clock()

    def resolved(properties: Mapping[str, str] | None = None) -> Options:
        return resolve_options(options, confs, properties)

    # Once for all tables: most catalogs load each table to show its location.
    tables = cache(lambda catalog: places(Jvm(spark), catalog))
    least_ms = resolved().vacuum.trash_retention_ms
    gone: list[DroppedTable] = []
    failed: dict[str, Exception] = {}
    for table in dropped_tables(spark, namespace):
        if not _is_over(table, least_ms, clock):  # a property only raises it, and opening a table takes time
            continue
        try:
            gone += _deleted(spark, table, resolved, clock, tables)
        except Exception as error:  # a catalog's client can throw anything, and the other tables are due too
            failed[table.kept_as] = error
    if failed:
        name, first = next(iter(failed.items()))
        raise AdapterError(
            f"{namespace}: {counted(len(gone), 'dropped table')} deleted, {len(failed):,} could not be deleted; the "
            f"first: {name}: {reason(first)}"
        ) from first
    return tuple(gone)


def _is_over(table: DroppedTable, keep_ms: int, clock: Clock) -> bool:
    """Whether the retention of a dropped table is over."""
    return table.forced or clock.now_ms() >= table.at_ms + keep_ms


def _deleted(
    spark: SparkSession,
    table: DroppedTable,
    resolved: Callable[..., Options],
    clock: Clock,
    tables: Callable[[str], Sequence[Place]],
) -> list[DroppedTable]:
    """Delete a table; empty if its own properties retain it, or its own trash cannot be emptied yet.

    Raises AdapterError, NotFound or Unsupported if it cannot be looked at, OptionError if its own retention is not a
    time.
    """
    why = _keeps_files(spark, table.kept_as, tables, resolved().vacuum.allowed_locations)
    adapter = None if table.forced and why else _opened(spark, table)
    if adapter is not None:
        options = resolved(None if table.forced else _own_retention(adapter, clock))
        if not _is_over(table, options.vacuum.trash_retention_ms, clock):
            return []
        if not why and not _trash_emptied(adapter, clock, options.vacuum.allowed_locations):
            return []
    spark.sql(f"DROP TABLE {table.kept_as}{'' if why else ' PURGE'}")
    return [replace(table, files_stay=why)]


def _opened(spark: SparkSession, table: DroppedTable) -> Adapter[Any] | None:
    """The adapter of a table; None if its format has none, so that it has no trash.

    A table of lakekeeper's own formats that cannot be opened, for a feature that is not supported for example, may
    have a retention of its own that was never read; that of a forced drop is over, whatever it is.
    """
    try:
        return open_adapter(spark, table.kept_as).adapter
    except TableError:
        if not table.forced:
            raise
        return None
    except AdapterError as error:
        if not _is_foreign(error):
            raise
        return None


def _own_retention(adapter: Adapter[Any], clock: Clock) -> dict[str, str]:
    """What the table's properties say on its retention in the trash; all others have no part in that."""
    found = retried(adapter.properties, clock, SHORT_PAUSES)
    return {key: found[key] for key in spellings(_RETENTION, PROPERTY_PREFIX) if key in found}


def _keeps_files(
    spark: SparkSession, text: str, tables: Callable[[str], Sequence[Place]], allowed: Sequence[str]
) -> str:
    """Why the files of a table must stay; empty also for a format that lakekeeper does not know."""
    name = resolve_name(spark, text)
    found = _format_of(name.provider, text)
    return found.keeps_files(spark, name, tables, allowed) if found else ""


def _format_of(provider: str, text: str) -> Format | None:
    try:
        return find_format(provider, text)
    except AdapterError as error:
        if not _is_foreign(error):
            raise
        return None


def _is_foreign(error: AdapterError) -> bool:
    """Whether an error says that lakekeeper has no adapter for a table's format, so that it has no trash.

    Where only its adapter is not installed, a table may have one, and others may need its files: it stays.
    """
    return bool(error.missing) and error.missing not in _OWN_FORMATS


def _trash_emptied(adapter: Adapter[Any], clock: Clock, locations: Sequence[str]) -> bool:
    """Empty the trash of a table; False if some of it remains."""
    for _ in empty(adapter, None, clock.now_ms(), locations, dropped=True):
        pass
    return not entries(adapter)


def _joined(*steps: str) -> str:
    return ".".join(quote(step) for step in steps)


def _steps(option: str, text: str) -> tuple[str, ...]:
    """The parts of a name. Raises OptionError for text that is not one."""
    try:
        return parse_column(text)
    except OptionError as error:
        raise OptionError(
            option, text, "a name such as catalog.namespace, with back-quotes where needed"
        ) from error
