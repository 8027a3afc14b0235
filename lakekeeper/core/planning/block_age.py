"""The age of a block: for how long queries have read it in its current form."""

from __future__ import annotations

import numpy as np

from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.units import Floats, Ints


def ages(snapshot: Snapshot, now_ms: int) -> Floats:
    """N ages in seconds.

    A block whose time of addition is unknown is as old as the oldest known one: its commit is no longer in the table's
    metadata. A block added in the future (clocks differ) is fresh. Without a clock (``now_ms`` 0), ages count from the
    latest time in the snapshot.
    """
    added = snapshot.blocks.added_at
    return _since(added, _commit_times(snapshot), now_ms)


def delete_ages(snapshot: Snapshot, now_ms: int) -> Floats:
    """N mean ages in seconds of the deletes in force, for blocks without deletes too.

    Delete files that came one by one are on average half as old as the first. Where that time is unknown, as for a
    deletion vector that each delete replaces, deletes are taken to have come evenly since the block was added.
    """
    blocks = snapshot.blocks
    known = blocks.deleted_at > 0
    files = np.maximum(blocks.delete_files, 1)
    first = _since(np.where(known, blocks.deleted_at, now_ms), _commit_times(snapshot), now_ms)
    return np.asarray(np.where(known, first * (files + 1) / (2 * files), ages(snapshot, now_ms) / 2))


def _commit_times(snapshot: Snapshot) -> Ints:
    added = snapshot.blocks.added_at
    return np.concatenate([added[added > 0], snapshot.commits_ms[:1], snapshot.commits_ms[-1:]])


def _since(at_ms: Ints, known: Ints, now_ms: int) -> Floats:
    if not len(known):
        return np.zeros(len(at_ms))
    now = now_ms or int(known.max())
    at = np.where(at_ms > 0, at_ms, int(known.min()))
    return np.asarray(np.maximum(now - at, 0) / 1000.0)
