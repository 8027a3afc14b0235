"""Two blocks as columns, and blocks without truncated bounds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from lakekeeper.core.model.blocks import BlockSet
from lakekeeper.core.model.keys import ClusterKey, KeyColumn

KEY = ClusterKey((KeyColumn(("k",), "string", "1"),))


def columns(**changed: Any) -> dict[str, Any]:
    plain = {
        "path": ["a", "b"],
        "rows": [1000, 4],
        "bytes": [100, 50],
        "lo": [["x", None]],
        "hi": [["y", None]],
        "null_count": [[0, 4]],
        "exact": [[True, True]],
    }
    return plain | changed


def whole(blocks: BlockSet) -> BlockSet:
    """The same blocks, with bounds that count as they are."""
    return replace(blocks, exact=tuple(np.ones(len(blocks), np.bool_) for _ in blocks.exact))
