"""Rebase of rewrites after a lost race: pure, so that tests can run both commit orders.

    read at S0          they commit            we commit
    I = inputs ───────► H: inputs change ────► H − (inputs still there) + outputs
                                               masked by every row that we read and that no longer lives

A replay turns a lost race into a commit only if that is provably right: as many rows are found in the outputs as were
deleted, each at a position of its own; else the group is dropped, and nothing of it becomes visible.

A copy-on-write statement removes an input and adds a successor, a file with the rows that are left. Our commit also
removes the successors: the rows that they lack are masked, and those that they have gained move to a file of ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from lakekeeper.core.model.plan import MergeTask
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.planning.successors import Replacement, successors


@dataclass(frozen=True, slots=True)
class Output:
    """One file that a rewrite wrote and no version names yet: path as the log would name it, rows, bytes.

    ``rows`` are live; the file holds ``masked`` more, which a replay has marked as deleted.
    """

    path: str
    rows: int
    bytes: int
    masked: int = 0


@dataclass(frozen=True, slots=True)
class Rewrite:
    """The outputs of one task. ``native`` is the adapter's own handle on them.

    ``rows_in`` is the number of live rows that were read, if the adapter knows it. ``run_id`` is the run that owns the
    folder of the files.

    After a replay ``applied`` are the deletes in force at each input that the outputs reflect (None: the input
    is gone), ``replayed`` the rows that all replays masked, ``extra`` the files in use that replays wrote, ``stale``
    those that a later replay replaced, and ``unmasked`` the rewrite as it was written. ``successors`` are the files in
    place of removed inputs that the commit also removes (None: none of them, now or later, since a replay has found
    that they hold mostly other rows), and ``moved`` the files with the rows that only these have. ``by_rows`` is the
    reason why Spark sorted the rows, if the adapter has a columnar half.
    """

    task: MergeTask
    outputs: tuple[Output, ...]
    rows_in: int | None = None
    native: Any = field(default=None, compare=False, repr=False)
    applied: tuple[str | None, ...] = ()
    replayed: int = 0
    extra: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()
    unmasked: Rewrite | None = field(default=None, compare=False, repr=False)
    successors: tuple[str, ...] | None = ()
    moved: tuple[Output, ...] = ()
    run_id: str = ""
    by_rows: Reason | None = None

    @property
    def inputs_now(self) -> Mapping[str, str | None]:
        """Path → deletes in force, as this rewrite may be committed upon; None: the input must be gone.

        The successors, which have no deletes, are among them.
        """
        inputs = dict(zip(self.task.inputs, self.applied or self.task.delete_ids, strict=True))
        return inputs | dict.fromkeys(self.successors or (), "")

    @property
    def added(self) -> tuple[str, ...]:
        """The data files that the commit adds."""
        return tuple(output.path for output in (*self.outputs, *self.moved))

    @property
    def paths(self) -> tuple[str, ...]:
        """The files of this rewrite: its outputs, and those that replays wrote."""
        return (*(output.path for output in self.outputs), *self.extra, *self.stale)

    @property
    def written(self) -> Rewrite:
        """The rewrite as it was written, before any replay."""
        return self.unmasked or self

    def masked(
        self,
        outputs: Iterable[Output],
        native: Any,
        *,
        applied: tuple[str | None, ...],
        rows: int,
        extra: Iterable[str],
        before: Rewrite,
        successors: tuple[str, ...] | None = (),
        moved: Iterable[Output] = (),
    ) -> Rewrite:
        """This rewrite with ``rows`` more rows masked, by a replay of ``before``; ``extra`` are all files now in use.

        This rewrite is ``before`` itself, or what was written, where a replay starts over.
        """
        came = tuple(moved)
        kept = (*extra, *(output.path for output in came))
        files = dict.fromkeys((*before.extra, *before.stale))
        return replace(
            self,
            outputs=tuple(outputs),
            native=native,
            applied=applied,
            replayed=self.replayed + rows,
            extra=kept,
            stale=tuple(path for path in files if path not in kept),
            unmasked=self.written,
            successors=successors,
            moved=came,
        )

    @property
    def rows_out(self) -> int:
        return sum(output.rows for output in self.outputs)

    @property
    def bytes_out(self) -> int:
        return sum(output.bytes for output in self.outputs)


@dataclass(frozen=True, slots=True)
class Winner:
    """A commit that came between: version, operation, the run id if it was one of lakekeeper's, else ``""``.

    ``layout``: it moved rows and changed none (a rewrite by any writer); ``appends``: it only added rows.
    ``at_ms`` is when it was committed, ms since the epoch, 0 if the log does not record it. ``writer``: the engine with
    its user, job or application, ``""`` if the log does not name both.
    """

    version: int
    operation: str
    run_id: str = ""
    layout: bool = False
    appends: bool = False
    at_ms: int = 0
    writer: str = ""

    @property
    def changes_rows(self) -> bool:
        """Whether it deleted or updated rows, as far as the log shows."""
        return not (self.layout or self.appends)

    @property
    def is_statement(self) -> bool:
        """Whether it changed rows and a commit of ours can make the next one of its kind fail.

        A ``delete`` of lakekeeper that loses a race searches again by itself.
        """
        return self.changes_rows and not self.run_id

    def __str__(self) -> str:
        return f"version {self.version} ({self.operation}{', lakekeeper run ' + self.run_id if self.run_id else ''})"


EARLIER_MS, EARLIER_COMMITS = 20_000, 24
"""How far back, and how many, commits up to that of a snapshot show whether a stream is writing."""
_ENOUGH = 6  # statements that show the period of a stream

STREAM_MS = 600_000
"""If the newest commit is older than this, no stream is active: earlier commits are not read."""


def stream_before(newest_first: Iterable[Winner]) -> tuple[Winner, ...]:
    """The commits that show whether a stream is writing, oldest first; it reads no more of the log than these.

    A stream's appends and other maintenance are among them: of the newest few, none may have changed rows.
    """
    found: list[Winner] = []
    for winner in islice(newest_first, EARLIER_COMMITS):
        if found and winner.at_ms < found[0].at_ms - EARLIER_MS:
            break
        found.append(winner)
        if sum(each.is_statement for each in found) == _ENOUGH:
            break
    return tuple(reversed(found))


@dataclass(frozen=True, slots=True)
class Changes:
    """What happened to a table since a snapshot.

    version        the table's version now
    winners        commits since the snapshot, oldest first
    removed        paths of the snapshot's blocks that are live no more
    delete_ids     path → deletes in force now, for blocks whose deletes changed
    replacements   commits that removed blocks of the snapshot, or files that such a commit added, oldest first, as far
                   as the adapter follows them
    obstacle       why nothing of ours may be committed any more (table re-created, schema changed …); None if it may
    earlier        commits of the seconds before the snapshot, oldest first, as far as they cost little: a hint
    """

    version: int
    winners: tuple[Winner, ...] = ()
    removed: frozenset[str] = frozenset()
    delete_ids: Mapping[str, str] = field(default_factory=dict)
    obstacle: Reason | None = None
    replacements: tuple[Replacement, ...] = ()
    earlier: tuple[Winner, ...] = ()

    @property
    def only_our_rewrites(self) -> bool:
        """Whether only rewrites of lakekeeper changed the table, at least one."""
        ours = bool(self.winners) and all(w.layout and w.run_id for w in self.winners)
        return ours and self.obstacle is None

    def landed(self, run_id: str) -> int | None:
        """The version that carries ``run_id``, if our commit of unknown outcome succeeded."""
        return next((w.version for w in self.winners if w.run_id == run_id), None)


@dataclass(frozen=True, slots=True)
class Dropped:
    """A rewrite that may not be committed any more, and why.

    ``littered``: a replay of it failed, and may have left files that the rewrite does not name.
    """

    rewrite: Rewrite
    reason: Reason
    littered: bool = False


@dataclass(frozen=True, slots=True)
class Rebased:
    """Our rewrites after a race: to commit as they are, to commit with deletes replayed, to drop."""

    keep: tuple[Rewrite, ...]
    replay: tuple[Rewrite, ...]
    drop: tuple[Dropped, ...]


def rebase(rewrites: Iterable[Rewrite], changes: Changes, *, most_gone: float = 0.5) -> Rebased:
    """Determine which rewrites survive ``changes``.

    Appends and deletes elsewhere change nothing. A rewrite whose inputs have other deletes now, or are gone, is
    replayed. It is dropped if more than ``most_gone`` of its inputs are gone and have no successors: the rest is not
    worth the search, and a new plan will find the rows where they are now.
    """
    keep: list[Rewrite] = []
    replay: list[Rewrite] = []
    drop: list[Dropped] = []
    for rewrite in rewrites:
        gone, deleted = touched(rewrite, changes)
        if changes.obstacle is not None:
            drop.append(Dropped(rewrite, changes.obstacle))
        elif not gone and not deleted:
            keep.append(rewrite)
        elif mostly_gone(rewrite, changes, most_gone) and not successors_of(rewrite, changes):
            drop.append(Dropped(rewrite, why(gone, deleted, changes)))
        else:
            replay.append(rewrite)
    return Rebased(tuple(keep), tuple(replay), tuple(drop))


def touched(rewrite: Rewrite, changes: Changes) -> tuple[list[str], list[str]]:
    """(inputs that are gone, or back, since the rewrite; inputs with other deletes than it reflects).

    Its successors are inputs, too.
    """
    task = rewrite.task
    known = dict(zip(task.inputs, rewrite.applied or task.delete_ids, strict=True))
    moved = [path for path, deletes in known.items() if (path in changes.removed) != (deletes is None)]
    moved += sorted(set(rewrite.successors or ()).difference(successors_of(rewrite, changes)))
    before = dict(zip(task.inputs, task.delete_ids, strict=True))
    deleted = [
        path
        for path, deletes in known.items()
        if path not in moved and deletes is not None and changes.delete_ids.get(path, before[path]) != deletes
    ]
    return moved, deleted


def successors_of(rewrite: Rewrite, changes: Changes) -> tuple[str, ...]:
    """The successors of a rewrite's inputs that its next replay compares with them."""
    return () if rewrite.successors is None else successors(rewrite.task.inputs, changes.replacements)


def changed_inputs(rewrite: Rewrite, changes: Changes) -> list[str]:
    """The inputs of which other rows may be deleted now than the outputs reflect.

    Their deletes changed, or they are gone: what their successors hold may change with each commit.
    """
    task, followed = rewrite.task, rewrite.successors is not None
    reflected = rewrite.applied or task.delete_ids
    return [
        path
        for path, now, before in zip(task.inputs, applied_now(task, changes), reflected, strict=True)
        if now != before or (now is None and followed)
    ]


def applied_now(task: MergeTask, changes: Changes) -> tuple[str | None, ...]:
    """The deletes in force at each input of a task after ``changes``; None for an input that is gone."""
    return tuple(
        None if path in changes.removed else changes.delete_ids.get(path, known)
        for path, known in zip(task.inputs, task.delete_ids, strict=True)
    )


def mostly_gone(rewrite: Rewrite, changes: Changes, most: float = 0.5) -> bool:
    """Whether more than this part of a rewrite's inputs is gone."""
    inputs = rewrite.task.inputs
    return sum(path in changes.removed for path in inputs) > most * len(inputs)


def why(gone: Sequence[str], deleted: Sequence[str], changes: Changes) -> Reason:
    """What happened to a group's inputs, and the commits that caused it."""
    by = tuple(map(str, changes.winners)) or ("a concurrent commit",)
    if not deleted:
        return Reason.of(Code.INPUTS_REMOVED, removed=len(gone), winners=by)
    if not gone:
        return Reason.of(Code.ROWS_DELETED, changed=len(deleted), winners=by)
    return Reason.of(Code.INPUTS_CHANGED, removed=len(gone), changed=len(deleted), winners=by)
