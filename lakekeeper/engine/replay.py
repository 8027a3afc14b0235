"""Replay: deletes that won a race are applied to outputs that nobody sees yet (seed 001, case 2).

    traces ─► match ─┬─ as many places as lost rows ─► mask ─► check ─► a rewrite for the newest version
                     └─ anything else ─────────────────────────────► the group is dropped

It may only turn an abort into a commit where the result is provably right: every row that died is found at one
place of its own, and rows out are rows in minus deleted. In doubt the group is dropped, its files are removed,
and the next plan sees the table as it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from lakekeeper.core.blocks import Snapshot
from lakekeeper.core.options import Options
from lakekeeper.core.rebase import Changes, Dropped, Rewrite, applied_now, touched, why
from lakekeeper.engine.events import Halted
from lakekeeper.errors import Conflict, reason
from lakekeeper.spi import Adapter, Matched, Runner


@dataclass(frozen=True, slots=True)
class Replayer:
    """Brings rewrites of one run up to date. ``snapshot`` is what they were read from."""

    adapter: Adapter[Any]
    runner: Runner[Any]
    run_id: str
    snapshot: Snapshot
    options: Options

    def replay(self, rewrite: Rewrite, changes: Changes) -> Rewrite | Dropped:
        """The rewrite masked for ``changes``; files of an earlier replay of it are removed. Never raises for a
        replay that can not be done: then the group is dropped, and its files are left to the caller.
        """
        lost = why(*touched(rewrite, changes), changes)
        try:
            with self.runner.working(self.run_id, rewrite.task):
                try:
                    masked = self._masked(rewrite, changes)
                finally:
                    with suppress(Exception):  # memory that is not freed must not cost the group
                        self.adapter.release(rewrite.task)
        except Conflict as error:
            return Dropped(rewrite, f"{lost}; not replayed: {error}")
        except Halted:
            raise
        except Exception as error:
            # A lost executor, a value that can not be compared: the group is lost, the table is not touched.
            return Dropped(rewrite, f"{lost}; not replayed: {reason(error)}")
        if isinstance(masked, str):
            return Dropped(rewrite, f"{lost}; not replayed: {masked}")
        if rewrite.unmasked is not None:
            self.adapter.discard([replace(rewrite, outputs=())])
        return masked

    def _masked(self, rewrite: Rewrite, changes: Changes) -> Rewrite | str:
        written = rewrite.written
        most = min(
            self.options.integer("replay.max-rows"),
            int(self.options.number("replay.max-deleted-ratio") * written.rows_out),
        )
        matched = self.runner.match(self.adapter.deletes.traces(rewrite, self.snapshot, changes), most)
        try:
            wrong = self._wrong(written, matched, most)
            if wrong:
                return wrong
            masked = self.adapter.deletes.mask(rewrite, matched.hits, changes)
        finally:
            self.runner.release(matched)
        wrong = _unproven(masked, matched.lost, changes)
        if wrong:
            self.adapter.discard([replace(masked, outputs=())])
            return wrong
        return masked

    @staticmethod
    def _wrong(written: Rewrite, matched: Matched[Any], most: int) -> str:
        if matched.lost > most:
            return (
                f"{matched.lost:,} of its {written.rows_out:,} rows are gone, over the bound of {most:,} "
                "(replay.max-deleted-ratio, replay.max-rows): cheaper to plan anew"
            )
        if matched.found != matched.lost:
            return f"{matched.lost:,} rows are gone, and {matched.found:,} of them were found in the outputs"
        return ""


def _unproven(masked: Rewrite, lost: int, changes: Changes) -> str:
    """Why a masked rewrite may not be committed; empty if it may."""
    written = masked.written
    if masked.replayed != lost or masked.rows_out != written.rows_out - lost:
        return (
            f"{lost:,} of {written.rows_out:,} rows are gone, and {masked.rows_out:,} are left after masking"
        )
    if masked.applied != applied_now(masked.task, changes):
        return "the adapter masked the outputs for another version of the inputs"
    return ""


def discard(adapter: Adapter[Any], rewrites: Iterable[Rewrite]) -> None:
    """Remove all files of rewrites that are known not to be committed: as written, and what replays added."""
    for rewrite in rewrites:
        adapter.discard([rewrite.written])
        if rewrite.unmasked is not None:
            adapter.discard([replace(rewrite, outputs=())])


def discard_replaced(adapter: Adapter[Any], committed: Iterable[Rewrite]) -> None:
    """After a commit that is known to have happened: remove outputs that a replay put others in the place of."""
    for rewrite in committed:
        if rewrite.unmasked is None:
            continue
        live = {output.path for output in rewrite.outputs}
        stale = tuple(o for o in rewrite.unmasked.outputs if o.path not in live)
        if stale:
            adapter.discard([replace(rewrite.unmasked, outputs=stale)])
