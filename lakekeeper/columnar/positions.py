"""The positions of deleted rows, as text that travels with a task."""

from __future__ import annotations

import base64
import zlib

import numpy as np

from lakekeeper.columnar.values import Longs

MOST_DELETED_ROWS = 20_000_000
"""Positions of deleted rows that travel with a task: they take 160 MB of the driver and of each worker."""


def pack(positions: Longs) -> str:
    """Ascending positions as text."""
    steps = np.diff(positions, prepend=0).astype("<i8")
    return base64.b64encode(zlib.compress(steps.tobytes(), 1)).decode() if len(positions) else ""


def unpack(text: str) -> Longs:
    """Inverse of :func:`pack`."""
    data = zlib.decompress(base64.b64decode(text)) if text else b""
    return np.cumsum(np.frombuffer(data, "<i8")).astype(np.int64)
