"""The age of a block: for how long queries have read it in its current form."""

from __future__ import annotations

import numpy as np

from lakekeeper.core.layout.snapshot_index import kept
from lakekeeper.core.model.blocks import Index, Snapshot
from lakekeeper.core.units import Floats, Ints

_EVERY = slice(None)


def ages(snapshot: Snapshot, now_ms: int, at: Index | slice = _EVERY) -> Floats:
    """Ages in seconds of the blocks ``at``; by default, of all.

    A block whose time of addition is unknown is as old as the oldest known one: its commit is no longer in the table's
    metadata. A block added in the future (clocks differ) is fresh. Without a clock (``now_ms`` 0), ages count from the
    latest time in the snapshot.
    """
    return _since(snapshot.blocks.added_at[at], snapshot, now_ms)


def delete_ages(snapshot: Snapshot, now_ms: int, at: Index | slice = _EVERY) -> Floats:
    """Mean ages in seconds of the deletes in force on the blocks ``at``, for blocks without deletes too.

    Delete files that came one by one are on average half as old as the first. Where that time is unknown, as for a
    deletion vector that each delete replaces, deletes are taken to have come evenly since the block was added.
    """
    blocks = snapshot.blocks
    deleted_at = blocks.deleted_at[at]
    known = deleted_at > 0
    files = np.maximum(blocks.delete_files[at], 1)
    first = _since(np.where(known, deleted_at, now_ms), snapshot, now_ms)
    return np.asarray(np.where(known, first * (files + 1) / (2 * files), ages(snapshot, now_ms, at) / 2))


def _commit_times(snapshot: Snapshot) -> tuple[int, int] | None:
    """The first and the last time that the snapshot knows; None if it knows none."""

    def made() -> tuple[int, int] | None:
        added = snapshot.blocks.added_at
        known = np.concatenate([added[added > 0], snapshot.commits_ms[:1], snapshot.commits_ms[-1:]])
        return (int(known.min()), int(known.max())) if len(known) else None

    return kept(snapshot, "commit times", made)


def _since(at_ms: Ints, snapshot: Snapshot, now_ms: int) -> Floats:
    known = _commit_times(snapshot)
    if known is None:
        return np.zeros(len(at_ms))
    first, last = known
    now = now_ms or last
    at = np.where(at_ms > 0, at_ms, first)
    return np.asarray(np.maximum(now - at, 0) / 1000.0)
