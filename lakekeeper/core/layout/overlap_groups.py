"""From chosen blocks to merge groups: connected, bounded, disjoint.

A merge of blocks whose ranges form one connected stretch never raises the depth anywhere: its outputs are disjoint and
cover no more than the inputs did. A merge across a gap would bridge it:

    A |----|            B |----|          merged |-----------------|     deeper in between
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakekeeper.core.layout.ranks import stable_order
from lakekeeper.core.model.blocks import Bools, Index
from lakekeeper.core.units import Ints


def sections(group: Ints, lo: Ints, hi: Ints) -> tuple[Index, Ints]:
    """Blocks in (group, lo) order, and the section number of each in that order.

    A section is a maximal set of blocks of one group whose intervals are connected. Bounds are point numbers.
    """
    width = int(hi.max(initial=0)) + 1
    order = stable_order(group * width + lo)
    stretch = group[order] * width
    reach = np.maximum.accumulate(stretch + hi[order])  # a later group starts beyond all earlier reaches
    fresh = np.ones(len(order), dtype=np.bool_)
    fresh[1:] = (stretch + lo[order])[1:] > reach[:-1]
    fresh[1:] |= stretch[1:] != stretch[:-1]
    return order, np.cumsum(fresh) - 1


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """Groups of blocks, concatenated in ``members``; group ``i`` is ``members[edges[i]:edges[i + 1]]``."""

    members: Index
    edges: Ints

    def __len__(self) -> int:
        return len(self.edges) - 1


def bounded_groups(
    group: Ints,
    lo: Ints,
    hi: Ints,
    size: Ints,
    *,
    names: Callable[[Index], pa.Array],
    max_bytes: int,
    max_files: int,
) -> tuple[Groups, Bools]:
    """Groups of two or more connected blocks within the bounds, and which blocks a bound left without a group.

    Groups hold positions in (group, lo) order. A stretch that exceeds the bounds is cut along ``lo`` into consecutive
    parts; a part may split into several sections, or into single blocks. Ties between blocks with equal intervals are
    broken by their ``names``, so that the parts do not depend on the input order.
    """
    order, section = sections(group, lo, hi)
    count = np.bincount(section)
    total = np.bincount(section, weights=size[order])
    large = (total > max_bytes) | (count > max_files)
    cut = np.zeros(len(group), dtype=np.bool_)
    whole = _wanted(order, section, count, (count > 1) & ~large)
    if not large.any():
        return whole, cut
    inside = large[section]
    at, of = order[inside], section[inside]
    ordered = _along(at, of, lo, hi, names)
    at, of = at[ordered], of[ordered]
    part = fill(of, size[at], max_bytes=max_bytes, max_files=max_files)
    inner, piece = sections(part, lo[at], hi[at])
    at, length = at[inner], np.bincount(piece)
    cut[at] = (length < 2)[piece]
    parts = _wanted(at, piece, length, length > 1)
    members = np.concatenate([whole.members, parts.members])
    return Groups(members, np.concatenate([whole.edges, whole.edges[-1] + parts.edges[1:]])), cut


def _along(at: Index, of: Ints, lo: Ints, hi: Ints, names: Callable[[Index], pa.Array]) -> Index:
    """The order by section, ``lo`` and ``hi``; names are read only where these tie."""
    first, last = lo[at], hi[at]
    level = (of[1:] == of[:-1]) & (first[1:] == first[:-1])
    if not (level & (last[1:] <= last[:-1])).any() and _ascending(of, first):
        return np.arange(len(at))
    ordered = np.lexsort((last, first, of))
    ends = np.stack([of, first, last])[:, ordered]
    same = (ends[:, 1:] == ends[:, :-1]).all(axis=0)
    if not same.any():
        return ordered
    tied = np.append(same, False) | np.append(False, same)
    place = np.zeros(len(at), np.int64)
    place[ordered[tied]] = by_name(names(at[ordered[tied]]))
    return np.lexsort((place, last, first, of))


def _ascending(of: Ints, first: Ints) -> bool:
    """Whether the order is by section, and by start within each section."""
    return bool(((of[1:] > of[:-1]) | ((of[1:] == of[:-1]) & (first[1:] >= first[:-1]))).all())


def _wanted(order: Index, section: Ints, count: Ints, wanted: Bools) -> Groups:
    """The wanted sections as groups; each section is contiguous in ``order``."""
    return Groups(order[wanted[section]], np.concatenate([[0], np.cumsum(count[wanted])]))


def by_name(names: pa.Array) -> Ints:
    """The rank of each name among all: breaks ties independently of the input order."""
    ranked = pc.rank(names, sort_keys="ascending", tiebreaker="first")
    return np.asarray(ranked.to_numpy(zero_copy_only=False), dtype=np.int64)


def fill(owner: Ints, size: Ints, *, max_bytes: int, max_files: int, apart: Bools | None = None) -> Ints:
    """Number consecutive parts, in the given order, each filled up to the bounds.

    A part has a single ``owner`` and never continues where ``apart`` is set. One block always fits.
    """
    count = len(owner)
    part = np.zeros(count, np.int64)
    if not count:
        return part
    fresh = np.ones(count, dtype=np.bool_)
    fresh[1:] = owner[1:] != owner[:-1]
    if apart is not None:
        fresh |= apart
    stops = np.append(np.flatnonzero(fresh), count)
    after = np.repeat(stops[1:], np.diff(stops))  # where the stretch of each block ends
    filled = np.concatenate([[0], np.cumsum(size)])
    # The first block that does not fit.
    full = np.searchsorted(filled, filled[:-1] + max_bytes, side="right") - 1
    end = np.minimum(np.minimum(after, full), np.arange(count) + max_files)
    jumps = np.maximum(end, np.arange(1, count + 1))
    starts, at = [], 0
    while at < count:
        starts.append(at)
        at = jumps.item(at)
    part[starts[1:]] = 1
    return np.cumsum(part)
