"""``filters``: rewrites blocks without the Bloom filters that the table asks for, where lookups have paid for them.

The INDEX task of Relyt's auto table service. A lookup of a value (``core.cost.lookups``) opens each block that its
other filters and the statistics do not exclude. With a Bloom filter it reads only the blocks that hold the value:

    saving(b)   φ · bytes · (1 − v · rows of b / rows of the table) − filter
    paid(b)     lookups that open b, since b was added · saving(b)
    due         paid(b) ≥ 0.7 · (ρ · bytes + O)

v is the number of values that a lookup asks for. The number of rows with each value is unknown and assumed to be one,
since a filter is requested for a selective column. ``filter`` is 1 MiB for each row group of 128 MiB, so that small
files are never due.

Neighbours of one level that are due are rewritten together, and keep their level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakekeeper.core.config.options import Options
from lakekeeper.core.cost.lookups import Lookups, lookups_of
from lakekeeper.core.cost.scoring import Scale, scale_of
from lakekeeper.core.model.benefit import Worths
from lakekeeper.core.model.blocks import Bools, Index, Snapshot
from lakekeeper.core.model.plan import Choice, Merge, Plan, Skip, Tasks
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.planning.block_age import ages
from lakekeeper.core.planning.level_groups import level_groups
from lakekeeper.core.planning.policy import Env
from lakekeeper.core.planning.ski_rental import DUE
from lakekeeper.core.units import Floats

_FILTER_BYTES = 1 << 20  # Parquet's default, parquet.bloom.filter.max.bytes
_ROW_GROUP_BYTES = 128 << 20


@dataclass(frozen=True, slots=True)
class Filters:
    """Groups of blocks that are due; those that have paid most per work come first.

    columns      those for which the table requests filters
    unfiltered   paths of the blocks that lack one; None: not known, any may
    every        lookups need not have paid for it
    """

    columns: tuple[str, ...]
    unfiltered: frozenset[str] | None = None
    every: bool = False
    name: str = "filters"
    lays_out: bool = False
    converges: bool = False

    def choose(self, snapshot: Snapshot, candidates: Index, options: Options, env: Env) -> Sequence[Choice]:
        if not len(candidates):
            return []
        found = self._weighed(snapshot, options, env)
        if isinstance(found, Reason):
            return [Skip(candidates, found)]
        blocks = snapshot.blocks.take(candidates)
        most = options.groups.max_bytes
        due, fits, lacks = found.due[candidates], blocks.bytes <= most, self._lacks(blocks.path)
        groups = level_groups(snapshot, candidates, due & lacks & fits, options)
        merges = [
            Merge(candidates[at], level, found.ratio(candidates[at]), self._why(found, candidates[at]))
            for at, level in groups
        ]
        skips = [
            Skip(candidates[mask], reason)
            for mask, reason in (
                (~due, Reason.of(Code.LOOKUPS_NOT_PAID, columns=", ".join(self.columns))),
                (due & ~lacks, Reason.of(Code.HAS_FILTERS, columns=", ".join(self.columns))),
                (due & lacks & ~fits, Reason.of(Code.FILE_ABOVE_GROUP_LIMIT, limit_bytes=most)),
            )
            if mask.any()
        ]
        return [*sorted(merges, key=lambda merge: -merge.score), *skips]

    def due(self, snapshot: Snapshot, options: Options, env: Env) -> Index:
        """The blocks that are due if they lack a filter: only their footers need to be read."""
        found = self._weighed(snapshot, options, env)
        return np.zeros(0, np.intp) if isinstance(found, Reason) else np.flatnonzero(found.due)

    def explained(self, plan: Plan, snapshot: Snapshot, options: Options, env: Env) -> Plan:
        """The plan of these choices with its effect on lookups instead of queries on the key."""
        found = self._weighed(snapshot, options, env)
        if isinstance(found, Reason) or plan.prediction is None or not isinstance(plan.tasks, Tasks):
            return plan
        worths = found.worths(plan.tasks.members, plan.tasks.edges)
        prediction = replace(plan.prediction, worth=found.scale.everything(worths))
        return replace(plan, tasks=plan.tasks.weighed(worths), prediction=prediction)

    def _weighed(self, snapshot: Snapshot, options: Options, env: Env) -> _Weighed | Reason:
        """The blocks of the snapshot, or why none is due."""
        if not self.columns:
            return Reason.of(Code.NO_FILTERS)
        scale = scale_of(snapshot, options, env.now_ms, env.workload)
        lookups = None
        if env.workload is not None:
            lookups = lookups_of(snapshot, env.workload, self.columns, env.now_ms)
        if lookups is None and not self.every:
            code = Code.NO_LOOKUPS if env.workload is not None else Code.NO_WORKLOAD
            return Reason.of(code, columns=", ".join(self.columns))
        return _Weighed(
            scale, lookups, _saving(snapshot, scale, lookups), ages(snapshot, env.now_ms), self.every
        )

    def _lacks(self, paths: pa.Array) -> Bools:
        if self.unfiltered is None:
            return np.ones(len(paths), np.bool_)
        known = pa.array(sorted(self.unfiltered), pa.string())
        return np.asarray(pc.is_in(paths, value_set=known).to_numpy(zero_copy_only=False), np.bool_)

    def _why(self, found: _Weighed, at: Index) -> Reason:
        columns = ", ".join(self.columns)
        if found.lookups is None or not found.pays[at].all():
            return Reason.of(Code.FILTERS_MISSING, columns=columns)
        paid, work = int(found.paid[at].sum()), int(found.work[at].sum())
        return Reason.of(Code.LOOKUPS_PAID, columns=columns, lookup_bytes=paid, rewrite_bytes=work)


@dataclass(frozen=True, slots=True, eq=False)
class _Weighed:
    """Per block of the snapshot: what a filter would save a lookup that opens it, and its age in seconds."""

    scale: Scale
    lookups: Lookups | None
    saving: Floats
    age: Floats
    every: bool

    @property
    def share(self) -> Floats:
        return self.lookups.share if self.lookups else np.zeros(len(self.saving))

    @property
    def paid(self) -> Floats:
        """What lookups have read so far that a filter would have saved, in byte-equivalents."""
        return np.asarray(self.scale.rate * self.share * self.saving * self.age)

    @property
    def work(self) -> Floats:
        return self.scale.work()

    @property
    def pays(self) -> Bools:
        return np.asarray((self.saving > 0) & (self.paid >= DUE * self.work), np.bool_)

    @property
    def due(self) -> Bools:
        return np.ones(len(self.saving), np.bool_) if self.every else self.pays

    def ratio(self, at: Index) -> float:
        return float(self.paid[at].sum() / self.work[at].sum())

    def worths(self, members: Index, edges: Index) -> Worths:
        """Of rewriting groups of blocks: as many files are opened as before, and less of them is read."""
        starts, share, size = edges[:-1], self.share[members], self.scale.size[members]
        cost, saved = self.scale.plain[members], self.saving[members]
        kept = 1 - saved / np.maximum(self.scale.coefficients.column_share * size, 1e-300)

        def summed(values: Floats) -> Floats:
            return np.asarray(np.add.reduceat(share * values, starts)) if len(members) else np.zeros(0)

        files = summed(np.ones(len(members)))
        before = files, summed(size), summed(cost)
        after = files, summed(size * kept), summed(cost - saved)
        work = np.add.reduceat(self.work[members], starts) if len(members) else np.zeros(0)
        return Worths(before, after, work, self.scale.rate, self.scale.coefficients)


def _saving(snapshot: Snapshot, scale: Scale, lookups: Lookups | None) -> Floats:
    """Per block what a filter saves a lookup that opens it, in byte-equivalents."""
    blocks = snapshot.blocks
    rows = np.maximum(blocks.rows, 0)
    held = np.minimum((lookups.values if lookups else 1.0) * rows / max(int(rows.sum()), 1), 1.0)
    groups = np.maximum(np.ceil(blocks.bytes / _ROW_GROUP_BYTES), 1.0)
    read = scale.coefficients.column_share * blocks.bytes * (1 - held)
    return np.asarray(np.maximum(read - groups * _FILTER_BYTES, 0.0))
