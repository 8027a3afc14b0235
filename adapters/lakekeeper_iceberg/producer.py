"""The commit of a rewrite: several attempts with one SnapshotProducer, which reuses the manifests it has written.

    newRewrite() ─► apply() ─► snapshot, not yet visible ─► check ─► ops.commit(base, base + snapshot) ─► done
                      ▲                                                       │ another commit was first
                      └─────────── on the newest metadata ────────────────────┘

Iceberg's own ``commit()`` retries in the same way, but bypasses our checks; here the check, the snapshot and the swap
have the same base metadata. On a table with many manifests, the first ``apply()`` takes longer than the interval
between two commits of a streaming writer; a further one takes about as long as writing its manifest list.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from lakekeeper.core.text.formatting import counted
from lakekeeper.errors import Conflict, LostRace, Rejected, Unknown, Unsupported
from lakekeeper_iceberg import executors
from lakekeeper_iceberg.changes import RUN_ID, sequence_of
from lakekeeper_iceberg.commit import REPLAYED, Swapped, is_there, preparing, send
from lakekeeper_iceberg.commit_attempts import Attempts
from lakekeeper_iceberg.dropped_sources import fields_without_source, refuse_manifests
from lakekeeper_iceberg.equality_copies import copies_of
from lakekeeper_iceberg.file_changes import Exchange
from lakekeeper_iceberg.metadata_reads import read_again
from lakekeeper_iceberg.native import Iceberg
from lakekeeper_iceberg.staging import delete_own

_ATTEMPTS = 4
_PRODUCER = "org.apache.iceberg.SnapshotProducer"
_DATA_FILE = "org.apache.iceberg.DataFile"
_MANIFEST = "org.apache.iceberg.ManifestFile"
_PATH_AND_SEQUENCE = ((_MANIFEST, "path", "java.lang.String"), (_MANIFEST, "sequenceNumber", "long"))


def swap(jvm: Iceberg, table: Any, name: str, exchange: Exchange, attempts: Attempts) -> Swapped:
    """Commit a rewrite. Raises Conflict (without naming the other commit), Rejected or Unknown; deletes no data file.

    A few lost races are retried here, as long as Iceberg's validation passes against the concurrent commits.
    """
    lost = Producer(jvm, table, name, exchange, attempts).land()
    if isinstance(lost, Swapped):
        return lost
    with preparing(name):
        copies = copies_of(jvm, table, lost, attempts.run)
    try:
        more = Producer(jvm, table, name, exchange, attempts, tuple(zip(lost, copies, strict=True))).land()
        if isinstance(more, Swapped):
            return more
        raise Conflict(
            f"{name}: the commit would drop {counted(len(more), 'equality delete file')} that its outputs need"
        )
    except (Conflict, Rejected, Unsupported):
        with suppress(Exception):  # left to a vacuum, which finds the folder of the run
            delete_own(jvm, table, [str(copy.location()) for copy in copies])
        raise


@dataclass(slots=True)
class Producer:
    """One pending update.

    rescued  (equality delete file, its copy): the copy replaces it, with the same data sequence number
    update   Iceberg's pending update; it keeps its snapshot id and manifests from one ``apply()`` to the next
    made     the snapshot of the last ``apply()``
    refused  a swap to ``made`` was reported as lost; a later read of the table shows whether it landed after all
    """

    jvm: Iceberg
    table: Any
    name: str
    exchange: Exchange
    attempts: Attempts
    rescued: Sequence[tuple[Any, Any]] = ()
    update: Any = None
    made: Any = field(default=None, init=False)
    refused: bool = field(default=False, init=False)

    def land(self) -> Swapped | Sequence[Any]:
        """Commit; or return the equality deletes that the commit would drop, without committing.

        Raises like :func:`swap`. Unless the outcome is unknown, the metadata files of a failed update are deleted.
        """
        try:
            self.update = self._begun()
            for attempt in range(_ATTEMPTS):
                base = self._applied()
                lost = self._checked(base)
                if lost:
                    self._clean_up()
                    return lost
                try:
                    send(self.jvm, self.table, self.name, base, self.made)
                except LostRace:
                    self.refused = True
                    if attempt == _ATTEMPTS - 1:
                        raise
                else:
                    return self._done()
        except Unknown:
            raise
        except (Conflict, Rejected, Unsupported):
            if self.refused and is_there(self.table, self.name, int(self.made.snapshotId())):
                return self._done()  # an attempt reported as lost was committed; the last one met it
            self._clean_up()
            raise
        raise AssertionError("the loop returns or raises")

    def _begun(self) -> Any:
        """The pending update.

        Iceberg drops delete files that are older than all data files it *keeps*, and ignores that the outputs keep an
        old sequence number (apache/iceberg 10312).
        """
        exchange = self.exchange
        valid_from = exchange.read_version if exchange.valid_from is None else exchange.valid_from
        with preparing(self.name):
            metadata = self.table.operations().current()
            pool = executors.for_commits(self.jvm, self.table)
            rewrite = self.table.newRewrite().validateFromSnapshot(valid_from)
            if pool is not None:
                rewrite = rewrite.scanManifestsWith(pool)
            if int(metadata.formatVersion()) > 1:
                # Equality deletes added after the snapshot that was read must also apply to the outputs.
                rewrite = rewrite.dataSequenceNumber(sequence_of(metadata, exchange.read_version))
            for file in (*exchange.inputs, *exchange.deletes, *(old for old, _ in self.rescued)):
                rewrite = rewrite.deleteFile(file)
            for file in (*exchange.outputs, *exchange.masks):
                rewrite = rewrite.addFile(file)
            for old, copy in self.rescued:
                rewrite = rewrite.addFile(copy, old.dataSequenceNumber())
            if exchange.replayed:
                rewrite = rewrite.set(REPLAYED, str(exchange.replayed))
            return rewrite.set(RUN_ID, exchange.run_id)

    def _applied(self) -> Any:
        """Build the snapshot on the newest metadata; returns that metadata."""
        with preparing(self.name):
            self.attempts.begin(self.update, str(self.table.operations().current().metadataFileLocation()))
            self.made = self.update.apply()
            return self.jvm.hidden_field(self.update, _PRODUCER, "base")

    def _checked(self, base: Any) -> list[Any]:
        """Like :meth:`lost_deletes`, but raises NotSent if the metadata cannot be read.

        Raises Unsupported if the snapshot would lose which deletes apply to files of a spec, and Rejected if rows would
        move into or out of the partition of an equality delete that is newer than the read, or would get new ids.
        """
        with preparing(self.name):
            refuse_manifests(self.jvm, self.table, base, self.made)
            self._refuse_moved(base)
            self._refuse_upgraded(base)
            return self.lost_deletes(base)

    def _refuse_moved(self, base: Any) -> None:
        """Raise Rejected if rows move to another partition spec, and either spec has a young equality delete.

        An equality delete applies only to its own partition. Rows move if a source column of their spec was dropped
        (see ``staging``).
        """
        specs = {int(spec.specId()): spec for spec in self.jvm.items(base.specs())}
        left = {number for number, spec in specs.items() if fields_without_source(spec, base.schema())}
        if not left:
            return
        inputs, outputs = self._specs_of(self.exchange.inputs), self._specs_of(self.exchange.outputs)
        moved = left & inputs
        # Deletes of an unpartitioned spec are global: they apply before and after the move.
        concerned = {n for n in moved | outputs if specs[n].isPartitioned()}
        if not moved or not concerned:
            return
        start = sequence_of(base, self.exchange.read_version)
        manifests = self._manifests(base.currentSnapshot(), self.table.io()).values()
        young = self._young([manifest for seq, manifest in manifests if seq > start], start)
        if any(int(delete.specId()) in concerned for delete in young.values()):
            raise Rejected(
                f"{self.name}: equality deletes were committed during the merge, which moves rows to another partition "
                "spec because a source column of theirs was dropped; merge again while no stream deletes rows"
            )

    def _specs_of(self, files: Sequence[Any]) -> set[int]:
        found = self.jvm.values_of(self.jvm.array_list(files), _DATA_FILE, "specId", "int")
        return {int(number) for number in found}

    def _refuse_upgraded(self, base: Any) -> None:
        """Raise Rejected if rows were assigned ids after they were read: those in the outputs would get other ids.

        The first commit after an upgrade to format 3 assigns an id to each row.
        """
        if int(base.formatVersion()) < 3:
            return
        read, now = base.snapshot(self.exchange.read_version), base.currentSnapshot()
        if read is not None and read.firstRowId() is None and now.firstRowId() is not None:
            raise Rejected(
                f"{self.name}: the table's rows were assigned row ids during the merge, the first since its upgrade to "
                "format 3; merge again"
            )

    def lost_deletes(self, base: Any) -> list[Any]:
        """Equality deletes newer than the read snapshot that the new snapshot drops, although the outputs need them.

        Older ones were applied by the read. Position deletes never reference the new outputs.
        """
        io = self.table.io()
        start = sequence_of(base, self.exchange.read_version)
        before, after = (self._manifests(snapshot, io) for snapshot in (base.currentSnapshot(), self.made))
        lost = self._young(
            [m for path, (seq, m) in before.items() if path not in after and seq > start], start
        )
        if not lost:
            return []
        here = self._young([m for path, (_, m) in after.items() if path not in before], start)
        copies = {str(old.location()): str(copy.location()) for old, copy in self.rescued}
        return [file for path, file in lost.items() if copies.get(path, path) not in here]

    def _young(self, manifests: Sequence[Any], start: int) -> dict[str, Any]:
        """Path → equality delete file, of those in the manifests that are newer than a sequence number."""
        found: list[Any] = []
        for manifest in manifests:
            found += self._equality_deletes(manifest)
        return {str(f.location()): f for f in found if int(f.dataSequenceNumber()) > start}

    def _equality_deletes(self, manifest: Any) -> list[Any]:
        io, specs = self.table.io(), self.table.specs()
        return read_again(lambda: self.jvm.equality_deletes_of(manifest, io, specs))

    def _manifests(self, snapshot: Any, io: Any) -> dict[str, tuple[int, Any]]:
        """Path → sequence number and manifest, of the delete manifests of a snapshot."""
        manifests = read_again(lambda: snapshot.deleteManifests(io))
        records = self.jvm.records(manifests, _MANIFEST, _PATH_AND_SEQUENCE)
        files = zip(records, self.jvm.items(manifests), strict=True)
        return {path: (int(seq), manifest) for (path, seq), manifest in files}

    def _done(self) -> Swapped:
        with suppress(Exception):  # an error after the swap must never be reported as a failed commit
            landed = self.table.operations().current().snapshot(self.made.snapshotId())
            named = self.jvm.view.java.util.HashSet(landed.allManifests(self.table.io()))
            self.jvm.hidden_call(self.update, _PRODUCER, "cleanUncommitted", ("java.util.Set", named))
            for place in self.jvm.texts(self.jvm.hidden_field(self.update, _PRODUCER, "manifestLists")):
                if place != str(landed.manifestListLocation()):
                    self.table.io().deleteFile(place)
        removed = int(self.made.summary().get("removed-delete-files") or 0)
        return Swapped(int(self.made.snapshotId()), removed - len(self.rescued))

    def _clean_up(self) -> None:
        """Delete the metadata files of all attempts; the next vacuum deletes what remains."""
        with suppress(Exception):
            if self.update is not None:
                self.jvm.hidden_call(self.update, _PRODUCER, "cleanAll")
