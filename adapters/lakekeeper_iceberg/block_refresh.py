"""Blocks of an earlier snapshot, brought up to date from the manifests that it did not have.

    snapshot 1    m1  m2  m3
    snapshot 2    m1      m3  m4        m4 is read; what m2 listed leaves; deletes are matched again

A manifest never changes, and each live file is listed by exactly one manifest of a snapshot. So the files of manifests
that both snapshots have are as they were, whatever came between the two: commits, a rollback, expired snapshots.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakekeeper.core.model.block_changes import joined, with_deletes
from lakekeeper.core.model.blocks import BlockSet
from lakekeeper.core.model.keys import ClusterKey
from lakekeeper_iceberg import small_listing
from lakekeeper_iceberg.blocks import added_times, blocks_of
from lakekeeper_iceberg.commits import Commits
from lakekeeper_iceberg.deletes import apply_deletes
from lakekeeper_iceberg.listing import Listing
from lakekeeper_iceberg.native import Iceberg
from lakekeeper_iceberg.small_listing import checksum

_MANIFEST = "org.apache.iceberg.ManifestFile"
LISTED = "listing"
"""Name in a snapshot's memo: the listing from which it is brought up to date."""
_KEPT = ("path", "rows", "seq", "file_seq", "spec", "partition", "snapshot_id", "manifest")


@dataclass(frozen=True, slots=True)
class Listed:
    """What a snapshot's blocks were made of: the listing, row for row as the blocks, and the paths of its manifests.

    ``facts`` are the parts of the metadata on which a listing depends.
    """

    facts: tuple[str, ...]
    listing: Listing
    manifests: frozenset[str]

    @property
    def nbytes(self) -> int:
        """Memory in bytes."""
        return int(self.listing.data.nbytes + self.listing.deletes.nbytes)


@dataclass(frozen=True, slots=True)
class Look:
    """A pinned table, and how its blocks are made: the key, its metrics modes, and the commits that are known.

    ``unpartitioned`` are the partition specs without fields.
    """

    jvm: Iceberg
    pinned: Any
    key: ClusterKey | None
    modes: Sequence[str]
    commits: Commits
    unpartitioned: frozenset[int]

    @property
    def metrics(self) -> list[str]:
        """The key columns in Iceberg's spelling."""
        return [".".join(column.path) for column in self.key.columns] if self.key else []


def listed(look: Look, listing: Listing) -> Listed | None:
    """What to keep of a listing, without column statistics; None if it does not say which manifest lists each file."""
    manifests = frozenset(_paths(look, look.pinned.currentSnapshot().allManifests(look.pinned.io())))
    if not _distinct(manifests) or not _from(listing, manifests):
        return None
    return Listed(_facts(look), Listing(listing.data.select(_KEPT), listing.deletes), manifests)


def refreshed(look: Look, kept: Listed, blocks: BlockSet) -> tuple[BlockSet, Listed] | None:
    """The blocks of the newest snapshot, from those that ``kept`` belongs to, and what to keep of them.

    None if the listing depends on something that has changed, if most manifests are new, so that a whole read is as
    cheap, or if the driver cannot list them.
    """
    now = _manifests(look)
    unseen, gone = now.keys() - kept.manifests, kept.manifests - now.keys()
    many = len(unseen) > max(len(now) // 2, 1)
    if many or _facts(look) != kept.facts or not _distinct(kept.manifests | now.keys()):
        return None
    found = small_listing.list_manifests(
        look.jvm, look.pinned, [now[path] for path in sorted(unseen)], look.metrics
    )
    if found is None:
        return None
    fresh = Listing(*found)
    stay = _without(kept.listing.data, gone)
    listing = Listing(
        _joined(kept.listing.data, stay, fresh.data),
        _joined(kept.listing.deletes, _without(kept.listing.deletes, gone), fresh.deletes),
    )
    undeleted = apply_deletes(Listing(fresh.data, fresh.deletes.slice(0, 0)), look.unpartitioned)
    added = blocks_of(fresh, undeleted, look.key, look.modes, look.commits.at)
    applied = apply_deletes(listing, look.unpartitioned, committed_at=look.commits.at)
    whole = with_deletes(
        joined(blocks.take(stay), added),
        applied.delete_id,
        applied.deleted_rows,
        applied.delete_bytes,
        applied.counted,
        delete_files=applied.delete_files,
        delete_rows=applied.delete_rows,
        deleted_at=applied.deleted_at,
    )
    whole = added_times(whole, listing.data["snapshot_id"], look.commits.at)
    return whole, Listed(kept.facts, listing, frozenset(now))


def _facts(look: Look) -> tuple[str, ...]:
    metadata = look.pinned.operations().current()
    specs = sorted(str(spec) for spec in look.jvm.items(metadata.specs()))
    return (
        str(metadata.uuid()),
        str(metadata.formatVersion()),
        str(metadata.currentSchemaId()),
        str(metadata.defaultSpecId()),
        *specs,
        str(look.key.key_id if look.key else ""),
        *look.metrics,
        *look.modes,
    )


def _manifests(look: Look) -> dict[str, Any]:
    """Path → manifest of the current snapshot; reads the manifest list, and no manifest."""
    snapshot = look.pinned.currentSnapshot()
    if snapshot is None:
        return {}
    found = snapshot.allManifests(look.pinned.io())
    return dict(zip(_paths(look, found), look.jvm.items(found), strict=True))


def _paths(look: Look, manifests: Any) -> list[str]:
    return look.jvm.values_of(manifests, _MANIFEST, "path", "java.lang.String")


def _distinct(paths: Collection[str]) -> bool:
    """Whether no two manifests have the same checksum."""
    return len({checksum(path) for path in paths}) == len(paths)


def _from(listing: Listing, manifests: Collection[str]) -> bool:
    """Whether each file of a listing is listed by one of these manifests."""
    known = {checksum(path) for path in manifests}
    tables = (listing.data, listing.deletes)
    return all(
        "manifest" in table.column_names and known.issuperset(pc.unique(table["manifest"]).to_pylist())
        for table in tables
    )


def _without(table: pa.Table, gone: Collection[str]) -> npt.NDArray[np.bool_]:
    """The rows that are not listed by one of these manifests."""
    named = pa.array(sorted(map(checksum, gone)), table["manifest"].type)
    hit = pc.is_in(table["manifest"], value_set=named)
    return np.asarray(pc.invert(hit).to_numpy(), np.bool_)


def _joined(kept: pa.Table, stay: npt.NDArray[np.bool_], fresh: pa.Table) -> pa.Table:
    """The rows that stay, followed by new ones, in the columns that are kept."""
    added = fresh.select(kept.column_names).cast(kept.schema)
    return pa.concat_tables([kept.filter(pa.array(stay)), added]).combine_chunks()
