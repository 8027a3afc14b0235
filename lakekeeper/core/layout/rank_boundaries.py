"""Rank boundaries map the values of a key's columns to buckets of a curve's grid.

    column a   ──┬──┬─┬┬─┬───┬──    quantiles of the blocks' summed even spreads, as many as the grid has room for
    bucket     1   2  3 45  6   7   0 is NULL; NaN is in the last bucket

Ranks make a curve work for skewed columns as well as for uniform ones. They must be stable: a curve range that one run
stored does not compare with ranges under other boundaries. So boundaries are stored next to the table's data, under
the key's id, and a next generation is derived only when the table has outgrown them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from lakekeeper.core.layout.ranks import has_bounds, ordered
from lakekeeper.core.layout.space_filling_curve import box_range, index
from lakekeeper.core.layout.split_points import column_cuts
from lakekeeper.core.layout.truncation import upper_bounds
from lakekeeper.core.model.blocks import UNKNOWN, BlockSet, Snapshot
from lakekeeper.core.model.boundaries import BITS, MOST, Boundaries
from lakekeeper.core.model.keys import ClusterKey, from_json_values
from lakekeeper.core.units import Ints

_LOOKED_AT = 20_000  # blocks sampled: more do not improve the quantiles
_FINER = 8  # buckets that a block should span, fewer if the table has too many blocks for the grid


def buckets(boundaries: Boundaries, column: int, values: pa.Array) -> Ints:
    """Bucket of each value, in the key column's Arrow type: 0 for NULL, else 1 + number of boundaries ≤ the value."""
    kind = boundaries.kinds[column]
    at = from_json_values(boundaries.columns[column], kind)
    if at.type != values.type:  # decimals with another precision
        at = at.cast(values.type)
    codes, valid = ordered(pa.concat_arrays([values, at]))
    n = len(values)
    found = np.searchsorted(codes[n:], codes[:n], side="right") + 1
    return np.where(valid[:n], found, 0).astype(np.int64)


def derive(blocks: BlockSet, key: ClusterKey, generation: int = 0) -> Boundaries:
    """Boundaries of about equal weight from the blocks' statistics; no job reads data for them."""
    columns = []
    for column, described in enumerate(key.columns):
        some = _spread_sample(blocks, column)
        columns.append(column_cuts(some, slice(None), column, described.kind, MOST + 1) or ())
    return Boundaries(key.key_id, generation, tuple(c.kind for c in key.columns), tuple(columns))


def _spread_sample(blocks: BlockSet, column: int) -> BlockSet:
    """A sample of blocks, evenly spaced along the column, independent of the input order; all blocks if few."""
    n = len(blocks)
    if n <= _LOOKED_AT:
        return blocks
    codes, _ = ordered(pa.concat_arrays([blocks.lo[column], blocks.hi[column]]))
    order = np.lexsort((blocks.rows, codes[n:], codes[:n]))
    return blocks.take(order[np.linspace(0, n - 1, _LOOKED_AT).astype(np.intp)])


def outgrown(old: Boundaries, new: Boundaries, blocks: int) -> bool:
    """Whether, in some column, ``old`` resolves less than half the ranks of ``new``, which is from current statistics.

    Values that only ever grow accumulate in the last bucket; a column whose distribution was unknown, because each
    block covered all of it, shows it once it has been clustered. ``old`` need not resolve more than half the ranks that
    the table's number of blocks calls for in each column:

        blocks ^ (1 / columns) · 8
    """
    need = _FINER * blocks ** (1 / max(len(old.columns), 1))
    for column, (was, now) in enumerate(zip(old.columns, new.columns, strict=True)):
        values = from_json_values(now, new.kinds[column])
        finest = min(len(now) + 1, need)
        share = np.bincount(buckets(old, column, values)) / max(len(now), 1)
        effective = 1 / max(float((share**2).sum()), 1e-9) if len(now) and len(was) else 1.0
        if 2 * effective < finest:
            return True
    return False


def refined(old: Boundaries, new: Boundaries) -> Boundaries:
    """``new`` with the boundaries of ``old`` between its own, thinned out evenly where these are too many.

    Statistics show the rows of a file as spread evenly, so that each rewrite shows the same rows in another way.
    If the next generation forgot the last one, the two could outgrow each other forever.
    """
    if old.kinds != new.kinds:
        return new
    columns = []
    for was, now, kind in zip(old.columns, new.columns, new.kinds, strict=True):
        both = (*was, *now)
        codes, _ = ordered(from_json_values(both, kind))
        _, at = np.unique(codes, return_index=True)
        kept = np.unique(np.linspace(0, len(at) - 1, min(len(at), MOST)).round().astype(np.intp))
        columns.append(tuple(both[i] for i in at[kept]))
    return replace(new, columns=tuple(columns))


def placed(snapshot: Snapshot) -> Snapshot:
    """The snapshot with every block placed on the curve of its key; the snapshot itself if there is nothing to place.

    A stored range counts if it was made under the same boundaries, which belong to one key. Any other block gets the
    curve range of its bounding box, which covers its rows as far as truncated bounds show them. Unless
    ``snapshot.boundaries`` fits the key, boundaries are derived. Under a linear key, or without a key, no block is on a
    curve: stored ranges belong to another key.
    """
    key, blocks = snapshot.key, snapshot.blocks
    if key is None or not key.curved:
        return replace(snapshot, blocks=replace(blocks, placed_by="")) if blocks.placed_by else snapshot
    kept = snapshot.boundaries
    ours = kept if kept is not None and kept.fits(key) else derive(blocks, key)
    if blocks.placed_by == ours.id:
        return snapshot if kept is ours else replace(snapshot, boundaries=ours)
    known = _stored(blocks, ours.id)
    lo, hi = blocks.curve_lo.copy(), blocks.curve_hi.copy()
    boxed = np.flatnonzero(~known)
    lo[boxed], hi[boxed] = _box_ranges(blocks if not known.any() else blocks.take(boxed), key, ours)
    curve_id = np.where(known, 0, -1).astype(np.int32)
    moved = replace(
        blocks, curve_lo=lo, curve_hi=hi, curve_id=curve_id, curve_ids=(ours.id,), placed_by=ours.id
    )
    return replace(snapshot, boundaries=ours, blocks=moved)


def _stored(blocks: BlockSet, wanted: str) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Blocks with a range stored under the boundaries of this id."""
    if wanted not in blocks.curve_ids:
        return np.zeros(len(blocks), dtype=np.bool_)
    same = blocks.curve_id == blocks.curve_ids.index(wanted)
    return np.asarray(same & (blocks.curve_lo >= 0), dtype=np.bool_)


def _box_ranges(blocks: BlockSet, key: ClusterKey, boundaries: Boundaries) -> tuple[Ints, Ints]:
    """First and last curve position in each block's bounding box; NULL is a bucket like any other.

    Upper bounds that are truncated count as in :mod:`lakekeeper.core.layout.truncation`.
    """
    low, high = [], []
    for column in range(len(key.columns)):
        lo = buckets(boundaries, column, blocks.lo[column])
        hi = buckets(boundaries, column, upper_bounds(blocks, column))
        nulls, bound = blocks.null_count[column], has_bounds(blocks, column)
        no_values = ~bound & (nulls >= blocks.rows)
        lo[(nulls != 0) | ~bound] = 0  # an unknown null count may be positive
        hi[~bound] = (1 << BITS) - 1
        hi[no_values] = 0
        low.append(lo)
        high.append(hi)
    return box_range(key.layout, low, high)


def curve_index(boundaries: Boundaries, layout: str, columns: Sequence[pa.Array]) -> Ints:
    """Curve position of N rows, given as one array of values for each key column."""
    return index(layout, [buckets(boundaries, k, values) for k, values in enumerate(columns)])


def newest_generation(blocks: BlockSet, key: ClusterKey) -> int:
    """The highest generation of boundaries under which a block of this key stores its range; 0 if none does."""
    if key.key_id not in blocks.key_ids or not blocks.curve_ids:
        return 0
    ours = (blocks.key_id == blocks.key_ids.index(key.key_id)) & (blocks.curve_id != UNKNOWN)
    found = [blocks.curve_ids[code] for code in np.unique(blocks.curve_id[ours])]
    return max((int(g) for g in (name.partition("-")[0] for name in found) if g.isdecimal()), default=0)
