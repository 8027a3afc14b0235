"""Replay: deletes that won a race are applied to outputs that are not visible yet.

    inputs replaced by copy-on-write ─► the rows that their successors lack
    lost ─┬─ places found at once ──────────────────┬─► mask ─► check ─► a rewrite for the newest version
          └─ traces ─► match ─┬─ all of them found ─┘
                              └─ anything else ─────────────────────────► the group is dropped

A replay turns a lost race into a commit only where the result is provably right: each of the rows that the log says
are gone is found at a place of its own, and rows out are rows in minus deleted. In doubt the group is dropped, its
files are removed, and the next plan sees the table as it is. Each replay continues from the one before: it looks only
for the rows that were deleted since.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from lakekeeper.core.config.options import Options
from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.planning.changes import Changes
from lakekeeper.core.planning.rebase import (
    Dropped,
    applied_now,
    mostly_gone,
    successors_of,
    touched,
    why,
)
from lakekeeper.core.planning.rewrites import Rewrite
from lakekeeper.engine.events import Halted
from lakekeeper.engine.uncommitted import without_error
from lakekeeper.errors import Conflict, reason
from lakekeeper.spi import Adapter, Followed, Lost, Matched, Runner

_log = logging.getLogger(__name__)
_AFTER_WRITING = {Code.MASK_DISAGREES, Code.MASKED_OTHER_VERSION}
"""Why a group is dropped after its replay has written files."""

MAX_ROWS = 2_000_000
"""The most deleted rows that are looked for in the outputs of one group; their positions are held in memory."""


@dataclass(frozen=True, slots=True)
class Replayer:
    """Brings rewrites of one run up to date. ``snapshot`` is what they were read from."""

    adapter: Adapter[Any]
    runner: Runner[Any]
    run_id: str
    snapshot: Snapshot
    options: Options

    def replay_all(
        self, rewrites: Sequence[Rewrite], changes: Changes, kept: Sequence[Rewrite] = ()
    ) -> list[Rewrite | Dropped]:
        """See :meth:`replay`; several groups are replayed side by side. ``kept`` are in the same commit as they are."""
        threads = min(len(rewrites), self.options.groups.max_concurrent)
        if threads <= 1:
            done = [self.replay(rewrite, changes) for rewrite in rewrites]
        else:
            with ThreadPoolExecutor(threads, thread_name_prefix="lakekeeper-replay") as pool:
                done = list(pool.map(lambda rewrite: self.replay(rewrite, changes), rewrites))
        return self._apart(done, changes, kept)

    def _apart(
        self, replayed: Sequence[Rewrite | Dropped], changes: Changes, kept: Sequence[Rewrite]
    ) -> list[Rewrite | Dropped]:
        """The rewrites with no successor in two of them: two groups may have read equal rows, of which one is left."""
        taken = {path for rewrite in kept for path in rewrite.successors or ()}
        apart: list[Rewrite | Dropped] = []
        for once in replayed:
            done = once
            if isinstance(once, Rewrite) and not taken.isdisjoint(once.successors or ()):
                done = self.replay(once, changes, frozenset(taken))
            taken.update(done.successors or () if isinstance(done, Rewrite) else ())
            apart.append(done)
        return apart

    def replay(
        self, rewrite: Rewrite, changes: Changes, taken: frozenset[str] = frozenset()
    ) -> Rewrite | Dropped:
        """The rewrite masked for ``changes``, or the dropped group, whose files the caller removes.

        ``taken`` are successors that other rewrites of the commit remove.
        """
        cause = why(*touched(rewrite, changes), changes)
        try:
            with self.runner.working(self.run_id, rewrite.task.label):
                try:
                    masked = self._masked(rewrite, changes, taken)
                finally:
                    with suppress(Exception):  # memory that is not freed must not cost the group
                        self.adapter.release(rewrite.task)
        except Halted:
            raise
        except Exception as error:
            # For example a lost executor, or a value that cannot be compared: the group is lost, the table is
            # unchanged.
            said = str(error) if isinstance(error, Conflict) else reason(error)
            return Dropped(rewrite, cause.plus(Reason.of(Code.NOT_REPLAYED, error=said)), littered=True)
        if masked is None:
            return Dropped(rewrite, cause)
        if isinstance(masked, Reason):
            return Dropped(rewrite, cause.plus(masked), littered=masked.code in _AFTER_WRITING)
        return masked

    def _masked(self, rewrite: Rewrite, changes: Changes, taken: frozenset[str]) -> Rewrite | Reason | None:
        """The rewrite with the deletes applied, or why it was dropped (None: too little of its inputs is left)."""
        followed = self.followed(rewrite, changes, taken)
        if (followed is None or not followed.files) and mostly_gone(rewrite, changes):
            return None
        lost = self.adapter.deletes.lost(rewrite, self.snapshot, changes, followed)
        if lost.rows is not None:
            wrong = self._too_many(lost, lost.rows)
            if wrong:
                return wrong
            places = {} if lost.rows == 0 else self.adapter.deletes.places(lost)
            if places is not None:
                found = sum(map(len, places.values()))
                wrong = not_all_found(lost.rows, found)
                return wrong or self.proven(self.adapter.deletes.mask(lost, places), lost, lost.rows)
        return self._matched(lost)

    def followed(self, rewrite: Rewrite, changes: Changes, taken: frozenset[str]) -> Followed | None:
        """What became of the inputs that are gone; None if they have no successors."""
        files = [path for path in successors_of(rewrite, changes) if path not in taken]
        if not files:
            return Followed() if rewrite.successors is None else None
        try:
            deletes = self.adapter.deletes
            followed = deletes.compared(rewrite, self.snapshot, changes, files)
            if followed is None:
                remains = deletes.remains(rewrite, self.snapshot, changes, files)
                followed = Followed() if remains is None else self.runner.follow(remains, self._most(rewrite))
            return followed
        except Halted:
            raise
        except Exception as error:
            _log.debug("%s: copies of inputs are not followed: %s", self.adapter.table, reason(error))
            return Followed()

    def _matched(self, lost: Lost) -> Rewrite | Reason:
        """Masked by a scan of the touched inputs and of all outputs."""
        most = self._most(lost.rewrite) - lost.base.replayed
        matched = self.runner.match(self.adapter.deletes.traces(lost), most)
        try:
            wrong = self.mismatch(lost, matched)
            if wrong:
                return wrong
            masked = self.adapter.deletes.mask(lost, matched.hits)
        finally:
            self.runner.release(matched)
        return self.proven(masked, lost, matched.lost)

    def mismatch(self, lost: Lost, matched: Matched[Any]) -> Reason | None:
        if lost.rows is not None and matched.lost != lost.rows:
            return Reason.of(Code.SCAN_DISAGREES, deleted=lost.rows, found=matched.lost)
        return self._too_many(lost, matched.lost) or not_all_found(matched.lost, matched.found)

    def _too_many(self, lost: Lost, rows: int) -> Reason | None:
        total, most = lost.base.replayed + rows, self._most(lost.rewrite)
        if total <= most:
            return None
        written = lost.rewrite.written.rows_out
        return Reason.of(Code.TOO_MANY_DELETED, deleted=total, rows=written, limit=most)

    def _most(self, rewrite: Rewrite) -> int:
        share = self.options.commit.max_deleted_ratio * rewrite.written.rows_out
        return min(MAX_ROWS, int(share))

    def proven(self, masked: Rewrite, lost: Lost, rows: int) -> Rewrite | Reason:
        """The masked rewrite if it may be committed; else why not, and its files are removed."""
        written, total = masked.written, lost.base.replayed + rows
        wrong: Reason | None = None
        if masked.replayed != total or masked.rows_out != written.rows_out - total:
            rows_out = {"rows": written.rows_out, "left": masked.rows_out}
            wrong = Reason.of(Code.MASK_DISAGREES, deleted=total, **rows_out)
        elif sum(output.rows for output in masked.moved) != lost.gained:
            wrong = Reason.of(Code.MASK_DISAGREES, deleted=total, rows=written.rows_out, left=masked.rows_out)
        elif (masked.applied, masked.successors) != (applied_now(masked.task, lost.changes), lost.successors):
            wrong = Reason.of(Code.MASKED_OTHER_VERSION)
        if wrong:
            without_error(self.adapter.table, lambda: self.adapter.discard([replace(masked, outputs=())]))
            return wrong
        return masked


def not_all_found(lost: int, found: int) -> Reason | None:
    """Why the group is dropped if not each deleted row was found in the outputs; else None."""
    return None if found == lost else Reason.of(Code.NOT_ALL_FOUND, deleted=lost, found=found)


def discard(adapter: Adapter[Any], rewrites: Iterable[Rewrite]) -> set[str]:
    """Remove all files of rewrites that are known not to be committed: as written, and what replays added.

    Returns the paths, whether a file could be removed or not.
    """
    parts: list[Rewrite] = []
    for rewrite in rewrites:
        parts.append(rewrite.written)
        if rewrite.unmasked is not None:
            parts.append(replace(rewrite, outputs=()))
    return _discarded(adapter, parts)


def discard_replaced(adapter: Adapter[Any], committed: Iterable[Rewrite]) -> set[str]:
    """After a commit that is known to have happened: remove what replays replaced by other files; returns the paths."""
    parts: list[Rewrite] = []
    for rewrite in committed:
        if rewrite.unmasked is None:
            continue
        live = {output.path for output in rewrite.outputs}
        gone = tuple(o for o in rewrite.unmasked.outputs if o.path not in live)
        if gone or rewrite.stale:
            parts.append(replace(rewrite, outputs=gone, extra=()))
    return _discarded(adapter, parts)


def _discarded(adapter: Adapter[Any], parts: Iterable[Rewrite]) -> set[str]:
    paths: set[str] = set()
    for each in parts:
        without_error(adapter.table, partial(adapter.discard, [each]))
        paths.update(each.paths)
    return paths
