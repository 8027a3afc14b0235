"""The commit of a rewrite: several attempts of one producer, which keeps the manifests that it has written.

    newRewrite() ─► apply() ─► snapshot, not visible yet ─► guard ─► ops.commit(base, base + snapshot) ─► done
                      ▲                                                       │ another commit came first
                      └─────────── on the newest metadata ────────────────────┘

Iceberg's own ``commit()`` retries like this, past any check of ours; here what is checked, what the snapshot is built
on and what the swap replaces are one metadata. On a table of many manifests the first ``apply()`` takes longer than the
interval between two commits of a stream, a further one about as long as writing its manifest list.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from lakekeeper.errors import Conflict, LakekeeperError, LostRace, Rejected, Unknown
from lakekeeper_iceberg.changes import RUN_ID
from lakekeeper_iceberg.commit import REPLAYED, Swapped, is_there, not_prepared, send, sequence_of
from lakekeeper_iceberg.commit_attempts import Attempts
from lakekeeper_iceberg.file_changes import Exchange
from lakekeeper_iceberg.native import Iceberg

_ATTEMPTS = 4
_PRODUCER = "org.apache.iceberg.SnapshotProducer"


def swap(jvm: Iceberg, table: Any, name: str, exchange: Exchange, attempts: Attempts) -> Swapped:
    """Commit a rewrite. Raises Conflict without a winner's name, Rejected or Unknown; deletes no data file.

    A few lost races are tried again here, as long as Iceberg finds that the rewrite still fits what won.
    """
    rescued: Sequence[Any] = ()
    for _ in range(2):
        found = _Producer(jvm, table, name, exchange, attempts, rescued).land()
        if isinstance(found, Swapped):
            return found
        rescued = found
    raise Conflict(
        f"{name}: the commit would drop {len(rescued)} equality delete files that are still needed"
    )


@dataclass(slots=True)
class _Producer:
    """One pending update. ``rescued`` deletes are taken out and put in again, as they were.

    update   Iceberg's own; it keeps its snapshot's id and its manifests from one ``apply()`` to the next
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
        """The commit; or the equality deletes that it would have dropped, and has not been made for.

        Raises as :func:`swap`. Unless the outcome is unknown, nothing is left of an update that did not land.
        """
        try:
            self.update = self._begun()
            for attempt in range(_ATTEMPTS):
                base = self._applied()
                lost = self._lost_deletes(base)
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
        except (Conflict, Rejected):
            if self.made is not None and is_there(self.table, self.name, int(self.made.snapshotId())):
                return self._done()  # an attempt that was reported as lost: it is what the last one met
            self._clean_up()
            raise
        raise AssertionError("the loop returns or raises")

    def _begun(self) -> Any:
        """The pending update.

        Iceberg drops delete files older than every data file it *keeps*, and forgets that the outputs keep an old
        sequence number (apache/iceberg 10312).
        """
        exchange, metadata = self.exchange, self.table.operations().current()
        valid_from = exchange.read_version if exchange.valid_from is None else exchange.valid_from
        try:
            rewrite = self.table.newRewrite().validateFromSnapshot(valid_from)
            if int(metadata.formatVersion()) > 1:
                # Deletes that come after the snapshot that was read go on applying to its rows in the outputs.
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
        except Exception as error:
            raise not_prepared(self.name, error) from error

    def _applied(self) -> Any:
        """Build the snapshot on the newest metadata, which is returned."""
        try:
            self.attempts.begin(self.update, str(self.table.operations().current().metadataFileLocation()))
            self.made = self.update.apply()
            return self.jvm.hidden_field(self.update, _PRODUCER, "base")
        except LakekeeperError:
            raise
        except Exception as error:
            raise not_prepared(self.name, error) from error

    def _lost_deletes(self, base: Any) -> list[Any]:
        """Equality deletes younger than the read, in the parent but not in the new snapshot: outputs need them.

        Older ones were applied by the read. Position deletes name files, and never our new ones.
        """
        io, specs = self.table.io(), self.table.specs()
        start = sequence_of(base, self.exchange.read_version)
        before, after = (
            {str(m.path()): m for m in snapshot.deleteManifests(io)}
            for snapshot in (base.currentSnapshot(), self.made)
        )

        def young(manifests: list[Any]) -> dict[str, Any]:
            found = {}
            for manifest in manifests:
                reader = self.jvm.api.ManifestFiles.readDeleteManifest(manifest, io, specs)
                try:
                    for file in self.jvm.equality_deletes(reader):
                        if int(file.dataSequenceNumber()) > start:
                            found[str(file.location())] = file
                finally:
                    reader.close()
            return found

        gone = [m for path, m in before.items() if path not in after and int(m.sequenceNumber()) > start]
        if not gone:
            return []
        here = young([m for path, m in after.items() if path not in before])
        return [file for path, file in young(gone).items() if path not in here]

    def _done(self) -> Swapped:
        with suppress(Exception):  # what happens after the swap must never look like a failed commit
            landed = self.table.operations().current().snapshot(self.made.snapshotId())
            named = self.jvm.view.java.util.HashSet(landed.allManifests(self.table.io()))
            self.jvm.hidden_call(self.update, _PRODUCER, "cleanUncommitted", ("java.util.Set", named))
            for place in self.jvm.hidden_field(self.update, _PRODUCER, "manifestLists"):
                if str(place) != str(landed.manifestListLocation()):
                    self.table.io().deleteFile(str(place))
        removed = int(self.made.summary().get("removed-delete-files") or 0)
        return Swapped(int(self.made.snapshotId()), removed - len(self.rescued))

    def _clean_up(self) -> None:
        """Delete the metadata of all attempts; what stays is left to the next vacuum."""
        with suppress(Exception):
            if self.update is not None:
                self.jvm.hidden_call(self.update, _PRODUCER, "cleanAll")
