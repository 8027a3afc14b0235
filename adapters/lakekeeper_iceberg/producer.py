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

from lakekeeper.errors import Conflict, LostRace, Rejected, Unknown, Unsupported
from lakekeeper_iceberg import executors
from lakekeeper_iceberg.changes import RUN_ID, sequence_of
from lakekeeper_iceberg.commit import REPLAYED, Swapped, is_there, preparing, send
from lakekeeper_iceberg.commit_attempts import Attempts
from lakekeeper_iceberg.dropped_sources import refuse_manifests
from lakekeeper_iceberg.file_changes import Exchange
from lakekeeper_iceberg.metadata_reads import read_again
from lakekeeper_iceberg.native import Iceberg

_ATTEMPTS = 4
_PRODUCER = "org.apache.iceberg.SnapshotProducer"
_MANIFEST = "org.apache.iceberg.ManifestFile"
_PATH_AND_SEQUENCE = ((_MANIFEST, "path", "java.lang.String"), (_MANIFEST, "sequenceNumber", "long"))


def swap(jvm: Iceberg, table: Any, name: str, exchange: Exchange, attempts: Attempts) -> Swapped:
    """Commit a rewrite. Raises Conflict (without naming the other commit), Rejected or Unknown; deletes no data file.

    A few lost races are retried here, as long as Iceberg's validation passes against the concurrent commits.
    """
    rescued: Sequence[Any] = ()
    for _ in range(2):
        found = Producer(jvm, table, name, exchange, attempts, rescued).land()
        if isinstance(found, Swapped):
            return found
        rescued = found
    raise Conflict(
        f"{name}: the commit would drop {len(rescued)} equality delete files that are still needed"
    )


@dataclass(slots=True)
class Producer:
    """One pending update. ``rescued`` deletes are removed and added again with their data sequence numbers.

    update   Iceberg's pending update; it keeps its snapshot id and manifests from one ``apply()`` to the next
    made     the snapshot of the last ``apply()``
    """

    jvm: Iceberg
    table: Any
    name: str
    exchange: Exchange
    attempts: Attempts
    rescued: Sequence[Any]
    update: Any = None
    made: Any = field(default=None, init=False)

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
                    if attempt == _ATTEMPTS - 1:
                        raise
                else:
                    return self._done()
        except Unknown:
            raise
        except (Conflict, Rejected, Unsupported):
            if self.made is not None and is_there(self.table, self.name, int(self.made.snapshotId())):
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
            for file in (*exchange.inputs, *exchange.deletes, *self.rescued):
                rewrite = rewrite.deleteFile(file)
            for file in (*exchange.outputs, *exchange.masks):
                rewrite = rewrite.addFile(file)
            for file in self.rescued:
                rewrite = rewrite.addFile(file, file.dataSequenceNumber())
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
        """:meth:`lost_deletes`, where it can be found out; raises NotSent otherwise.

        Raises Unsupported if the snapshot would lose which deletes apply to files of a spec.
        """
        with preparing(self.name):
            refuse_manifests(self.jvm, self.table, base, self.made)
            return self.lost_deletes(base)

    def lost_deletes(self, base: Any) -> list[Any]:
        """Equality deletes newer than the read snapshot that the new snapshot drops, although the outputs need them.

        Older ones were applied by the read. Position deletes never reference the new outputs.
        """
        io, specs = self.table.io(), self.table.specs()
        start = sequence_of(base, self.exchange.read_version)
        before, after = (self._manifests(snapshot, io) for snapshot in (base.currentSnapshot(), self.made))

        def young(manifests: list[Any]) -> dict[str, Any]:
            files = [file for m in manifests for file in self._equality_deletes(m, io, specs)]
            return {str(f.location()): f for f in files if int(f.dataSequenceNumber()) > start}

        lost = young([m for path, (seq, m) in before.items() if path not in after and seq > start])
        if not lost:
            return []
        here = young([m for path, (_, m) in after.items() if path not in before])
        return [file for path, file in lost.items() if path not in here]

    def _equality_deletes(self, manifest: Any, io: Any, specs: Any) -> list[Any]:
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
