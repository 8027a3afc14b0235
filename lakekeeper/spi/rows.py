"""The row-level half of an adapter: which rows died, how to delete rows, how to bring deleted rows back.

Part of ``lakekeeper.spi``, which exports all names of this module.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.planning.rebase import Changes, Rewrite

Rows = TypeVar("Rows")


@dataclass(frozen=True, slots=True)
class Commit:
    """Proof of a commit: the version it made, the run id in it, files taken out and put in."""

    version: int
    run_id: str
    removed: tuple[str, ...]
    added: tuple[str, ...]
    removed_delete_files: int = 0


@dataclass(frozen=True, slots=True)
class Lost:
    """Rows that a rewrite holds and that no longer live where they were read; all that its replays masked is left out.

    rewrite   the rewrite that has to be brought up to date
    base      what they are masked in: the rewrite itself, or the rewrite as it was written, where rows that a replay
              masked live again
    changes   brings it to ``changes.version``
    rows      how many, by the log's own counts; None where the log does not tell
    native    the adapter's own handle
    """

    rewrite: Rewrite
    base: Rewrite
    changes: Changes
    rows: int | None
    native: Any = field(default=None, compare=False, repr=False)


Places = Mapping[str, Sequence[int] | npt.NDArray[np.int64]]
"""Output path → ascending row numbers in it, from 0."""


@dataclass(frozen=True, slots=True)
class Traces(Generic[Rows]):
    """Two sets of rows to be compared.

    lost      a column ``row``: the lost rows of a rewrite
    written   columns ``row``, ``file``, ``position``: all rows of its outputs that are not masked; ``file`` is the
              output's path as in ``Output.path``, ``position`` the row's number in the file, from 0

    ``row`` is a row id, or a struct of all values; rows with equal ``row`` are interchangeable.
    """

    lost: Rows
    written: Rows


@dataclass(frozen=True, slots=True)
class Matched(Generic[Rows]):
    """Places (columns ``file``, ``position``) of lost rows, how many were lost and how many places were found."""

    hits: Rows
    lost: int
    found: int


@dataclass(frozen=True, slots=True)
class Held(Generic[Rows]):
    """Places (columns ``file``, ``position``), worked out and kept, and their number in each file."""

    hits: Rows
    per_file: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Prepared:
    """One part of a commit of ours, written to files that no version names yet.

    rows      data file → rows: those that a delete takes out of the file, or those that a new file holds
    written   paths of the files that were written for it
    native    the adapter's own handle
    """

    rows: Mapping[str, int] = field(default_factory=dict)
    written: tuple[str, ...] = ()
    native: Any = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Tidied:
    """What tidying of delete files did: the version it made (None: nothing was to do), files taken out and put in."""

    version: int | None = None
    removed_delete_files: int = 0
    added_delete_files: int = 0


class RowDeletes(Protocol[Rows]):
    """What an adapter knows of single rows: which died, where they lie now, how to delete them.

    Where the table permits no row-level deletes (``Capabilities.row_deletes``), files are written anew without
    the rows; the answers are the same.

    A delete of ours goes in steps, of which only the last one is visible::

        covered ─► find ─► prepare ─► delete ─┬─ done
                     ▲        ▲               └─ Conflict: keep what still stands, search what is new
                     └────────┴───────────────────┘
    """

    def lost(self, rewrite: Rewrite, snapshot: Snapshot, changes: Changes) -> Lost:
        """What has to be masked in a rewrite to bring it to ``changes.version``; reads deletes, and no data.

        Raises Conflict where an input holds live rows that were not read (an older state was restored).
        """
        ...

    def places(self, lost: Lost) -> Places | None:
        """Where the lost rows are in the outputs, one place for each, found with little work.

        None where they are too many, or are not certain to be found so; then :meth:`traces` are compared.
        """
        ...

    def traces(self, lost: Lost) -> Traces[Rows]:
        """The lost rows and all rows among which they are to be found."""
        ...

    def mask(self, lost: Lost, hits: Rows | Places) -> Rewrite:
        """``lost.base`` without the rows at these places, ready for a commit upon ``lost.changes.version``.

        See :meth:`lakekeeper.core.planning.rebase.Rewrite.masked` for what is set; outputs without a live row are left
        out. No file is deleted. Raises AdapterError for places that are not as many live rows of the outputs.
        """
        ...

    def covered(self, snapshot: Snapshot, where: str, paths: Collection[str] | None = None) -> frozenset[str]:
        """The snapshot's files (or those of ``paths``) of which every row matches, as metadata alone proves.

        Partition values and exact bounds are evaluated by SQL's rules for NULL and NaN. Reads no data file; a file in
        doubt is left out.
        """
        ...

    def find(self, snapshot: Snapshot, where: str, paths: Collection[str] | None = None) -> Rows:
        """Places of the live rows that match, in the snapshot's blocks or only in those of ``paths``.

        Columns ``file`` (as in ``BlockSet.path``) and ``position``. Raises Unsupported where rows may not be deleted.
        """
        ...

    def release(self, found: Rows) -> None:
        """Free what :meth:`find` holds for the rows that it returned; they cannot be used afterwards."""
        ...

    def prepare(
        self, hits: Held[Rows] | None, whole: Collection[str], snapshot: Snapshot, run_id: str
    ) -> Prepared:
        """Write what it takes to delete the rows at these places of ``snapshot``, and its files ``whole``.

        Files of ``whole`` are not read where the table's change feed does not ask for their rows. Leaves no file
        behind where it raises.
        """
        ...

    def keep(self, prepared: Prepared, paths: Collection[str], snapshot: Snapshot) -> Prepared:
        """The share of ``prepared`` that is about ``paths`` and can be committed upon ``snapshot``.

        What it leaves out has to be prepared again: another form of deletes is in force now, say.
        """
        ...

    def delete(self, prepared: Sequence[Prepared], snapshot: Snapshot, run_id: str, where: str) -> Commit:
        """One attempt to commit what was prepared, all at once, as a change of data.

        ``snapshot`` is the newest state that was searched for ``where``. Raises Conflict where one of the files is
        gone, or has other deletes now that the commit would undo, and, where the isolation level of the table asks for
        it, for rows that came since and may match; Rejected or Unknown. Deletes no file of ``prepared``.
        """
        ...

    def discard(self, prepared: Sequence[Prepared]) -> None:
        """Delete the files that were written for something that is known not to be committed."""
        ...

    def tidy(self, snapshot: Snapshot, run_id: str) -> Tidied:
        """Take out delete files that apply to no row any more, and merge small ones, in one commit if any.

        Raises Conflict, Rejected or Unknown.
        """
        ...


class Restores(Protocol[Rows]):
    """How rows that one of our deletes took out are put back: read from the version before it, written as new files."""

    def before(self, version: int, where: str) -> Snapshot:
        """The table as the delete that made ``version`` found it: its blocks that may hold a match of ``where``.

        The columns are those that the delete saw. Raises NotFound where the version can no longer be read.
        """
        ...

    def copy(self, hits: Held[Rows] | None, whole: Collection[str], then: Snapshot, run_id: str) -> Prepared:
        """Write the rows at these places of ``then``, and all live rows of its files ``whole``, as new files.

        Values follow their columns' ids, whatever the columns are called now; columns that came since are NULL or
        have their default. Raises Unsupported, before anything is written, for what would not come back as it was.
        """
        ...

    def keep(self, copies: Prepared) -> bool:
        """Can the copies still be committed? Not where the columns have changed in a way that they do not follow."""
        ...

    def commit(self, copies: Prepared, since: int, run_id: str) -> Commit:
        """One attempt to append the copies, unless a commit after version ``since`` carries ``run_id`` already.

        That one is given then, and nothing is committed: of two restores at once only one adds rows. Raises Conflict,
        Rejected (also where the history since then can not be read) or Unknown.
        """
        ...
