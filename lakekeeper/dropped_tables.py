"""Tables that were dropped and can come back: they wait in the catalog, under a name that nobody asks for.

    drop_table("ice.db.t")  ─► ice.db.t__lakekeeper_trash_1763769600000 ─┬─ restore_table("ice.db.t")
                                                                         └─ empty_dropped("ice.db"): gone for good

A rename is one step in every catalog, and says by itself what was dropped when; there is no second book to lose. Files
are deleted when the bin is emptied, not in the call that drops. Most catalogs leave a renamed table where it is, and
give its place to the next one of its name: the two share a folder then, and every note in it says whose it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakekeeper.core.config.options import resolve as resolve_options
from lakekeeper.core.model.keys import quote
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.trash import recycle_bin
from lakekeeper.errors import AdapterError, NotFound, OptionError, TableError
from lakekeeper.opening import open_adapter
from lakekeeper.spark.confs import lakekeeper_confs
from lakekeeper.spark.identifiers import DROPPED
from lakekeeper.spark.identifiers import resolve as resolve_name
from lakekeeper.spark.jvm import require_classic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NAME = re.compile(rf"(.+){DROPPED}(\d+)")


@dataclass(frozen=True, slots=True)
class DroppedTable:
    """A table in the bin: what it was called, what it is called now, and when it was dropped (ms)."""

    name: str
    kept_as: str
    at_ms: int


def drop_table(
    spark: SparkSession, name: str, *, force: bool = False, clock: Clock | None = None
) -> DroppedTable:
    """Take a table away by name; :func:`restore_table` brings it back until the bin's retention ends.

    ``force``: its time in the bin is up at once, so that the next :func:`empty_dropped` deletes it. Raises NotFound,
    and OptionError for a table that no catalog names.
    """
    require_classic(spark)
    found = resolve_name(spark, name)
    if not found.catalog:
        raise OptionError(
            "name", name, "a table of a catalog; one that is only a path is nobody's to drop by name"
        )
    if _NAME.fullmatch(found.name):
        raise OptionError("name", name, "a table that is not in the recycle bin already")
    at_ms = 0 if force else (clock or Clock()).now_ms()
    namespace = (found.catalog, *found.namespace)
    kept = f"{found.name}{DROPPED}{at_ms}"
    spark.sql(f"ALTER TABLE {found.sql} RENAME TO {_joined(*found.namespace, kept)}")
    return DroppedTable(_joined(*namespace, found.name), _joined(*namespace, kept), at_ms)


def dropped_tables(spark: SparkSession, namespace: str) -> tuple[DroppedTable, ...]:
    """What is in the bin of a namespace (``catalog.namespace``), oldest first."""
    require_classic(spark)
    steps = namespace.split(".")
    if len(steps) != 2:
        raise OptionError("namespace", namespace, "catalog.namespace, e.g. ice.db")
    rows = spark.sql(f"SHOW TABLES IN {_joined(*steps)}").collect()
    found = [
        DroppedTable(_joined(*steps, m[1]), _joined(*steps, row.tableName), int(m[2]))
        for row in rows
        if (m := _NAME.fullmatch(row.tableName))
    ]
    return tuple(sorted(found, key=lambda table: (table.at_ms, table.name)))


def restore_table(spark: SparkSession, name: str) -> DroppedTable:
    """Bring the table of that name back, the one dropped last if there are several.

    Raises NotFound where the bin has none, OptionError where another table has the name by now.
    """
    steps = name.split(".")
    if len(steps) != 3:
        raise OptionError("name", name, "catalog.namespace.table")
    wanted = _joined(*steps)
    fits = [table for table in dropped_tables(spark, ".".join(steps[:2])) if table.name == wanted]
    if not fits:
        raise NotFound(name, "the recycle bin has no table of that name")
    if spark.catalog.tableExists(wanted):
        raise OptionError("name", name, "a name that no table has now: rename that one first")
    spark.sql(f"ALTER TABLE {fits[-1].kept_as} RENAME TO {_joined(*steps[1:])}")
    return fits[-1]


def empty_dropped(
    spark: SparkSession,
    namespace: str,
    *,
    options: Mapping[str, Any] | None = None,
    clock: Clock | None = None,
) -> tuple[DroppedTable, ...]:
    """Drop for good, with their files, tables that were in the bin longer than ``vacuum.trash-retention-hours``.

    What such a table has in its own recycle bin goes first: once the table is dropped, nothing leads to it. A table of
    which a file stays there stays too. Raises AdapterError where the storage does not answer.
    """
    resolved = resolve_options(options, lakekeeper_confs(spark))
    keep_ms = resolved.ms("vacuum.trash-retention-hours")
    locations = resolved.words("vacuum.allowed-locations")
    now = (clock or Clock()).now_ms()
    gone = []
    for table in dropped_tables(spark, namespace):
        if now >= table.at_ms + keep_ms and _bin_emptied(spark, table.kept_as, now, locations):
            spark.sql(f"DROP TABLE {table.kept_as} PURGE")
            gone.append(table)
    return tuple(gone)


def _bin_emptied(spark: SparkSession, name: str, now_ms: int, locations: Sequence[str]) -> bool:
    """Delete what a table has in its recycle bin; False where some of it stays."""
    try:
        adapter = open_adapter(spark, name).adapter
    except (TableError, AdapterError):
        return True  # no table that lakekeeper maintains: it never had a bin
    for _ in recycle_bin.empty(adapter, None, now_ms, locations):
        pass
    return not recycle_bin.entries(adapter)


def _joined(*steps: str) -> str:
    return ".".join(quote(step) for step in steps)
