"""``deletes``: blocks of which too many rows are deleted are written anew without them (seed 001's deleted tuples).

A reader reads a deleted row and throws it away, and reads the deletes themselves besides. A block is due where

* the deleted share of its rows is at or above the threshold: ``delete-ratio-threshold`` for a fresh block,
  ``delete-ratio-threshold-old`` at seven days, and less beyond (see :mod:`lakekeeper.core.youth`), so that every
  deleted row is removed in the end; or
* nobody can tell how many rows its deletes take (equality deletes, position deletes of a whole partition, two
  deletes that may name one row): each reader has to join them with the block, however few they are; or
* its deletes are as large as the block itself: reading it costs twice. Of small rows that compress well, a share
  far below the threshold has such deletes; the table of options needs no number for it.

Neighbours along the key that are due go together, so that ten half-empty files do not become ten half-size ones:

    due |--|   due |--|   stays |--------|   due |--|          {1, 2} are merged, the third is written anew alone

A group reads no more than one task sorts without a shuffle. The level stays: this is no merge of the LSM kind. It
ends because no delete applies to what was written.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from lakekeeper.core.blocks import UNKNOWN, BlockSet, Bools, Index, Snapshot
from lakekeeper.core.neighbours import Line, group_of, line_of, stretches
from lakekeeper.core.options import Options
from lakekeeper.core.plan import Choice, Merge, Skip
from lakekeeper.core.policies import Env
from lakekeeper.core.ranks import rank_blocks
from lakekeeper.core.youth import Youth, youth_of

Shares = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Deletes:
    """Groups of neighbours that are due, those first that free the largest share of what they read."""

    name: str = "deletes"

    def choose(self, snapshot: Snapshot, candidates: Index, options: Options, env: Env) -> Sequence[Choice]:
        if not len(candidates):
            return []
        blocks = snapshot.blocks.take(candidates)
        found = _judge(blocks, youth_of(blocks, env), options)
        most = options.integer("max-file-group-size-bytes")
        fits = blocks.bytes <= most
        level = blocks.level_under(snapshot.key)
        group = group_of(blocks, level)
        keyed = snapshot.key is not None
        line = line_of(blocks, group, rank_blocks(blocks, group, null_region=False) if keyed else None)
        merges = [
            Merge(candidates[at], int(level[at[0]]), _freed(blocks, found, at), _why(blocks, found, at))
            for at in _groups(blocks, line, found.due & fits, options)
        ]
        skips = [
            Skip(candidates[mask], reason)
            for mask, reason in (
                (~found.applies, "no delete applies to it"),
                (found.applies & ~found.due, found.below),
                (found.due & ~fits, f"above max-file-group-size-bytes {most:,}: no group may read it"),
            )
            if mask.any()
        ]
        return [*sorted(merges, key=lambda merge: -merge.score), *skips]


@dataclass(frozen=True, slots=True, eq=False)
class _Judged:
    """Per block: does any delete apply, is the number of its deleted rows known, their share, and is it due.

    ``below`` says why those that are not due are left.
    """

    applies: Bools
    known: Bools
    share: Shares
    due: Bools
    threshold: Shares
    youth: Youth
    below: str

    def in_force(self, at: Index | Bools, *, up: bool = False) -> str:
        """The thresholds of some blocks, rounded down or ``up``, and their ages where there is a clock."""
        shown = np.ceil(self.threshold[at] * 1000 - 1e-9) / 1000 if up else self.threshold[at]
        return f"delete-ratio-threshold {_span(shown)}{self.youth.told(at)}"


def _judge(blocks: BlockSet, youth: Youth, options: Options) -> _Judged:
    threshold = youth.between(
        options.number("delete-ratio-threshold"), options.number("delete-ratio-threshold-old")
    )
    named = np.asarray(pc.not_equal(blocks.delete_id, "").to_numpy(zero_copy_only=False), dtype=np.bool_)
    applies: Bools = named | (blocks.deleted_rows > 0)
    known: Bools = blocks.deleted_rows != UNKNOWN
    # Of an unknown number all may be gone: such a block comes before one that is known to be half empty.
    share = np.where(known, blocks.deleted_rows / np.maximum(blocks.rows, 1), 1.0)
    heavy = (blocks.delete_bytes > 0) & (blocks.delete_bytes >= blocks.bytes)
    due: Bools = applies & (~known | (share >= threshold) | heavy)
    found = _Judged(applies, known, share, due, threshold, youth, "")
    under = applies & ~due
    if not under.any():
        return found
    return replace(
        found, below=f"{_span(share[under])} of its rows deleted, under {found.in_force(under, up=True)}"
    )


def _span(share: Shares) -> str:
    least, most = _percent(float(share.min())), _percent(float(share.max()))
    return most if least == most else f"{least} to {most}"


def _percent(share: float) -> str:
    """Rounded down, so that what is under a threshold never looks like it; not ``0 %`` for a few rows."""
    return f"{math.floor(share * 1000 + 1e-9) / 10:g} %" if share >= 0.001 or not share else "under 0.1 %"


def _groups(blocks: BlockSet, line: Line, due: Bools, options: Options) -> list[Index]:
    """Stretches of neighbours, filled up to what one task sorts, but never less than a file of the target size."""
    task = max(options.integer("single-task-bytes"), options.integer("target-file-size-bytes"))
    return stretches(
        blocks,
        line,
        due,
        max_bytes=min(task, options.integer("max-file-group-size-bytes")),
        max_files=options.integer("max-file-group-input-files"),
    )


def _freed(blocks: BlockSet, found: _Judged, at: Index) -> float:
    """The share of what the group reads that nobody has to read after it: dead rows, and the deletes themselves."""
    size, deletes = blocks.bytes[at], blocks.delete_bytes[at]
    spared = float((found.share[at] * size).sum() + deletes.sum())
    return spared / max(int(size.sum() + deletes.sum()), 1)


def _why(blocks: BlockSet, found: _Judged, at: Index) -> str:
    known = found.known[at]
    rows, dead = int(blocks.rows[at][known].sum()), int(blocks.deleted_rows[at][known].sum())
    said = [f"{dead:,} of {rows:,} rows deleted ({_percent(dead / max(rows, 1))})"] if known.any() else []
    unsure = int((~known).sum())
    if unsure:
        where = f" in {unsure:,} of them" if known.any() else ""
        said.append(f"an unknown number of rows deleted{where}")
    if (known & (found.share[at] < found.threshold[at])).any():
        said.append("deletes as large as their block")
    return f"{_blocks(at)}: {', '.join(said)}; {found.in_force(at)}"


def _blocks(at: Index) -> str:
    return "1 block" if len(at) == 1 else f"{len(at):,} neighbours"


DELETES = Deletes()
