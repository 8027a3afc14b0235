"""Manifest compaction: rewrites many small manifests, which scan planning opens one by one, into few large ones."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.errors import CommitError, Conflict, Rejected, Unknown, reason
from lakekeeper.spark.jvm import causes
from lakekeeper.spi.storage import MetadataChange
from lakekeeper_iceberg.commit import UNKNOWN_STATE, certain_failure, kinds_of_error
from lakekeeper_iceberg.dropped_sources import without_source
from lakekeeper_iceberg.native import Iceberg

_TARGET = "commit.manifest.target-size-bytes"
_USUAL = 8 << 20
WORTH = 2
"""Manifests are rewritten if there are at least this many times the number that their bytes need."""
_WITH_ROW_IDS = 3
_OF_SPARK = ("org.apache.spark.", "pyspark.")

_NOT_DUE = "{before:count manifest}, not worth rewriting into {after}"
_REPEATED = "{before:count manifest} kept: the catalog may repeat a commit"
_LOSES_ROW_IDS = "{before:count manifest} kept: before Iceberg 1.12, row ids would change"
_KEPT = "{before:count manifest} kept: Iceberg found none of them to rewrite"
_DUE = "{before:count manifest} would become {after}"
_MERGED = "{before:count manifest} became {after}"


def compact_metadata(jvm: Iceberg, table: Any, name: str, *, dry_run: bool) -> MetadataChange:
    """Rewrite the manifests of the newest snapshot with Iceberg's action, if that at least halves their number.

    One commit for each partition spec, which changes no data file or delete file; a spec without a source column is
    left out. Raises Conflict, Rejected or Unknown.
    """
    table.refresh()
    current = table.currentSnapshot()
    if current is None:
        return MetadataChange(0, 0, None, Reason.of(Code.NO_VERSIONS))
    target = int(jvm.text_map(table.properties()).get(_TARGET) or _USUAL)
    lossy = without_source(jvm, table.operations().current())
    sizes: defaultdict[int, list[int]] = defaultdict(list)
    for manifest in jvm.items(current.dataManifests(table.io())):
        if (spec := int(manifest.partitionSpecId())) not in lossy:
            sizes[spec].append(int(manifest.length()))
    before = sum(map(len, sizes.values()))
    after = sum(-(-sum(found) // target) for found in sizes.values())
    if before < max(WORTH * after, after + WORTH):
        why = Reason.of("manifests_not_due", _NOT_DUE, before=before, after=after)
        return MetadataChange(before, before, None, why)
    unsafe = _unsafe(jvm, table, before)
    if unsafe is not None:
        return MetadataChange(before, before, None, unsafe)
    if dry_run:
        return MetadataChange(
            before, after, None, Reason.of("manifests_due", _DUE, before=before, after=after)
        )
    large = [spec for spec, found in sorted(sizes.items()) if len(found) > -(-sum(found) // target)]
    gone, made, version = _of_specs(jvm, table, name, large)
    if version is None:
        return MetadataChange(before, before, None, Reason.of("manifests_kept", _KEPT, before=before))
    why = Reason.of("manifests_merged", _MERGED, before=gone, after=made)
    return MetadataChange(before, before - gone + made, version, why)


def _unsafe(jvm: Iceberg, table: Any, before: int) -> Reason | None:
    """Why Iceberg's action must not rewrite the manifests of a table; None if it may.

    After a commit that lost, it deletes the manifest lists of all attempts, even of one that landed. Before 1.12,
    it writes manifests without the first row ids of their files, and the commit assigns others (apache/iceberg 16699).
    """
    if jvm.repeats_commits(table):
        return Reason.of("manifests_repeated", _REPEATED, before=before)
    if int(table.operations().current().formatVersion()) >= _WITH_ROW_IDS and not jvm.keeps_row_ids():
        return Reason.of("manifests_lose_row_ids", _LOSES_ROW_IDS, before=before)
    return None


def _of_specs(jvm: Iceberg, table: Any, name: str, specs: list[int]) -> tuple[int, int, int | None]:
    """Rewrite the manifests of each spec: how many there were, how many are in their place, and the last version."""
    gone, made, version = 0, 0, None
    for spec in specs:
        try:
            old, new = _rewritten(jvm, table, name, spec)
        except (Conflict, Rejected):
            if version is None:
                raise
            break  # other specs were rewritten, which must be reported; the next call rewrites this one
        if old:
            gone, made, version = gone + old, made + new, int(table.currentSnapshot().snapshotId())
    return gone, made, version


def _rewritten(jvm: Iceberg, table: Any, name: str, spec: int) -> tuple[int, int]:
    """Rewrite the manifests of one partition spec: how many there were, and how many are in their place.

    Iceberg's action rewrites those of one spec, by default of the table's current one; it commits only if it finds any.
    """
    action = jvm.static("org.apache.iceberg.spark.actions.SparkActions", "get")(jvm.session)
    try:
        done = action.rewriteManifests(table).specId(spec).execute()
    except Exception as error:
        raise _failure(name, error) from error
    table.refresh()
    return len(list(done.rewrittenManifests())), len(list(done.addedManifests()))


def _failure(name: str, error: Exception) -> CommitError:
    """Conflict or Rejected where nothing was committed, else Unknown: a catalog may answer no more once it has swapped.

    The manifests are written by Spark jobs before the commit; no catalog's error comes from Spark.
    """
    kinds = [kind for kind, _ in causes(error)]
    of_job = any(kind.startswith(_OF_SPARK) for kind in kinds) and UNKNOWN_STATE not in kinds_of_error(error)
    try:
        lost, text = (False, reason(error)) if of_job else certain_failure(name, error)
    except Unknown:
        return Unknown(
            f"{name}: whether the manifests were rewritten is not known ({reason(error)}). Look for a snapshot of the "
            "operation 'replace' in the table's history"
        )
    return (Conflict if lost else Rejected)(f"{name}: the manifests were not rewritten: {text}")
