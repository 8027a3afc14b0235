"""Undoes runs of maintenance by a rollback to the snapshot before them: satisfies ``spi.Undos``.

    S3 ─► S4 (run) ─► S5 (run)        main = S5        main = S3: every file, delete and row id as it was

A new commit must not exchange the files back: Iceberg's own expiry, in the programs that use its Java API, deletes the
files that an expired snapshot removed, even if a later snapshot has added them again (measured on 1.12.0). So a run can
be undone only while its snapshots are the newest.

The rollback is one swap of exactly the metadata that was checked. Catalogs check with it that ``main`` is unchanged and
that the snapshot still exists: neither a commit nor an expiry in between can be lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from lakekeeper.core.model.run_name import RunName
from lakekeeper.core.text.formatting import counted
from lakekeeper.errors import NotFound, UndoError
from lakekeeper.spi import Commit, Reversal, Undone
from lakekeeper_iceberg.changes import RUN_ID, ancestors
from lakekeeper_iceberg.commit import preparing, require_newest, swap
from lakekeeper_iceberg.native import Iceberg

_FILE = "org.apache.iceberg.ContentFile"
_PATH_AND_SIZE = ((_FILE, "location", "java.lang.String"), (_FILE, "fileSizeInBytes", "long"))
_NAMED = 3


@dataclass(frozen=True, slots=True)
class IcebergUndos:
    """Undoes runs on one table.

    ``table()`` returns the refreshed table object of a supported table; ``lock`` the lock that commits to the table
    with a given uuid hold.
    """

    jvm: Iceberg
    name: str
    table: Callable[[], Any]
    lock: Callable[[str], AbstractContextManager[Any]]

    def find(self, run: RunName) -> Reversal | Undone:
        """See ``spi.Undos.find``."""
        table = self.table()
        base = table.operations().current()
        ours = self._ours(base, run)
        if isinstance(ours, Undone):
            return ours
        changed = next((each for each in ours if str(each.operation()) != "replace"), None)
        if changed is not None:
            raise UndoError(
                self.name, f"{_text(changed)} changed rows; only merges can be undone; nothing was written"
            )
        before = ours[-1].parentId()
        if before is None or base.snapshot(before) is None:
            raise UndoError(
                self.name,
                f"the snapshot before run {run} has expired, so the run cannot be undone any more; nothing was written",
            )
        files = self._files(table, ours)
        return Reversal(
            before=int(before),
            seen=int(ours[0].snapshotId()),
            table_uuid=str(base.uuid()),
            restored=files.restored,
            removed=files.removed,
            needed=tuple(sorted(files.deletes)),
            rollback=True,
            native=base,
        )

    def _ours(self, base: Any, run: RunName) -> list[Any] | Undone:
        """The snapshots of a run, newest first. Raises UndoError unless they are the newest, NotFound without any."""
        ours: list[Any] = []
        later: list[Any] = []
        between: list[Any] = []
        for snapshot in ancestors(base, base.currentSnapshot()):
            if run.means(str(snapshot.summary().get(RUN_ID) or "")):
                later += between
                between = []
                ours.append(snapshot)
            else:
                between.append(snapshot)
            if ours and str(ours[-1].summary().get(RUN_ID)) in (str(run), f"{run.operation}-1"):
                break
        if later:
            named = ", ".join(map(_text, later[:_NAMED])) + (" …" if len(later) > _NAMED else "")
            raise UndoError(
                self.name,
                f"{counted(len(later), 'commit')} of others since run {run} began ({named}) would be lost, since on "
                "Iceberg an undo is a rollback; nothing was written. Recluster or compact with other options instead",
            )
        if ours:
            return ours
        known = base.snapshots()
        summaries = self.jvm.maps(known, "org.apache.iceberg.Snapshot", "summary")
        off = [known[i] for i, summary in enumerate(summaries) if run.means(summary.get(RUN_ID, ""))]
        if not off:
            raise NotFound(self.name, f"it has no snapshot of run {run}: never committed, or expired")
        before = {each.parentId() for each in off}
        if between[-1].parentId() is None or any(at.snapshotId() in before for at in between):
            return Undone(int(base.currentSnapshot().snapshotId()))
        raise UndoError(
            self.name,
            f"snapshots since run {run} have expired, so it is not known whether it was undone; nothing was written",
        )

    def _files(self, table: Any, ours: Sequence[Any]) -> _Files:
        files = _Files()
        for snapshot in reversed(ours):
            built = self.jvm.api.SnapshotChanges.builderFor(table).snapshot(snapshot).build()
            for path, size in self._sizes(built.removedDataFiles()):
                if files.removed.pop(path, None) is None:
                    files.restored[path] = size
            files.removed.update(self._sizes(built.addedDataFiles()))
            made = {path for path, _ in self._sizes(built.addedDeleteFiles())}
            files.deletes |= {
                path for path, _ in self._sizes(built.removedDeleteFiles()) if path not in files.masks
            }
            files.masks |= made
        return files

    def _sizes(self, files: Any) -> Iterator[tuple[str, int]]:
        return ((path, int(size)) for path, size in self.jvm.records(files, _FILE, _PATH_AND_SIZE))

    def commit(self, reversal: Reversal, run_id: str) -> Commit:
        """See ``spi.Undos.commit``. The log does not record ``run_id``: a rollback makes no snapshot."""
        with self.lock(reversal.table_uuid):
            with preparing(self.name):
                table = self.table()
                require_newest(self.jvm, self.name, table)
                updated = self.jvm.api.TableMetadata.buildFrom(reversal.native).setBranchSnapshot(
                    reversal.before, "main"
                )
                updated = updated.build()
            swap(self.name, "the undo", table, reversal.native, updated)
        return Commit(reversal.before, run_id, tuple(reversal.removed), tuple(reversal.restored))

    def landed(self, reversal: Reversal, run_id: str) -> int | None:
        """See ``spi.Undos.landed``: whether ``main`` has left the snapshots of the run and not the one before it."""
        base = self.table().operations().current()
        if str(base.uuid()) != reversal.table_uuid:
            return None
        line = {int(snapshot.snapshotId()) for snapshot in ancestors(base, base.currentSnapshot())}
        current = base.currentSnapshot()
        gone = reversal.seen not in line and reversal.before in line
        return int(current.snapshotId()) if gone else None


@dataclass(slots=True)
class _Files:
    """What a rollback exchanges: data files that come back and leave, and delete files that come back.

    ``masks`` are delete files that the run itself added.
    """

    restored: dict[str, int] = field(default_factory=dict)
    removed: dict[str, int] = field(default_factory=dict)
    deletes: set[str] = field(default_factory=set)
    masks: set[str] = field(default_factory=set)


def _text(snapshot: Any) -> str:
    return f"snapshot {snapshot.snapshotId()} ({snapshot.operation()})"
