"""The part of the SPI that a vacuum uses: a table's files, as the storage and the log show them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from lakekeeper.core.model.reason import Reason
from lakekeeper.core.vacuum.path_guard import Grounds
from lakekeeper.core.vacuum.retention import Kept, Versions
from lakekeeper.core.vacuum.stream_positions import SinkCommit
from lakekeeper.core.vacuum.vacuum_plan import (
    NO_BACKLOG,
    Backlog,
    Doomed,
    FileInfo,
    Garbage,
)


@dataclass(frozen=True, slots=True)
class MetadataChange:
    """The result of compacting metadata, or what a dry run predicts.

    files_before, files_after   metadata files that planning opens before and after
    version                     the version of the compacted metadata; None if it is unchanged
    reason                      what was done, or why nothing was
    """

    files_before: int
    files_after: int
    version: int | None
    reason: Reason


class Storage(Protocol):
    """The table's files as a vacuum sees them.

    Paths are full locations, decoded: ``scheme:[//authority]/step/step``. Only :meth:`files`, :meth:`left_by` and
    :meth:`foreign_tables` list; only :meth:`delete`, :meth:`move` and :meth:`forget` change files. A *run* is the name
    of its folder (:func:`lakekeeper.core.model.run_folders.run_folder`). All methods raise AdapterError if the storage
    or the log does not respond, and never return a partial result: a partial result could delete whole tables.
    """

    @property
    def grounds(self) -> Grounds:
        """Where files of the table may be deleted."""
        ...

    def allowing(self, locations: Sequence[str]) -> Storage:
        """The same storage, which also lists and deletes in folders that the table declares below these locations."""
        ...

    def same_table(self, table_uuid: str, version: int | None) -> bool:
        """Whether this table has, or had at ``version``, the id ``table_uuid``.

        Files may be cleaned up on True alone: it is False if the log no longer shows what the table had at ``version``.
        Raises AdapterError if the log does not respond, so that no unanswered question counts as False.
        """
        ...

    def versions(self, since: int | None = None) -> Versions:
        """All versions that the log still knows, freshly read; versions before ``since`` may be left out."""
        ...

    def sinks(self) -> Sequence[SinkCommit]:
        """The last commit of each stream that writes into the table, of which the log still knows the position."""
        ...

    def garbage(
        self,
        versions: Versions,
        kept: Kept,
        hints: Collection[str] = (),
        backlog: Backlog = NO_BACKLOG,
    ) -> Garbage:
        """Files that versions of ``kept.gone`` name or dropped, and that no version of ``kept.reasons`` names.

        ``hints`` are paths that an earlier vacuum found dead and may not have deleted: each is checked again and
        returned only if nothing names it now, without ``logged`` unless the log explains it. ``backlog`` is the
        ``Garbage.backlog`` of the last vacuum and is checked in the same way. Work and memory are proportional to the
        files removed, not to the live files.
        """
        ...

    def expire(self, versions: Versions, kept: Kept, files: Collection[str]) -> set[str]:
        """Remove ``kept.gone`` and ``kept.expired_refs`` from the newest metadata, in one commit.

        Returns those of ``files`` that commits since ``versions`` name again, which must be kept. Deletes no file.

        Raises LostRace if another commit came first, so that the same call may succeed; Conflict if a commit since
        ``versions`` changed what the plan depends on; Rejected; Unknown; AdapterError if the snapshots have expired but
        the newer metadata cannot be read. If versions are linear, nothing is removed from the metadata: the call does
        what :meth:`require_dead` does.
        """
        ...

    def require_dead(self, versions: Versions, kept: Kept, files: Collection[str]) -> None:
        """Raise Conflict if a commit since ``versions`` names one of ``files`` again or a version of ``kept.gone``.

        For versions that stay in the metadata, where others may still restore, tag or branch from them: the call is
        repeated before each batch. Changes nothing. Raises AdapterError if the newest metadata cannot be read.
        """
        ...

    def look(self, paths: Sequence[str]) -> list[FileInfo | None]:
        """The state of each file, in input order; None if it does not exist or is a folder."""
        ...

    def missing(self, paths: Collection[str]) -> set[str]:
        """Those of ``paths`` at which there is no file, all checked in bulk.

        They are spelled as commits name them (``Output.path``), not as locations. A path whose meaning is not certain
        is not missing.
        """
        ...

    def delete(self, files: Sequence[Doomed]) -> list[str]:
        """Delete these files and verify it; returns the paths that no longer exist, removed by this call or before.

        The last line of defence: a path that :func:`lakekeeper.core.vacuum.path_guard.refusal` forbids, or that is
        reached through a link, is never deleted. A file that cannot be deleted is kept and is not among those
        returned. On storage with real folders, the folder of a run is removed with its last file.
        """
        ...

    def refuses_trash(self) -> str:
        """Why files cannot be moved to the trash; empty if they can.

        A move must be a rename: on storage that copies instead, trash costs as much as the files.
        """
        ...

    def move(self, moves: Mapping[str, str]) -> list[str]:
        """Rename files, never over an existing one; returns the sources that are at their targets now.

        A file becomes as young as its move where the storage can set times: other engines delete old files that no
        version names, and some look into the trash.

        Paths that :func:`lakekeeper.core.vacuum.path_guard.move_refusal` forbids, or that are reached through a link,
        are left alone.
        """
        ...

    def files(self) -> Iterator[FileInfo]:
        """LIST: all files below the roots of :attr:`grounds`, without lakekeeper's own."""
        ...

    def left_by(self, runs: Sequence[str]) -> Iterator[FileInfo]:
        """LIST: files in the folders of these runs, and the metadata that their unfinished commits wrote."""
        ...

    def forget(self, run: str) -> None:
        """Remove what is recorded for a run that has ended and left no files, and its folder if it is empty.

        Anything that cannot be removed is kept; that is no error.
        """
        ...

    def recognised(self, paths: Collection[str]) -> set[str]:
        """Those of ``paths`` that only writers of the format create, judged by folder, name and kind."""
        ...

    def named(self, versions: Versions, paths: Collection[str]) -> set[str]:
        """Those of ``paths`` that any version in the log names, kept or not; includes metadata and log files.

        ``versions`` were read after the files were listed. Raises AdapterError if reading the log yields nothing.
        """
        ...

    def live(self, versions: Versions, paths: Collection[str]) -> set[str]:
        """Those of ``paths`` that the current version, or the version of a branch or a tag, reads.

        Unlike :meth:`named`, without those that only older versions read. Raises AdapterError.
        """
        ...

    def compact_metadata(self, *, dry_run: bool) -> MetadataChange:
        """Compact metadata that planning opens file by file, if that pays off; changes no row and no data file.

        Raises Conflict, Rejected or Unknown.
        """
        ...

    def foreign_tables(self, runs: Sequence[str] | None = None) -> Sequence[str]:
        """Foreign tables in or around the folders to list: those of ``runs``, or (None) all that :meth:`files` lists.

        Checks the files themselves and the catalog through which the session opened the table. LISTs. Raises
        AdapterError if either does not respond.
        """
        ...
