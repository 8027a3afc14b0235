"""Manifest compaction: rewrites many small manifests, which scan planning opens one by one, into few large ones."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.errors import Conflict, Rejected, Unknown, reason
from lakekeeper.spi.storage import MetadataChange
from lakekeeper_iceberg.commit import is_lost_race
from lakekeeper_iceberg.native import Iceberg

_TARGET = "commit.manifest.target-size-bytes"
_USUAL = 8 << 20
WORTH = 2
"""Manifests are rewritten if there are at least this many times the number that their bytes need."""

_NOT_DUE = "{before:count manifest}, not worth rewriting into {after}"
_OVER_HTTP = "{before:count manifest} kept: Iceberg's rewrite of manifests is not safe over HTTP"
_DUE = "{before:count manifest} would become {after}"
_MERGED = "{before:count manifest} became {after}"


def compact_metadata(jvm: Iceberg, table: Any, name: str, *, dry_run: bool) -> MetadataChange:
    """Rewrite the manifests of the newest snapshot with Iceberg's action, if that at least halves their number.

    One commit that changes no data file or delete file. Raises Conflict, Rejected or Unknown.
    """
    table.refresh()
    current = table.currentSnapshot()
    if current is None:
        return MetadataChange(0, 0, None, Reason.of(Code.NO_VERSIONS))
    target = int(jvm.text_map(table.properties()).get(_TARGET) or _USUAL)
    sizes: defaultdict[int, list[int]] = defaultdict(list)
    for manifest in jvm.items(current.dataManifests(table.io())):
        sizes[int(manifest.partitionSpecId())].append(int(manifest.length()))
    before = sum(map(len, sizes.values()))
    after = sum(-(-sum(found) // target) for found in sizes.values())
    if before < max(WORTH * after, after + WORTH):
        why = Reason.of("manifests_not_due", _NOT_DUE, before=before, after=after)
        return MetadataChange(before, before, None, why)
    if jvm.over_http(table):
        return MetadataChange(
            before, before, None, Reason.of("manifests_over_http", _OVER_HTTP, before=before)
        )
    if dry_run:
        return MetadataChange(
            before, after, None, Reason.of("manifests_due", _DUE, before=before, after=after)
        )
    action = jvm.static("org.apache.iceberg.spark.actions.SparkActions", "get")(jvm.session)
    try:
        done = action.rewriteManifests(table).execute()
    except Exception as error:
        if is_lost_race(error):
            raise Conflict(f"{name}: the manifests were not rewritten: {reason(error)}") from error
        kind = Unknown if "CommitStateUnknownException" in str(error) else Rejected
        raise kind(f"{name}: the manifests were not rewritten: {reason(error)}") from error
    table.refresh()
    gone, made = len(list(done.rewrittenManifests())), len(list(done.addedManifests()))
    version = int(table.currentSnapshot().snapshotId())
    why = Reason.of("manifests_merged", _MERGED, before=gone, after=made)
    return MetadataChange(before, before - gone + made, version, why)
