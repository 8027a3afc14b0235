"""What a merge is worth: gain against work, as one number that compares across tables (seed 001's score).

Everything is in byte-equivalents, so that nothing has to be measured to begin with:

    cost of a query reading file j    O + φ·bytes + κ·deleted rows (+ O for its deletes)        O is opening a file
    gain of a merge, per second       queries/s · (Σ P_j·cost_j − Σ P'·(O + φ·bytes of an output))
    work of a merge                   ρ·bytes + O·files
    ROI                               gain · horizon / work
    score                             100 · ROI / (1 + ROI)          50: pays back exactly within the horizon

A gain divided by the speed of one core is in query-seconds per second, and these add up over tables. (algorithms §5)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lakekeeper.core.blocks import BlockSet, Snapshot
from lakekeeper.core.costs import DEFAULTS, Coefficients
from lakekeeper.core.mass import Floats
from lakekeeper.core.options import Options
from lakekeeper.core.plan import Tasks
from lakekeeper.core.reads import Groups, Reads, reads_of
from lakekeeper.core.workload import Workload
from lakekeeper.core.worth import Load, Worth, Worths, worth


@dataclass(frozen=True, slots=True, eq=False)
class Scale:
    """Costs of the blocks of one snapshot, and who reads them: what every merge of it is weighed on."""

    reads: Reads
    cost: Floats
    size: Floats
    rate: float
    coefficients: Coefficients

    def worth(self, groups: Groups, size_after: Floats) -> Worths:
        """Of merging each group; ``size_after`` are bytes of all its outputs."""
        opened = self.reads.outputs(groups) if len(groups.files) else np.zeros(0)
        return self.change(groups, opened, size_after)

    def change(self, groups: Groups, opened: Floats, size_after: Floats) -> Worths:
        """Of making each group into files of which a query opens ``opened``."""
        at, starts = groups.members, groups.edges[:-1].astype(np.intp)
        share, c = self.reads.share[at], self.coefficients
        each = size_after / np.maximum(groups.files, 1)
        before = np.add.reduceat(share * self.cost[at], starts)
        after = opened * (c.open_bytes + c.column_share * each)
        work = c.rewrite * np.add.reduceat(self.size[at], starts) + c.open_bytes * np.diff(groups.edges)
        sums = (np.add.reduceat(share, starts), np.add.reduceat(share * self.size[at], starts), before)
        sides = (sums, (opened, opened * each, after))
        return Worths(*sides, work, self.rate, c)

    def present(self) -> Load:
        """What a query reads of the whole table."""
        share = self.reads.share
        return Load(float(share.sum()), float((share * self.size).sum()), float((share * self.cost).sum()))

    def everything(self, parts: Worths) -> Worth:
        """The whole table: what a query reads of it now, and once all ``parts`` are carried out."""
        now = self.present()
        return worth(now, now - parts.saved, parts.work, self.rate, self.coefficients)


def scale_of(
    snapshot: Snapshot,
    options: Options,
    now_ms: int,
    workload: Workload | None = None,
    coefficients: Coefficients = DEFAULTS,
) -> Scale:
    """The scale of a snapshot. Without a workload the rate is ``queries-per-hour``, and queries are uniform."""
    known = workload if workload is not None and len(workload) else None
    if known is not None:
        share = known.column_share
        coefficients = replace(coefficients, column_share=share) if share is not None else coefficients
        coefficients = coefficients.fitted(known.measured())
    rate = known.rate(now_ms) if known else options.number("queries-per-hour") / 3600
    blocks = snapshot.blocks
    return Scale(
        reads=reads_of(snapshot, known, now_ms),
        cost=costs(blocks, coefficients),
        size=blocks.bytes.astype(np.float64),
        rate=rate,
        coefficients=coefficients,
    )


def costs(blocks: BlockSet, c: Coefficients) -> Floats:
    """N costs of reading a block once, in byte-equivalents; of an unknown number of deleted rows, none."""
    deleted = np.maximum(blocks.deleted_rows, 0)
    opened = c.open_bytes * (1.0 + blocks.delete_files)
    return np.asarray(
        opened + c.column_share * (blocks.bytes + blocks.delete_bytes) + c.deleted_row * deleted
    )


def groups_of(blocks: BlockSet, tasks: Tasks, options: Options) -> tuple[Groups, Floats]:
    """Tasks as groups of positions, and the bytes of each one's outputs (what lives of its inputs)."""
    members, edges = tasks.members, tasks.edges
    size = np.add.reduceat(blocks.live_bytes[members].astype(np.float64), edges[:-1])
    rows = np.add.reduceat((blocks.rows - np.maximum(blocks.deleted_rows, 0))[members], edges[:-1])
    target, most_rows = options.integer("target-file-size-bytes"), options.integer("max-rows-per-file")
    files = np.maximum(np.ceil(np.maximum(size / target, rows / most_rows)), rows > 0)
    return Groups(members, edges, files), size


def price_of(
    snapshot: Snapshot,
    workload: Workload,
    options: Options,
    now_ms: int,
    coefficients: Coefficients = DEFAULTS,
) -> float | None:
    """λ: what one scan of a file costs in rewrites of a file, for each commit of the table; None where none is known.

    Queries between two commits times the cost of reading one file, by that of rewriting it. With the defaults and
    128 MiB, 22 queries for each commit make 1.
    """
    between = commit_seconds(snapshot)
    rate = workload.rate(now_ms)
    if between is None or not rate:
        return None
    target, c = options.integer("target-file-size-bytes"), coefficients
    scan = c.open_bytes + (workload.column_share or c.column_share) * target
    return rate * between * scan / (c.rewrite * target)


def commit_seconds(snapshot: Snapshot) -> float | None:
    """Mean time between the commits of writers, or of those that brought the live blocks; None for fewer than two."""
    known = np.unique(snapshot.commits_ms)
    if len(known) < 2:
        known = np.unique(snapshot.blocks.added_at[snapshot.blocks.added_at > 0])
    return float(known[-1] - known[0]) / 1000 / (len(known) - 1) if len(known) > 1 else None
