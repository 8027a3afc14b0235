"""Whether the files of a table may be deleted with its name: ``DROP TABLE … PURGE`` deletes all that it references.

A table that moved to another catalog by ``register_table`` is referenced there, and one that imported files by
``add_files`` does not own them. A user who may write a table's metadata could name any file in it, and a job with more
rights would delete it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakekeeper.core.vacuum.path_guard import Grounds, may_be_same, refusal
from lakekeeper.spark.catalogs import Place
from lakekeeper.spi import TableName
from lakekeeper_iceberg import foreign_tables
from lakekeeper_iceberg.table import IcebergTable

_REFERENCED = {
    "all_files": "file_path",
    "all_manifests": "path",
    "snapshots": "manifest_list",
    "metadata_log_entries": "file",
}
"""Metadata tables that list all files of all snapshots, and the column with their paths."""
_MOST_FOLDERS = 10_000
_PARTS = r"(?s)^(.*)/[^/]*$"
_STEPS_UP = r"/\.{0,2}/"


def why_not(
    table: IcebergTable,
    identifier: TableName,
    tables: Callable[[str], Sequence[Place]],
    allowed: Sequence[str],
) -> str:
    """Why the files must stay; empty if they may go. Raises AdapterError if that cannot be found out."""
    return next(_reasons(table, identifier, tables, allowed), "")


def _reasons(
    table: IcebergTable,
    identifier: TableName,
    tables: Callable[[str], Sequence[Place]],
    allowed: Sequence[str],
) -> Iterator[str]:
    storage = table.storage.allowing(allowed)
    location = storage.grounds.roots[0]
    for catalog in foreign_tables.searched(storage.jvm):
        for place in tables(catalog) if catalog != identifier.catalog else ():
            # By the name that a dropped table has, it is this one, of a catalog that the session has twice.
            same_name = place.steps[1:] == (*identifier.namespace, identifier.name)
            if not same_name and may_be_same(place.location, location):
                yield f"{place} is at the same location"
    yield from storage.newer()
    for folder in _outside(storage.jvm.spark, identifier, storage.grounds):
        yield f"it references files in {folder}, outside its location"


def _outside(spark: Any, identifier: TableName, grounds: Grounds) -> Iterator[str]:
    """Folders with files that a vacuum would not delete."""
    columns = [
        spark.table(f"{identifier.sql}.{name}").select(F.col(column).alias("path"))
        for name, column in _REFERENCED.items()
    ]
    paths: DataFrame = reduce(lambda one, other: one.union(other), columns)
    below = reduce(lambda one, root: one | F.col("path").startswith(f"{root}/"), grounds.roots, F.lit(False))
    odd = paths.where("path IS NOT NULL").where(~below | F.col("path").rlike(_STEPS_UP))
    folders = odd.select(F.regexp_extract("path", _PARTS, 1).alias("folder")).distinct()
    found = [str(row.folder) for row in folders.limit(_MOST_FOLDERS + 1).collect()]
    if len(found) > _MOST_FOLDERS:
        yield min(found)
    yield from (folder for folder in sorted(found) if refusal(f"{folder}/x", grounds, "metadata"))
