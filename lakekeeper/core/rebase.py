"""What a lost race leaves of our rewrites: pure, so that both commit orders can be played in a test."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lakekeeper.core.plan import MergeTask


@dataclass(frozen=True, slots=True)
class Output:
    """One file that a rewrite wrote and nobody sees yet: path as the log would name it, rows, bytes."""

    path: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Rewrite:
    """The outputs of one task. ``native`` is the adapter's own handle on them and means nothing to others.

    ``rows_in`` is the number of live rows that were read, where the adapter could tell.
    """

    task: MergeTask
    outputs: tuple[Output, ...]
    rows_in: int | None = None
    native: Any = field(default=None, compare=False, repr=False)

    @property
    def rows_out(self) -> int:
        return sum(output.rows for output in self.outputs)

    @property
    def bytes_out(self) -> int:
        return sum(output.bytes for output in self.outputs)


@dataclass(frozen=True, slots=True)
class Winner:
    """A commit that came between: version, operation, the run id if it was one of lakekeeper's, else ``""``."""

    version: int
    operation: str
    run_id: str = ""

    def __str__(self) -> str:
        return f"version {self.version} ({self.operation}{', lakekeeper run ' + self.run_id if self.run_id else ''})"


@dataclass(frozen=True, slots=True)
class Changes:
    """What happened to a table since a snapshot.

    version        the table's version now
    winners        commits since the snapshot, oldest first
    removed        paths of the snapshot's blocks that are live no more
    delete_ids     path → deletes in force now, for blocks whose deletes changed
    obstacle       non-empty where nothing of ours may be committed any more (table re-created, schema changed …)
    """

    version: int
    winners: tuple[Winner, ...] = ()
    removed: frozenset[str] = frozenset()
    delete_ids: Mapping[str, str] = field(default_factory=dict)
    obstacle: str = ""

    def landed(self, run_id: str) -> int | None:
        """The version that carries ``run_id``, if our commit of unknown outcome did happen."""
        return next((w.version for w in self.winners if w.run_id == run_id), None)


@dataclass(frozen=True, slots=True)
class Dropped:
    """A rewrite that may not be committed any more, and why."""

    rewrite: Rewrite
    reason: str


@dataclass(frozen=True, slots=True)
class Rebased:
    """Our rewrites after a race: to commit as they are, to commit with deletes replayed, to drop."""

    keep: tuple[Rewrite, ...]
    replay: tuple[Rewrite, ...]
    drop: tuple[Dropped, ...]


def rebase(rewrites: Iterable[Rewrite], changes: Changes) -> Rebased:
    """Sort out which rewrites survive ``changes``.

    Appends and deletes elsewhere change nothing. A rewrite one of whose inputs is gone or has other
    deletes now is dropped: its outputs would bring rows back.
    """
    keep: list[Rewrite] = []
    drop: list[Dropped] = []
    for rewrite in rewrites:
        reason = changes.obstacle or _lost(rewrite.task, changes)
        if reason:
            drop.append(Dropped(rewrite, reason))
        else:
            keep.append(rewrite)
    return Rebased(tuple(keep), (), tuple(drop))


def _lost(task: MergeTask, changes: Changes) -> str:
    gone = [path for path in task.inputs if path in changes.removed]
    deleted = [
        path
        for path, known in zip(task.inputs, task.delete_ids, strict=True)
        if changes.delete_ids.get(path, known) != known
    ]
    if not gone and not deleted:
        return ""
    by = ", ".join(str(w) for w in changes.winners) or "a concurrent commit"
    what = [f"{len(gone)} of its inputs removed"] if gone else []
    what += [f"rows of {len(deleted)} of its inputs deleted"] if deleted else []
    return f"{' and '.join(what)} meanwhile, by {by}"
