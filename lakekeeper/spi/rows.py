"""The row-level half of an adapter: find rows deleted by concurrent commits, delete rows, restore deleted rows.

Part of ``lakekeeper.spi``, which exports all names of this module.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.planning.changes import Changes
from lakekeeper.core.planning.rewrites import Rewrite

Rows = TypeVar("Rows")

Places = Mapping[str, Sequence[int] | npt.NDArray[np.int64]]
"""File → ascending row positions in the file, from 0."""


@dataclass(frozen=True, slots=True)
class Commit:
    """Proof of a commit: the version it created, its run id, and the files it removed and added."""

    version: int
    run_id: str
    removed: tuple[str, ...]
    added: tuple[str, ...]
    removed_delete_files: int = 0


@dataclass(frozen=True, slots=True)
class Remains(Generic[Rows]):
    """Rows before and after copy-on-write statements.

    read      columns ``row``, ``file``, ``position``: live rows of the inputs that are gone, as they were read;
              ``file`` is the input's path, ``position`` the row's position in it, from 0
    left      the same columns: all rows of their successors
    files     paths of these successors, and their numbers of rows

    ``row`` is a struct of all values that files store, and of the row id if each row has one: rows that are equal in it
    are interchangeable.
    """

    read: Rows
    left: Rows
    files: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Followed:
    """The successors of inputs that are gone, and the rows that make the difference.

    files      paths of the successors at least half of whose rows were read; the others stay in the table
    missing    input path → ascending positions of the rows that were read and that none of the files holds
    gained     successor → ascending positions of its rows that were not read, such as those of an UPDATE
    """

    files: tuple[str, ...] = ()
    missing: Places = field(default_factory=dict)
    gained: Places = field(default_factory=dict)

    @classmethod
    def joined(cls, parts: Iterable[Followed]) -> Followed:
        """What became of inputs that were compared apart. Without any successor, nothing is followed."""
        known = tuple(parts)
        files = tuple(sorted(path for part in known for path in part.files))
        if not files:
            return cls()
        missing = {path: rows for part in known for path, rows in part.missing.items()}
        return cls(files, missing, {path: rows for part in known for path, rows in part.gained.items()})


@dataclass(frozen=True, slots=True)
class Lost:
    """Rows of a rewrite that are no longer live in its inputs, except those that its replays have already deleted.

    rewrite   the rewrite to bring up to date
    base      what the rows are deleted from: the rewrite itself, or the rewrite as first written if rows that a replay
              deleted are live again
    changes   the changes to apply, up to ``changes.version``
    rows      number of lost rows by the log's own counts; None if the log does not record it
    native    the adapter's own handle
    followed  what became of the inputs that are gone; None if they have no successors
    """

    rewrite: Rewrite
    base: Rewrite
    changes: Changes
    rows: int | None
    native: Any = field(default=None, compare=False, repr=False)
    followed: Followed | None = field(default=None, compare=False, repr=False)

    @property
    def successors(self) -> tuple[str, ...] | None:
        """The value of ``Rewrite.successors`` after the replay."""
        return () if self.followed is None else self.followed.files or None

    @property
    def gained(self) -> int:
        """The number of rows that the successors have gained."""
        return 0 if self.followed is None else sum(map(len, self.followed.gained.values()))

    def not_moved(self, moved: Sequence[Places]) -> tuple[list[int], Places]:
        """The indexes of files of earlier replays that may stay, and the gained rows that none of them holds.

        ``moved`` are the rows of successors that each of these files holds.
        """
        gained = (
            {}
            if self.followed is None
            else {p: rows for p, rows in self.followed.gained.items() if len(rows)}
        )
        stay = [
            number
            for number, held in enumerate(moved)
            if all(np.array_equal(gained.get(path, ()), rows) for path, rows in held.items())
        ]
        there = {path for number in stay for path in moved[number]}
        return stay, {path: rows for path, rows in gained.items() if path not in there}


@dataclass(frozen=True, slots=True)
class Traces(Generic[Rows]):
    """Two sets of rows to compare.

    lost      a column ``row``: the lost rows of a rewrite
    written   columns ``row``, ``file``, ``position``: all rows of its outputs that are not deleted; ``file`` is the
              output's path as in ``Output.path``, ``position`` the row's position in the file, from 0

    ``row`` is a row id, or a struct of all values; rows with equal ``row`` are interchangeable.
    """

    lost: Rows
    written: Rows


@dataclass(frozen=True, slots=True)
class Matched(Generic[Rows]):
    """Positions (columns ``file``, ``position``) of lost rows, the number of lost rows, and of positions found."""

    hits: Rows
    lost: int
    found: int


@dataclass(frozen=True, slots=True)
class Held(Generic[Rows]):
    """Positions (columns ``file``, ``position``), computed and kept, and their number in each file."""

    hits: Rows
    per_file: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Prepared:
    """One part of our commit, written to files that no version names yet.

    rows      data file → number of rows: those that a delete removes from the file, or those that a new file holds
    written   paths of the files that were written for this part
    native    the adapter's own handle
    """

    rows: Mapping[str, int] = field(default_factory=dict)
    written: tuple[str, ...] = ()
    native: Any = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Tidied:
    """The result of :meth:`RowDeletes.tidy`: the version created (None: no change), delete files removed and added."""

    version: int | None = None
    removed_delete_files: int = 0
    added_delete_files: int = 0


class RowDeletes(Protocol[Rows]):
    """Row-level operations of an adapter: which rows were deleted, where rows are now, how to delete them.

    If the table permits no row-level deletes (``Capabilities.row_deletes``), files are rewritten without the rows; the
    results are the same.

    Our own delete has several steps, of which only the last one is visible::

        covered ─► find ─► prepare ─► delete ─┬─ done
                     ▲        ▲               └─ Conflict: keep what is still valid, search what is new
                     └────────┴───────────────────┘
    """

    def compared(
        self, rewrite: Rewrite, snapshot: Snapshot, changes: Changes, files: Sequence[str]
    ) -> Followed | None:
        """What became of the inputs that are gone, if this can be found with little work.

        ``files`` are their successors as of ``changes.version``. None if they have many bytes or cannot be compared
        with certainty; :meth:`remains` are then compared.
        """
        ...

    def remains(
        self, rewrite: Rewrite, snapshot: Snapshot, changes: Changes, files: Sequence[str]
    ) -> Remains[Rows] | None:
        """The rows of inputs that are gone, and of ``files``, their successors as of ``changes.version``, to compare.

        Successors with rows that are deleted, or that a later delete may reach where it does not reach the outputs, are
        left out. None if the rows cannot be compared.
        """
        ...

    def lost(
        self, rewrite: Rewrite, snapshot: Snapshot, changes: Changes, followed: Followed | None = None
    ) -> Lost:
        """The rows to delete from a rewrite to bring it to ``changes.version``; reads deletes, but no data.

        Of an input that is gone, all rows are lost, or those that ``followed`` names. Raises Conflict if an input holds
        live rows that were not read (an older state was restored).
        """
        ...

    def places(self, lost: Lost) -> Places | None:
        """The positions of the lost rows in the outputs, one for each, if they can be found with little work.

        None if the rows are too many or cannot be found with certainty; :meth:`traces` are then compared.
        """
        ...

    def traces(self, lost: Lost) -> Traces[Rows]:
        """The lost rows, and all rows to search for them."""
        ...

    def mask(self, lost: Lost, hits: Rows | Places) -> Rewrite:
        """``lost.base`` with the rows at these positions deleted, ready to commit on top of ``lost.changes.version``.

        The commit also removes the successors in ``lost.followed``, and adds files with the rows that these have
        gained, whose ids and versions stay. For the fields that are set, see
        :meth:`lakekeeper.core.planning.rebase.Rewrite.masked`; outputs without a live row are left out. Deletes no
        file. Raises AdapterError if the positions are not as many live rows of the outputs.
        """
        ...

    def covered(self, snapshot: Snapshot, where: str, paths: Collection[str] | None = None) -> frozenset[str]:
        """The snapshot's files (or those of ``paths``) in which every row matches, as metadata alone proves.

        Partition values and exact bounds are evaluated by SQL's rules for NULL and NaN. Reads no data file; a file in
        doubt is left out.
        """
        ...

    def find(self, snapshot: Snapshot, where: str, paths: Collection[str] | None = None) -> Rows:
        """Positions of the live rows that match, in the snapshot's blocks or only in those of ``paths``.

        Columns ``file`` (as in ``BlockSet.path``) and ``position``. Raises Unsupported if rows may not be deleted.
        """
        ...

    def release(self, found: Rows) -> None:
        """Free the resources of rows that :meth:`find` returned; the rows cannot be used afterwards."""
        ...

    def prepare(
        self, hits: Held[Rows] | None, whole: Collection[str], snapshot: Snapshot, run_id: str
    ) -> Prepared:
        """Write the files needed to delete the rows at these positions of ``snapshot``, and its files ``whole``.

        Files of ``whole`` are only read if the table's change feed requires their rows. Leaves no file behind if it
        raises.
        """
        ...

    def keep(self, prepared: Prepared, paths: Collection[str], snapshot: Snapshot) -> Prepared:
        """The part of ``prepared`` that concerns ``paths`` and can be committed on top of ``snapshot``.

        The rest must be prepared again, for example because the table now uses another kind of deletes.
        """
        ...

    def delete(self, prepared: Sequence[Prepared], snapshot: Snapshot, run_id: str, where: str) -> Commit:
        """One attempt to commit everything in ``prepared``, atomically, as a change of data.

        ``snapshot`` is the newest state that was searched for ``where``. Raises Conflict if one of the files was
        removed or has other deletes now that the commit would undo, or, if the table's isolation level requires it, if
        rows that may match were added since; Rejected or Unknown. Deletes no file of ``prepared``.
        """
        ...

    def discard(self, prepared: Sequence[Prepared]) -> None:
        """Delete the files written for parts that are known to be uncommitted.

        A file that is missing, or cannot be deleted, is no error.
        """
        ...

    def may_tidy(self, snapshot: Snapshot) -> bool:
        """Whether ``tidy`` may find anything to do in the snapshot, as the metadata shows; reads no other file."""
        ...

    def tidy(self, snapshot: Snapshot, run_id: str) -> Tidied:
        """Remove delete files that no longer apply to any row, and merge small ones, in at most one commit.

        Raises Conflict, Rejected or Unknown.
        """
        ...


class Restores(Protocol[Rows]):
    """Restores rows removed by one of our deletes: reads them from the version before it, writes them to new files."""

    def descendant_of(self, version: int) -> int | None:
        """The newest version, if it is known to have been made on top of ``version``.

        None if a rollback has left ``version``, or if the versions that would show it have expired. In a log that a
        rollback continues, ``version`` itself.
        """
        ...

    def around(self, version: int, where: str, later: int) -> tuple[Snapshot, Snapshot]:
        """The snapshots before and after the delete of ``version``: their blocks that may match, and that it changed.

        ``later`` is ``version``, or a version made on top of it (:meth:`descendant_of`).

        Of the first, those that the second lacks or has under other deletes; of the second, those that the first lacks
        or has under others. The columns are those that the delete saw. Raises NotFound if one of the two versions can
        no longer be read, and Unsupported if its rows are back already, or may be.
        """
        ...

    def copy(self, hits: Held[Rows] | None, whole: Collection[str], then: Snapshot, run_id: str) -> Prepared:
        """Write the rows at these positions of ``then``, and all live rows of its files ``whole``, to new files.

        Values follow the ids of their columns through renames; columns added since are NULL or have their default.
        Raises Unsupported, before anything is written, if values cannot be restored unchanged.
        """
        ...

    def keep(self, copies: Prepared) -> bool:
        """Whether the copies can still be committed: false if the columns have changed in a way they do not follow."""
        ...

    def commit(self, copies: Prepared, since: int, run_id: str) -> Commit:
        """One attempt to append the copies, unless a commit after version ``since`` already carries ``run_id``.

        That commit is then returned and nothing is committed: of two concurrent restores only one adds rows. Raises
        Conflict, Rejected (also if the history since ``since`` cannot be read) or Unknown, and Unsupported or Rejected
        if the rows are back by the format's own means.
        """
        ...
