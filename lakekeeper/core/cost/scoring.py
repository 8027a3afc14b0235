"""The score of a merge: gain against work, as one number that is comparable across tables.

Relyt's auto table service ranks its tasks by such a score. Everything is in byte-equivalents, so that no measurement is
needed to start:

    cost of a query reading file j    O + φ·bytes, and for its deletes O·files + φ·bytes + κ·deleted rows
    gain of a merge, per second       queries/s · (Σ P_j·cost_j − Σ P'·(O + φ·bytes of an output))
    work of a merge                   ρ·bytes + O·files
    ROI                               gain · horizon / work
    score                             100 · ROI / (1 + ROI)          50: pays back exactly within the horizon

O is opening a file. A gain divided by the speed of one core is in query-seconds per second, which can be summed over
tables.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lakekeeper.core.config.layout_options import FileOptions
from lakekeeper.core.config.options import Options
from lakekeeper.core.cost.read_model import Groups, Reads
from lakekeeper.core.cost.reads import reads_of
from lakekeeper.core.model.benefit import Load, Worth, Worths, worth
from lakekeeper.core.model.blocks import BlockSet, Bools, Index, Snapshot
from lakekeeper.core.model.coefficients import DEFAULTS, Coefficients
from lakekeeper.core.units import Floats, Ints
from lakekeeper.core.workload.workload import Workload


@dataclass(frozen=True, slots=True, eq=False)
class Scale:
    """Costs of the blocks of one snapshot, and the queries that read them: the scale on which merges are weighed.

    reads         which share of the queries opens each block
    plain         N costs of reading a block once, without its deletes, in byte-equivalents
    deletes       N costs of its deletes
    size          N bytes
    files         the sizes at which outputs are cut
    rate          queries a second
    known         whether the queries are those of a workload, or assumed
    """

    reads: Reads
    plain: Floats
    deletes: Floats
    size: Floats
    files: FileOptions
    rate: float
    known: bool
    coefficients: Coefficients

    @property
    def cost(self) -> Floats:
        """N costs of reading a block once."""
        return self.plain + self.deletes

    def outputs(self, size: Floats, rows: Ints) -> tuple[Floats, Floats]:
        """For merges of these live bytes and rows: the number of output files, and the cost of reading one of them."""
        files = np.maximum(np.ceil(size / self.files.target_bytes - 1e-9), 1.0)
        if self.files.max_rows is not None:
            files = np.maximum(files, np.ceil(rows / self.files.max_rows))
        c = self.coefficients
        return files, c.open_bytes + c.column_share * size / files

    def work(self) -> Floats:
        """The work of rewriting each of N blocks."""
        return self.coefficients.rewrite * self.size + self.coefficients.open_bytes

    def worth(self, groups: Groups, size_after: Floats, packs: Bools | None = None) -> Worths:
        """The worth of merging each group; ``size_after`` has the bytes of all its outputs.

        Without a workload, the groups that ``packs`` marks are weighed by queries that read everything.
        """
        opened = self.reads.outputs(groups).files if len(groups.files) else np.zeros(0)
        if packs is None or self.known or not packs.any():
            return self.change(groups, opened, size_after)
        share = self.reads.share.copy()
        share[groups.members[np.repeat(packs, np.diff(groups.edges))]] = 1.0
        return self.change(groups, np.where(packs, groups.files, opened), size_after, share)

    def change(
        self, groups: Groups, opened: Floats, size_after: Floats, share: Floats | None = None
    ) -> Worths:
        """The worth of merges of whose outputs a query opens ``opened``; N ``share`` of the queries open blocks now."""
        at, starts = groups.members, groups.edges[:-1].astype(np.intp)
        share, c = (self.reads.share if share is None else share)[at], self.coefficients
        each = size_after / np.maximum(groups.files, 1)
        before = np.add.reduceat(share * (self.plain[at] + self.deletes[at]), starts)
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
        """The worth for the whole table: what a query reads now, and once all ``parts`` are carried out."""
        now = self.present()
        return worth(now, now - parts.saved, parts.work, self.rate, self.coefficients)


def scale_of(
    snapshot: Snapshot,
    options: Options,
    now_ms: int,
    workload: Workload | None = None,
    coefficients: Coefficients = DEFAULTS,
) -> Scale:
    """The scale of a snapshot, made once for the same arguments.

    Without a workload the rate is ``queries-per-hour``, and queries are uniform. A workload without queries has rate 0.
    """
    rate = options.workload.queries_per_hour
    at = now_ms if workload is not None else 0  # without one, the scale is the same at any time
    given = (at, id(workload), coefficients, options.files, rate)
    kept = snapshot.memo.get("scale")
    if kept is None or kept[0] != given:
        made = _scale(snapshot, now_ms, workload, coefficients, options.files, rate / 3600)
        kept = snapshot.memo["scale"] = given, made, workload  # kept, so that no other object gets its id
    found: Scale = kept[1]
    return found


def _scale(
    snapshot: Snapshot,
    now_ms: int,
    workload: Workload | None,
    c: Coefficients,
    files: FileOptions,
    rate: float,
) -> Scale:
    if workload is not None:
        share = workload.column_share
        c = (replace(c, column_share=share) if share is not None else c).fitted(workload.measured())
        rate = workload.rate(now_ms)
    blocks = snapshot.blocks
    return Scale(
        reads=reads_of(snapshot, workload, now_ms),
        plain=np.asarray(c.open_bytes + c.column_share * blocks.bytes, np.float64),
        deletes=delete_costs(blocks, c),
        size=blocks.bytes.astype(np.float64),
        files=files,
        rate=rate,
        known=workload is not None,
        coefficients=c,
    )


def costs(blocks: BlockSet, c: Coefficients) -> Floats:
    """N costs of reading a block once, in byte-equivalents."""
    return np.asarray(c.open_bytes + c.column_share * blocks.bytes + delete_costs(blocks, c))


def delete_costs(blocks: BlockSet, c: Coefficients) -> Floats:
    """The part of :func:`costs` that is due to the deletes of each block; an unknown number of rows counts as 0."""
    deleted = c.deleted_row * np.maximum(blocks.deleted_rows, 0)
    return np.asarray(c.open_bytes * blocks.delete_files + c.column_share * blocks.delete_bytes + deleted)


def groups_of(blocks: BlockSet, members: Index, edges: Ints, options: Options) -> tuple[Groups, Floats]:
    """Merges of ``members[edges[i]:edges[i + 1]]`` as groups, and the bytes of the outputs of each (its live bytes)."""
    if not len(members):
        return Groups(members, edges, np.zeros(0)), np.zeros(0)
    size = np.add.reduceat(blocks.live_bytes[members].astype(np.float64), edges[:-1])
    rows = np.add.reduceat((blocks.rows - np.maximum(blocks.deleted_rows, 0))[members], edges[:-1])
    files = np.maximum(np.ceil(options.files.fullness(rows, size)), rows > 0)
    return Groups(members, edges, files), size
