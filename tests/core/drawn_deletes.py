"""Drawn blocks under drawn deletes."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pyarrow as pa

from lakekeeper.core.model.blocks import UNKNOWN, Snapshot


def with_deletes(rng: random.Random, snapshot: Snapshot) -> Snapshot:
    """The same blocks under deletes of every kind, which came with the newest block."""
    blocks = snapshot.blocks
    deleted = [rng.choice([0, 0, 0, r // 3, r // 2, r, UNKNOWN]) for r in blocks.rows.tolist()]
    heavy = [
        rng.choice([1, 1, 1, b]) if d else 0 for b, d in zip(blocks.bytes.tolist(), deleted, strict=True)
    ]
    return replace(
        snapshot,
        blocks=replace(
            blocks,
            deleted_rows=np.array(deleted, np.int64),
            delete_bytes=np.array(heavy, np.int64),
            deleted_at=np.full(len(blocks), max(blocks.added_at.tolist(), default=0), np.int64),
            delete_id=pa.array([f"d{i}" if d else "" for i, d in enumerate(deleted)], pa.string()),
            delete_files=np.array([int(bool(d)) for d in deleted], np.int64),
            delete_rows=np.array(
                [rng.choice([UNKNOWN, 5, 10**9]) if d == UNKNOWN else d for d in deleted], np.int64
            ),
        ),
    )
