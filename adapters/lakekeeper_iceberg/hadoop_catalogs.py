"""Hadoop catalogs, which swap metadata by a rename: where another driver's commit can be overwritten, none is made."""

from __future__ import annotations

from typing import Any

from lakekeeper.core.config.options import CONF_PREFIX
from lakekeeper.errors import Unsupported
from lakekeeper_iceberg.filesystem import scheme_of
from lakekeeper_iceberg.native import Iceberg

_S3, _GCS = ("S3", "docs/how-to/s3.md"), ("Google Cloud Storage", "docs/how-to/gcs.md")
_RENAMES_COPY = {"s3": _S3, "s3a": _S3, "s3n": _S3, "gs": _GCS}
"""By scheme: stores whose clients copy a file to rename it, over one that exists, and the page about each."""


def refuse_second_driver(jvm: Iceberg, name: str, table: Any) -> None:
    """Raise Unsupported where two drivers can overwrite each other's commits: a Hadoop catalog on some stores.

    A Hadoop catalog checks whether the next metadata file exists and then renames a file to that name; its lock covers
    one JVM only. Google's connector since 3.1 moves a file in one step, over none that exists; older ones, and newer
    ones where an operator says so, copy it.
    """
    operations, location = table.operations(), str(table.location())
    if not str(operations.getClass().getName()).endswith(".HadoopTableOperations"):
        return
    store = _RENAMES_COPY.get(scheme_of(jvm, operations.io(), location))
    if store is not None:
        raise Unsupported(
            name,
            f"a Hadoop catalog on {store[0]}",
            f"on {location} two drivers can overwrite each other's commits; nothing was written. Use one that "
            "swaps metadata atomically (REST, JDBC, Glue, Hive), or, if no other driver ever writes to it, set "
            f"{CONF_PREFIX}single-driver=true; see {store[1]}",
        )
