"""Snapshot expiration: one atomic swap that removes snapshots and refs from the metadata; deletes no file.

    versions() ─► base ─► its garbage        concurrent commits ─► newest ─► ops.commit(newest, newest − expired)
                                                                                    │
                 garbage − files that snapshots newer than base reference ◄─────────┘

The garbage was found for ``base``. Newer metadata has some or all of its snapshots, and new ones: only the new ones can
reference a file again, so only they are read, after the swap. With a writer that commits every second, the swap is
repeated, but the garbage is not computed again. A REST catalog removes the snapshots from the metadata that is current
when it handles the request, so the metadata is read again after the commit (apache/iceberg ``RemoveSnapshots``,
``UpdateRequirements``).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from lakekeeper.errors import AdapterError, Conflict, LakekeeperError, LostRace, Rejected, Unknown, reason
from lakekeeper_iceberg.commit import certain_failure
from lakekeeper_iceberg.garbage import log_files
from lakekeeper_iceberg.native import Iceberg
from lakekeeper_iceberg.reachability import Reach, keys_of, metadata_paths, path_key, snapshot_ids


@dataclass(frozen=True, slots=True)
class Expiry:
    """The expiration of snapshots and refs selected from the metadata ``base`` of a table."""

    jvm: Iceberg
    table: Any
    name: str
    base: Any

    def commit(self, gone: Collection[int], names: Collection[str]) -> Any:
        """Remove snapshots and refs (``names``) from the newest metadata; returns the metadata after the commit.

        Raises LostRace if another commit was first, Conflict if one invalidated the plan, Rejected if nothing was
        committed, or Unknown if the outcome is unknown or the commit was applied to metadata changed by another commit.
        """
        newest = self._newest()
        self._require_same(newest, gone, names)
        left = [version for version in gone if newest.snapshot(version) is not None]
        named = [ref for ref in names if newest.ref(ref) is not None]
        if not left and not named:
            return newest
        updated = self._without(newest, left, named)
        try:
            self.table.operations().commit(newest, updated)
        except Exception as error:
            lost, text = certain_failure(self.name, error)
            if self._is_there(left, named):
                if lost:
                    raise LostRace(f"{self.name}: {text}") from error
                raise Rejected(f"{self.name}: the catalog refused to expire snapshots: {text}") from error
            # They are gone: a client that retries a commit may conflict with its first attempt (apache/iceberg 12818).
        return self._after(newest, named)

    def require_dead(self, gone: Collection[int], files: Collection[str]) -> None:
        """Raise Conflict if a commit since ``base`` made one of the snapshots or files live; expires none."""
        newest = self._newest()
        self._require_same(newest, gone, ())
        if back := self._named_since(newest, files):
            raise Conflict(
                f"{self.name}: a commit references {len(back):,} files that were to go ({min(back)})"
            )

    def named_since(self, newest: Any, files: Collection[str]) -> set[str]:
        """The ``files`` that ``newest`` references itself or through a snapshot newer than ``base``."""
        try:
            return self._named_since(newest, files)
        except LakekeeperError:
            raise
        except Exception as error:
            raise AdapterError(
                f"{self.name}: snapshots have expired, but the new metadata cannot be read ({reason(error)}); "
                "no file was deleted; the next vacuum deletes them"
            ) from error

    def _named_since(self, newest: Any, files: Collection[str]) -> set[str]:
        place = newest.metadataFileLocation()  # some REST catalogs name none
        if place is not None and str(place) == str(self.base.metadataFileLocation()):
            return set()
        reach = Reach(self.jvm, self.name, self.table.io(), newest)
        before = {int(ref.snapshotId()) for ref in dict(self.base.refs()).values()}
        known = set(snapshot_ids(Reach(self.jvm, self.name, self.table.io(), self.base)))
        present = set(snapshot_ids(reach))
        manifests = reach.manifests(present - known)
        # Manifests of the heads in ``base`` were already checked; new snapshots share most of their manifests.
        fresh = self.jvm.view.java.util.HashSet(manifests)
        fresh.removeAll(reach.manifests(before & present))
        named = keys_of([*reach.paths(manifests), *metadata_paths(reach), *log_files(newest)])
        left = keys_of(files) - named
        unreached = reach.new_set()
        unreached.addAll(self.jvm.strings(left))
        reach.strike(self.jvm.items(fresh), unreached)
        named |= left - reach.texts(unreached)
        return {path for path in files if path_key(path) in named}

    def _newest(self) -> Any:
        try:
            self.table.refresh()
            newest = self.table.operations().current()
        except Exception as error:
            raise AdapterError(f"{self.name}: the metadata cannot be read ({reason(error)})") from error
        self.jvm.refuse_missed_version(self.name, self.table.operations())
        return newest

    def _require_same(self, newest: Any, gone: Collection[int], names: Collection[str]) -> None:
        """Raise Conflict if a commit since ``base`` changed the uuid, location, ``gc.enabled`` or a ref to expire."""
        if str(newest.uuid()) != str(self.base.uuid()):
            raise Conflict(f"{self.name}: the table was dropped and created again under its name")
        if str(newest.location()) != str(self.base.location()):
            raise Conflict(f"{self.name}: the location of the table was changed")
        if str(newest.properties().get("gc.enabled") or "true").lower() != "true":
            raise Conflict(f"{self.name}: gc.enabled was set to false")
        due = set(gone)
        for name, ref in dict(newest.refs()).items():
            head, old = int(ref.snapshotId()), self.base.ref(str(name))
            if str(name) in names:
                if old is None or not old.equals(ref):
                    raise Conflict(f"{self.name}: {name} was about to expire and was changed")
            elif head in due:
                raise Conflict(
                    f"{self.name}: {name} now points at snapshot {head}, which was about to expire"
                )

    def _without(self, newest: Any, gone: Sequence[int], names: Sequence[str]) -> Any:
        """The metadata without these snapshots, their statistics and these refs; Rejected if it would lose more."""
        builder = self.jvm.api.TableMetadata.buildFrom(newest)
        for ref in names:
            builder = builder.removeRef(ref)
        if gone:
            builder = builder.removeSnapshots(
                self.jvm.array_list(newest.snapshot(version) for version in gone)
            )
        updated = builder.build()
        refs = {str(ref) for ref in newest.refs()} - set(names)
        kept = int(newest.snapshots().size()) - len(gone)
        if {str(ref) for ref in updated.refs()} != refs or int(updated.snapshots().size()) != kept:
            raise Rejected(
                f"{self.name}: expiring {len(gone):,} snapshots would also remove other branches or tags; "
                "nothing was committed"
            )
        return updated

    def _is_there(self, gone: Sequence[int], names: Collection[str]) -> bool:
        """Whether the metadata, read again, still has any of these snapshots (if there are none: of these refs)."""
        try:
            self.table.refresh()
            current = self.table.operations().current()
            if gone:
                return any(current.snapshot(version) is not None for version in gone)
            return any(str(ref) in names for ref in current.refs())
        except Exception as error:
            raise Unknown(
                f"{self.name}: the expiry was refused, and the metadata cannot be read ({reason(error)})"
            ) from error

    def _after(self, before: Any, names: Sequence[str]) -> Any:
        """The metadata after the expiry. Raises Unknown if a ref to keep is missing (REST catalogs only)."""
        newest = self._newest()
        if not self.jvm.over_http(self.table):
            return newest
        missing = {str(ref) for ref in before.refs()} - {str(ref) for ref in newest.refs()} - set(names)
        if missing:
            raise Unknown(
                f"{self.name}: while snapshots expired, another commit removed {', '.join(sorted(missing))} or moved "
                "it to one of them; no file was deleted"
            )
        return newest
