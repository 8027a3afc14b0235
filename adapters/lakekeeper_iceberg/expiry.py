"""One atomic swap that takes snapshots and names out of the metadata; no file is deleted here.

    versions() pinned `base` ─► garbage of it ─► ops.commit(base, base − gone)

What was found to be garbage holds for `base` and no other state, so the swap must have been made upon it. A catalog
that is asked over HTTP applies our changes to whatever it has by then: there the log of metadata files is looked at.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from lakekeeper.errors import Conflict, Rejected, Unknown, reason
from lakekeeper_iceberg.commit import told_not_done
from lakekeeper_iceberg.native import Iceberg
from lakekeeper_iceberg.tidy import over_http


def expire(jvm: Iceberg, table: Any, name: str, base: Any, gone: Sequence[int], names: Sequence[str]) -> None:
    """Commit once. Raises Conflict, Rejected (not done) or Unknown (not known, or done upon another state)."""
    operations = table.operations()
    updated = _without(jvm, name, base, gone, names)
    try:
        operations.commit(base, updated)
    except Exception as error:
        lost, text = told_not_done(name, error)
        if _is_there(table, name, gone, names):
            if lost:
                raise Conflict(f"{name}: {text}") from error
            raise Rejected(f"{name}: the catalog refused to expire snapshots: {text}") from error
        # They are gone all the same: a client that sends a commit again loses to itself (apache/iceberg 12818).
        _check_base(name, operations.current(), base)
        return
    if over_http(table):
        _check_base(name, operations.current(), base)


def _without(jvm: Iceberg, name: str, base: Any, gone: Sequence[int], names: Sequence[str]) -> Any:
    """The metadata without these snapshots, their statistics and these names; Rejected if anything else went."""
    builder = jvm.api.TableMetadata.buildFrom(base)
    for ref in names:
        builder = builder.removeRef(ref)
    if gone:
        builder = builder.removeSnapshots(jvm.array_list(base.snapshot(version) for version in gone))
    updated = builder.build()
    refs = {str(ref) for ref in base.refs()} - set(names)
    kept = int(base.snapshots().size()) - len(gone)
    if {str(ref) for ref in updated.refs()} != refs or int(updated.snapshots().size()) != kept:
        raise Rejected(
            f"{name}: without {len(gone)} snapshots, names of others would go too; nothing was committed"
        )
    return updated


def _is_there(table: Any, name: str, gone: Sequence[int], names: Collection[str]) -> bool:
    """Does the log, read again, still have any of what was to go?"""
    try:
        table.refresh()
        current = table.operations().current()
        if gone:
            return any(current.snapshot(version) is not None for version in gone)
        return any(str(ref) in names for ref in current.refs())
    except Exception as error:
        raise Unknown(
            f"{name}: the expiry was refused, and the log cannot be read ({reason(error)})"
        ) from error


def _check_base(name: str, current: Any, base: Any) -> None:
    """Raise Unknown where the metadata before ``current`` is another one than ``base``."""
    before = [str(entry.file()) for entry in current.previousFiles()]
    if not before or before[-1] != str(base.metadataFileLocation()):
        raise Unknown(
            f"{name}: snapshots were expired while somebody else committed, so what only they named is not sure; "
            "nothing was deleted, the next vacuum looks again"
        )
