"""The half of the SPI that a vacuum works on: a table's files, as the storage and the log show them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from lakekeeper.core.vacuum.path_guard import Grounds
from lakekeeper.core.vacuum.retention import Kept, Versions
from lakekeeper.core.vacuum.vacuum_plan import (
    NO_BACKLOG,
    Backlog,
    Doomed,
    FileInfo,
    Garbage,
)


@dataclass(frozen=True, slots=True)
class MetadataChange:
    """What folding of metadata did, or would do: files that planning opens before and after, the version, and why."""

    files_before: int
    files_after: int
    version: int | None
    why: str


class Storage(Protocol):
    """The table's files as a vacuum sees them.

    Paths are full locations, decoded: ``scheme:[//authority]/step/step``. Only :meth:`files`, :meth:`left_by` and
    :meth:`strangers` list; only :meth:`delete`, :meth:`move` and :meth:`forget` write. A *run* is the name of its
    folder (:func:`lakekeeper.core.model.run_folders.run_folder`). All raise AdapterError where the storage or the log
    does not answer, and then return nothing: half an answer deletes whole tables.
    """

    @property
    def grounds(self) -> Grounds:
        """Where files of the table may be deleted."""
        ...

    def allowing(self, locations: Sequence[str]) -> Storage:
        """The same storage, which also lists and deletes in places that the table declares below these locations."""
        ...

    def same_table(self, table_uuid: str, version: int | None) -> bool:
        """Was a state of this very table known by ``table_uuid``, if only at ``version``? False in doubt."""
        ...

    def versions(self, since: int | None = None) -> Versions:
        """All versions that the log still knows, freshly read; ``since``: those before it may be left out."""
        ...

    def garbage(
        self,
        versions: Versions,
        kept: Kept,
        hints: Collection[str] = (),
        backlog: Backlog = NO_BACKLOG,
    ) -> Garbage:
        """Files that versions of ``kept.gone`` name or dropped, and that no version of ``kept.reasons`` names.

        ``hints`` are paths that an earlier vacuum found dead and may not have deleted: each is looked up again, and
        returned only if nothing names it now, not ``logged`` unless the log explains it. ``backlog`` is what the last
        vacuum's answer asked to remember; it is looked up likewise. Work and memory follow what went, not what lives.
        """
        ...

    def expire(self, versions: Versions, kept: Kept, files: Collection[str]) -> set[str]:
        """Take ``kept.gone`` and ``kept.expired_refs`` out of the newest metadata, in one commit.

        Returns those of ``files`` that commits since ``versions`` name again, which must stay. Deletes no file.

        Raises LostRace where another commit came first, so that the same call may succeed; Conflict where a commit
        since ``versions`` changed what the plan rests on; Rejected; Unknown; AdapterError where the snapshots have
        expired and the newer metadata cannot be read. Where versions are linear nothing leaves the metadata: the
        call only raises Conflict where one of ``files`` is named again, and is repeated before each batch.
        """
        ...

    def look(self, paths: Sequence[str]) -> list[FileInfo | None]:
        """Each file as it is now, in order; None where there is none, or a folder."""
        ...

    def delete(self, files: Sequence[Doomed]) -> list[str]:
        """Delete these files and look; the paths that are gone, by this call or before.

        The last line of defence: what :func:`lakekeeper.core.vacuum.path_guard.refusal` forbids, or is reached by a
        link, is left alone, whoever asks. A file that cannot be deleted stays, and is not among those returned. Where
        the storage has real folders, those of a run go with their last file.
        """
        ...

    def refuses_bin(self) -> str:
        """Why files cannot be moved to the recycle bin here; empty where they can.

        A move has to be a rename: where the storage copies instead, a bin costs as much as the files do.
        """
        ...

    def move(self, moves: Mapping[str, str]) -> list[str]:
        """Rename files, none over another; the sources that are at their targets now.

        Left alone is what :func:`lakekeeper.core.vacuum.path_guard.move_refusal` forbids, or what a link reaches.
        """
        ...

    def files(self) -> Iterator[FileInfo]:
        """LIST: all files below the roots of :attr:`grounds`; none of lakekeeper's own."""
        ...

    def left_by(self, runs: Sequence[str]) -> Iterator[FileInfo]:
        """LIST: files in the folders of these runs, and the metadata that their unfinished commits wrote."""
        ...

    def forget(self, run: str) -> None:
        """A run has ended and nothing of it is left over: drop what was noted for it, and its folder if it is empty.

        What cannot be dropped stays; it is no error.
        """
        ...

    def recognised(self, paths: Collection[str]) -> set[str]:
        """Those of ``paths`` that only writers of the format make, by place, name and kind."""
        ...

    def named(self, versions: Versions, paths: Collection[str]) -> set[str]:
        """Which of ``paths`` any version that the log knows names, kept or not; metadata and log files too.

        ``versions`` were read after the files were listed. Raises AdapterError for an answer that is empty.
        """
        ...

    def compact_metadata(self, *, dry_run: bool) -> MetadataChange:
        """Fold metadata that planning opens file by file, where that is worth it; changes no row and no data file.

        Raises Conflict, Rejected or Unknown.
        """
        ...

    def strangers(self, runs: Sequence[str] | None = None) -> Sequence[str]:
        """Other tables in or around what is to be listed: folders of ``runs``, or (None) all that :meth:`files` lists.

        Asked are the files themselves and the catalog that the session knows the table by. LISTs. Raises
        AdapterError where one of them does not answer.
        """
        ...
