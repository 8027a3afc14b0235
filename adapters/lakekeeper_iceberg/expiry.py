"""One atomic swap that takes snapshots and names out of the metadata; no file is deleted here.

    versions() ─► base ─► garbage of it          commits of others ─► newest ─► ops.commit(newest, newest − gone)
                                                                                    │
                 garbage − what snapshots that came after base name ◄───────────────┘

The garbage was found for ``base``. A newer state has the same snapshots or fewer of them, and new ones: only what these
name can make a file needed again, so that they alone are read, and after the swap. A writer that commits every second
costs a repeated swap and no second look. A catalog asked over HTTP removes the snapshots from whatever is newest by
then, so the metadata is read again after the commit (apache/iceberg ``RemoveSnapshots``, ``UpdateRequirements``).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from lakekeeper.errors import AdapterError, Conflict, LakekeeperError, LostRace, Rejected, Unknown, reason
from lakekeeper_iceberg.commit import told_not_done
from lakekeeper_iceberg.garbage import log_files
from lakekeeper_iceberg.native import Iceberg
from lakekeeper_iceberg.reachability import Reach, keys_of, metadata_paths, path_key, snapshot_ids


@dataclass(frozen=True, slots=True)
class Expiry:
    """The expiry of what was found to be due in the metadata ``base`` of a table."""

    jvm: Iceberg
    table: Any
    name: str
    base: Any

    def commit(self, gone: Collection[int], names: Collection[str]) -> Any:
        """Take snapshots and names out of the newest metadata; the metadata after that.

        Raises LostRace where another commit came first, Conflict where one changed what the plan rests on, Rejected
        (not done), or Unknown (not known, or done to a state that another commit had changed).
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
            lost, text = told_not_done(self.name, error)
            if self._is_there(left, named):
                if lost:
                    raise LostRace(f"{self.name}: {text}") from error
                raise Rejected(f"{self.name}: the catalog refused to expire snapshots: {text}") from error
            # They are gone all the same: a client that sends a commit again loses to itself (apache/iceberg 12818).
        return self._after(newest, named)

    def named_since(self, newest: Any, files: Collection[str]) -> set[str]:
        """Those of ``files`` that a snapshot after ``base``, or the log itself, names in ``newest``."""
        if str(newest.metadataFileLocation()) == str(self.base.metadataFileLocation()):
            return set()
        try:
            return self._named_since(newest, files)
        except LakekeeperError:
            raise
        except Exception as error:
            raise AdapterError(
                f"{self.name}: snapshots have expired, but the newer metadata cannot be read ({reason(error)}); "
                "no file was deleted, the next vacuum deletes them"
            ) from error

    def _named_since(self, newest: Any, files: Collection[str]) -> set[str]:
        reach = Reach(self.jvm, self.name, self.table.io(), newest)
        before = {int(ref.snapshotId()) for ref in dict(self.base.refs()).values()}
        known = set(snapshot_ids(Reach(self.jvm, self.name, self.table.io(), self.base)))
        present = set(snapshot_ids(reach))
        manifests = reach.manifests(present - known)
        # What a head named already was looked through; most manifests of the new snapshots are those.
        fresh = self.jvm.view.java.util.HashSet(manifests)
        fresh.removeAll(reach.manifests(before & present))
        named = keys_of([*reach.paths(manifests), *metadata_paths(reach), *log_files(newest)])
        left = keys_of(files) - named
        asked = reach.new_set()
        asked.addAll(self.jvm.strings(left))
        reach.strike(list(self.jvm.view.java.util.ArrayList(fresh)), asked)
        named |= left - reach.texts(asked)
        return {path for path in files if path_key(path) in named}

    def _newest(self) -> Any:
        try:
            self.table.refresh()
            newest = self.table.operations().current()
        except Exception as error:
            raise AdapterError(f"{self.name}: the metadata cannot be read ({reason(error)})") from error
        if self.jvm.has_missed_a_version(self.table.operations()):
            raise AdapterError(f"{self.name}: the newest metadata could not be read before")
        return newest

    def _require_same(self, newest: Any, gone: Collection[int], names: Collection[str]) -> None:
        """Raise Conflict where a commit since ``base`` changed more than what a writer of rows changes."""
        if str(newest.uuid()) != str(self.base.uuid()):
            raise Conflict(f"{self.name}: the table was dropped and created again under its name")
        if str(newest.location()) != str(self.base.location()):
            raise Conflict(f"{self.name}: the table was given another location")
        if str(newest.properties().get("gc.enabled") or "true").lower() != "true":
            raise Conflict(f"{self.name}: gc.enabled was set to false")
        due = set(gone)
        for name, ref in dict(newest.refs()).items():
            head, old = int(ref.snapshotId()), self.base.ref(str(name))
            if str(name) in names:
                if old is None or not old.equals(ref):
                    raise Conflict(f"{self.name}: {name}, which was to expire, was changed")
            elif head in due:
                raise Conflict(f"{self.name}: {name} names snapshot {head} now, which was to expire")

    def _without(self, newest: Any, gone: Sequence[int], names: Sequence[str]) -> Any:
        """The metadata without these snapshots, their statistics and these names; Rejected if anything else went."""
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
                f"{self.name}: without {len(gone)} snapshots, names of others would go too; nothing was committed"
            )
        return updated

    def _is_there(self, gone: Sequence[int], names: Collection[str]) -> bool:
        """Does the log, read again, still have any of what was to go?"""
        try:
            self.table.refresh()
            current = self.table.operations().current()
            if gone:
                return any(current.snapshot(version) is not None for version in gone)
            return any(str(ref) in names for ref in current.refs())
        except Exception as error:
            raise Unknown(
                f"{self.name}: the expiry was refused, and the log cannot be read ({reason(error)})"
            ) from error

    def _after(self, before: Any, names: Sequence[str]) -> Any:
        """The metadata after the expiry. Raises Unknown where it cost a name that was to stay."""
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
