"""Two blocks as columns."""

from __future__ import annotations

from typing import Any

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
