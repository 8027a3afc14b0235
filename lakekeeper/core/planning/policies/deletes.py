"""``deletes``: rewrites blocks with too many deleted rows (the deleted tuples of Relyt's auto table service).

A reader reads a deleted row and discards it, and also opens the deletes themselves. A block is due if

* the deleted share of its rows is at or above the threshold: ``delete-ratio-threshold`` for a fresh block, 5% (Relyt's
  default) for a block of seven days, falling further with age (``planning.time_decay``), so that all deleted rows are
  cleaned up in the end, whether queries read them or not; or
* opening its deletes has cost queries 0.7 times what a rewrite costs (``planning.ski_rental``): many delete
  files on one block, as a stream of upserts leaves them, or deletes as large as the block. Where a delete replaces the
  ones before, nothing says when these came: they count as half as old as the block.

If the log does not record how many rows are deleted (equality deletes, position deletes of a whole partition, two
deletes that may name one row), the share is an average: the rows that the deletes name, divided by the rows of all
blocks of the partition to which they may apply.

    delete, 100 rows   ·  ·   ·     ·  ·      applies to    |--a--|--b--|--c--|--d--|    25 of each, not 100

Neighbours along the key that are due go together, so that ten half-empty files do not become ten half-size ones:

    due |--|   due |--|   stays |--------|   due |--|          {1, 2} are merged, the third is written again alone

A group reads no more than one task sorts without a shuffle. The blocks keep their level, since this is not a merge as
in an LSM tree. The policy ends because no delete applies to the outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lakekeeper.core.config.options import Options
from lakekeeper.core.cost.scoring import scale_of
from lakekeeper.core.layout.snapshot_index import place_of
from lakekeeper.core.model.blocks import (
    UNKNOWN,
    BlockSet,
    Bools,
    Index,
    Snapshot,
)
from lakekeeper.core.model.plan import Choice, Merge, Skip
from lakekeeper.core.model.reason import Reason, between
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.planning.block_age import delete_ages
from lakekeeper.core.planning.level_groups import level_groups
from lakekeeper.core.planning.policy import Env
from lakekeeper.core.planning.ski_rental import DUE
from lakekeeper.core.planning.time_decay import Youth, youth_of

Shares = npt.NDArray[np.float64]
_ROW_BYTES = 8  # bytes of a row in a delete file whose rows are not recorded: an estimate


@dataclass(frozen=True, slots=True)
class Deletes:
    """Groups of neighbours that are due; those that free the largest share of their input come first.

    ``old_ratio`` is the threshold of a block of seven days; if it is not below ``delete-ratio-threshold``, age does not
    count.
    """

    name: str = "deletes"
    lays_out: bool = False
    old_ratio: float = 0.05  # as in Relyt

    def choose(self, snapshot: Snapshot, candidates: Index, options: Options, env: Env) -> Sequence[Choice]:
        if not len(candidates):
            return []
        found = _judge(snapshot, candidates, options, env, self.old_ratio)
        blocks = snapshot.blocks.take(candidates)
        most = options.groups.max_bytes
        fits = blocks.bytes <= most
        merges = [
            Merge(candidates[at], level, _freed(blocks, found, at), _why(blocks, found, at))
            for at, level in level_groups(snapshot, candidates, found.due & fits, options)
        ]
        skips = [
            Skip(candidates[mask], reason)
            for mask, reason in (
                (~found.applies, Reason.of(Code.NO_DELETES)),
                (found.applies & ~found.due, _below(found)),
                (found.due & ~fits, Reason.of(Code.FILE_ABOVE_GROUP_LIMIT, limit_bytes=most)),
            )
            if reason is not None and mask.any()
        ]
        return [*sorted(merges, key=lambda merge: -merge.score), *skips]


@dataclass(frozen=True, slots=True, eq=False)
class _Judged:
    """Per block: whether any delete applies, whether the number of deleted rows is known, and their (average) share.

    due        the share is at the threshold, or the rent 0.7 times the work
    falls      thresholds fall as blocks age
    rent       what opening the deletes has cost queries so far, in byte-equivalents, and ``work``, what a rewrite costs
    """

    applies: Bools
    known: Bools
    share: Shares
    threshold: Shares
    rent: Shares
    work: Shares
    youth: Youth
    falls: bool

    @property
    def due(self) -> Bools:
        over = (self.share >= self.threshold) | (self.rent >= DUE * self.work)
        due: Bools = self.applies & over
        return due


def _judge(snapshot: Snapshot, candidates: Index, options: Options, env: Env, old_ratio: float) -> _Judged:
    scale = scale_of(snapshot, options, env.now_ms, env.workload)
    blocks, youth = snapshot.blocks, youth_of(snapshot.blocks.take(candidates), env.now_ms)
    rent = scale.rate * scale.reads.share * scale.deletes * delete_ages(snapshot, env.now_ms)
    return _Judged(
        applies=blocks.delete_files[candidates] > 0,
        known=blocks.deleted_rows[candidates] != UNKNOWN,
        share=_shares(snapshot)[candidates],
        threshold=youth.between(options.planning.delete_ratio, old_ratio),
        rent=rent[candidates],
        work=scale.work()[candidates],
        youth=youth,
        falls=old_ratio < options.planning.delete_ratio,
    )


def _shares(snapshot: Snapshot) -> Shares:
    """Per block the deleted share of its rows; an average if it is not known."""
    blocks, place = snapshot.blocks, place_of(snapshot)
    rows = np.maximum(blocks.rows, 1)
    unknown = blocks.deleted_rows == UNKNOWN
    if not unknown.any():
        return np.asarray(blocks.deleted_rows / rows)
    named = np.where(blocks.delete_rows == UNKNOWN, blocks.delete_bytes // _ROW_BYTES, blocks.delete_rows)
    among = np.bincount(place, np.where(unknown, rows, 0))[place]
    spread = np.minimum(named / np.maximum(among, rows), 1.0)
    return np.asarray(np.where(unknown, spread, blocks.deleted_rows / rows))


def _freed(blocks: BlockSet, found: _Judged, at: Index) -> float:
    """The share of the group's input that no query reads after the merge: deleted rows, and the deletes."""
    read, deletes = blocks.bytes[at], blocks.delete_bytes[at]
    spared = float((found.share[at] * read).sum() + deletes.sum())
    return spared / max(int(read.sum() + deletes.sum()), 1)


def _why(blocks: BlockSet, found: _Judged, at: Index) -> Reason:
    first, *more = _deleted(blocks, found, at)
    over = found.share[at] >= found.threshold[at]
    if over.any():
        more += _due_at(found, at[over])
    if not over.all():
        late = at[~over]
        paid, work = int(found.rent[late].sum()), int(found.work[late].sum())
        more.append(Reason.of(Code.DELETES_PAID, deletes_bytes=paid, rewrite_bytes=work))
    return first.plus(*more)


def _deleted(blocks: BlockSet, found: _Judged, at: Index) -> list[Reason]:
    known = found.known[at]
    reasons = []
    if known.any():
        rows, dead = int(blocks.rows[at][known].sum()), int(blocks.deleted_rows[at][known].sum())
        reasons.append(Reason.of(Code.DELETED_ROWS, deleted=dead, rows=rows, share=dead / max(rows, 1)))
    unsure = at[~known]
    if len(unsure):
        files = int(blocks.delete_files[unsure].max())
        reasons.append(
            Reason.of(Code.DELETED_ROWS_ABOUT, share=between(found.share[unsure]), delete_files=files)
        )
    return reasons


def _due_at(found: _Judged, at: Index) -> list[Reason]:
    """The thresholds of blocks that are over theirs."""
    if not found.youth.known:
        return [Reason.of(Code.DUE_AT, threshold=between(found.threshold[at]))]
    age = found.youth.age_ms[at]
    dated = at[age >= 0]
    reasons = []
    if len(dated):
        ages = between(found.youth.age_ms[dated])
        reasons.append(Reason.of(Code.DUE_AT_AGE, threshold=between(found.threshold[dated]), age_ms=ages))
    if len(dated) < len(at):
        reasons.append(Reason.of(Code.DUE_AGE_UNKNOWN))
    return reasons


def _below(found: _Judged) -> Reason | None:
    """Why blocks with deletes are left, and when they would be due; thresholds are rounded up to 0.1%."""
    under = found.applies & ~found.due
    if not under.any():
        return None
    code = Code.FEW_DELETED if found.known[under].all() else Code.FEW_DELETED_ABOUT
    threshold = between(np.ceil(found.threshold[under] * 1000 - 1e-9) / 1000)
    due = Code.DUE_AT_LESS if found.falls else Code.DUE_AT
    return Reason.of(code, share=between(found.share[under])).plus(Reason.of(due, threshold=threshold))


DELETES = Deletes()
