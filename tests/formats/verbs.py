"""The verbs of a table: each must refuse a table whose features its format does not support."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lakekeeper as lk

VERBS: dict[str, Callable[[lk.Table], Any]] = {
    "information": lambda t: t.clustering_information("k"),
    "plan": lambda t: t.plan(),
    "recluster": lambda t: t.recluster("k"),
    "compact": lambda t: t.compact(),
    "build_filters": lambda t: t.build_filters(),
    "delete": lambda t: t.delete("k = 1"),
    "vacuum": lambda t: t.vacuum(),
    "cluster_by": lambda t: t.cluster_by("k"),
    "compact_metadata": lambda t: t.compact_metadata(),
    "compute_statistics": lambda t: t.compute_statistics(),
    "expire_rows": lambda t: t.expire_rows(options={"lifecycle.column": "k", "lifecycle.retain": "1d"}),
}
