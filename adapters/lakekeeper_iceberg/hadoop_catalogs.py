"""Hadoop catalogs, which swap metadata by a rename: where another driver's commit can be overwritten, none is made."""

from __future__ import annotations

import re
from typing import Any

from lakekeeper.core.config.options import CONF_PREFIX
from lakekeeper.errors import Unsupported
from lakekeeper.spark.renames import renames_safely, shared_mount
from lakekeeper_iceberg.filesystem import scheme_of
from lakekeeper_iceberg.native import Iceberg

_S3 = ("S3", "docs/how-to/s3.md")
_STORES = {"s3": _S3, "s3a": _S3, "s3n": _S3, "gs": ("Google Cloud Storage", "docs/how-to/gcs.md")}
"""By scheme: the name of a store, and the page about it."""
_BEFORE_PATH = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?")


def refuse_second_driver(jvm: Iceberg, name: str, table: Any) -> None:
    """Raise Unsupported where two drivers can overwrite each other's commits: a Hadoop catalog on some stores.

    A Hadoop catalog checks whether the next metadata file exists and then renames a file to that name; its lock covers
    one JVM only. Google's connector since 3.1 moves a file in one step, over none that exists; older ones, and newer
    ones where an operator says so, copy it.
    """
    operations, location = table.operations(), str(table.location())
    if not str(operations.getClass().getName()).endswith(".HadoopTableOperations"):
        return
    scheme = scheme_of(jvm, operations.io(), location)
    store, page = _STORES.get(scheme, (f"{scheme}://", _S3[1]))
    if renames_safely(scheme):
        mount = shared_mount(jvm, scheme, _BEFORE_PATH.sub("", location))
        if not mount:
            return
        store = f"a mount of type {mount}, which machines may share"
    raise Unsupported(
        name,
        f"a Hadoop catalog on {store}",
        f"on {location} two drivers can overwrite each other's commits; nothing was written. Use one that "
        "swaps metadata atomically (REST, JDBC, Glue, Hive), or, if no other driver ever writes to it, set "
        f"{CONF_PREFIX}single-driver=true; see {page}",
    )
