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

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lakekeeper.core.model.plan import MergeTask
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.planning.changes import Changes
from lakekeeper.core.planning.rewrites import Rewrite
from lakekeeper.core.planning.successors import successors


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
