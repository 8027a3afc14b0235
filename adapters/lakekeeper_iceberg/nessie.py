"""Tables of a Nessie catalog, whose branches and tags name versions that a table's own metadata does not have.

    main  ─ c1 ─ c2 ─ c3      each commit of Nessie names a metadata file; that of c3 knows nothing of c4
              └─ dev ─ c4     files that only c4 names, and those that c1 named, look dead from c3

So no file of such a table may be deleted, whatever its properties say: Nessie's catalog sets ``gc.enabled=false`` on
the tables that it creates, but not on those that are registered, and users may change it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from lakekeeper.errors import Unsupported
from lakekeeper_iceberg.native import NESSIE, Iceberg

READ_FROM = ("nessie.commit.id", "nessie.commit.ref")
"""Properties of metadata that say from which commit of Nessie it was read; no user has set them."""
_CONTENT = "nessie.catalog.content-id"
"""A property that Nessie's REST endpoint gives to each table, and that no client can set."""
_REST = "RESTTableOperations"
_PACKAGE = "org.apache.iceberg.nessie."
_CLEANS_UP = "write.metadata.delete-after-commit.enabled"


def _name(operations: Any) -> str:
    return str(operations.getClass().getName()).rpartition(".")[2]


def shares_files(operations: Any) -> str:
    """Why branches, tags and earlier commits of the catalog may need any file of the table; empty if they do not."""
    kind = _name(operations)
    if kind != NESSIE and not (kind == _REST and operations.current().properties().containsKey(_CONTENT)):
        return ""
    return (
        "the table is in a Nessie catalog, where another branch, a tag or an earlier commit may need its files, "
        "whatever gc.enabled says. Use Nessie's own garbage collector, nessie-gc"
    )


def keeps_files(operations: Any, properties: Mapping[str, str]) -> str:
    """Why no file of the table may be deleted; empty if dead ones may."""
    shared = shares_files(operations)
    if shared or properties.get("gc.enabled", "true").lower() == "true":
        return shared
    return "gc.enabled is false on the table: its files may belong to others"


def put_back(jvm: Iceberg, table: Any, updated: Any, snapshot: int) -> None:
    """Write the metadata file of a commit again if Nessie has the commit, and the client has deleted the file.

    The client deletes it after each conflict. A gateway that repeats a request whose answer was lost makes a commit
    conflict with itself, and no reader could open the table after that. ``snapshot`` is the commit's own, so that the
    file is known to be that of ``updated``.
    """
    operations = table.operations()
    if updated is None or _name(operations) != NESSIE:
        return
    with suppress(Exception):  # it cannot be read, which is the case to deal with; other errors are met again
        operations.refresh()
        return
    with suppress(Exception):  # then the outcome is unknown, as it is now
        content = jvm.hidden_field(operations, _PACKAGE + NESSIE, "table")
        place = str(content.getMetadataLocation())
        if int(content.getSnapshotId()) == snapshot and not table.io().newInputFile(place).exists():
            write = jvm.static("org.apache.iceberg.TableMetadataParser", "overwrite")
            write(updated, table.io().newOutputFile(place))


def require_writable(jvm: Iceberg, name: str, operations: Any) -> None:
    """Raise Unsupported for a tag or a commit, and where each commit deletes metadata files of other branches."""
    if _name(operations) != NESSIE:
        return
    client = jvm.hidden_field(operations, _PACKAGE + NESSIE, "client")
    ref = jvm.hidden_call(client, _PACKAGE + "NessieIcebergClient", "getRef")
    if not jvm.hidden_call(ref, _PACKAGE + "UpdateableReference", "isMutable"):
        where = jvm.hidden_call(ref, _PACKAGE + "UpdateableReference", "getName")
        raise Unsupported(
            name,
            "a tag or a commit of Nessie",
            f"only a branch can be changed, not {where}; nothing was written",
        )
    if str(operations.current().properties().get(_CLEANS_UP) or "").lower() == "true":
        raise Unsupported(
            name,
            f"{_CLEANS_UP}=true in a Nessie catalog",
            "each commit would delete metadata files that another branch, a tag or an earlier commit may need; nothing "
            "was written. Set it to false, and use nessie-gc",
        )
