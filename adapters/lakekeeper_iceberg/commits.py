"""The commits that a table's metadata records, from its JSON form: one call to the JVM and no Spark job."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lakekeeper.core.units import Ints
from lakekeeper_iceberg.changes import RUN_ID
from lakekeeper_iceberg.native import Iceberg

_REMOVED_BYTES = "removed-files-size"


@dataclass(frozen=True, slots=True)
class Commits:
    """Commits recorded in the table's metadata.

    at          snapshot id → time of its commit in ms since the epoch, for all snapshots in the metadata
    of_writers  commit times of the current snapshot and its ancestors that changed data, ascending
    rewritten   (2, K): times of our own rewrites among these, ascending, and the bytes that each removed
    """

    at: dict[int, int]
    of_writers: Ints
    rewritten: Ints


def known_commits(jvm: Iceberg, metadata: Any, current: int | None) -> Commits:
    """The commits in ``metadata``, a TableMetadata.

    Snapshots that are not ancestors of ``current`` (other branches, rolled back) do not count as commits of the table.
    The operation ``replace`` changes no rows.
    """
    if current is None:
        return Commits({}, np.zeros(0, np.int64), np.zeros((2, 0), np.int64))
    text = str(jvm.static("org.apache.iceberg.TableMetadataParser", "toJson")(metadata))
    by_id: dict[int, Mapping[str, Any]] = {
        each["snapshot-id"]: each for each in json.loads(text)["snapshots"]
    }
    writers: list[int] = []
    ours: list[tuple[int, int]] = []
    seen: int | None = current
    left = len(by_id)
    while left and seen is not None and (snapshot := by_id.get(seen)) is not None:
        summary = snapshot.get("summary") or {}
        if summary.get("operation") != "replace":
            writers.append(snapshot["timestamp-ms"])
        elif RUN_ID in summary and _REMOVED_BYTES in summary:
            ours.append((snapshot["timestamp-ms"], _whole(summary[_REMOVED_BYTES])))
        seen, left = snapshot.get("parent-snapshot-id"), left - 1
    return Commits(
        {number: each["timestamp-ms"] for number, each in by_id.items()},
        np.sort(np.array(writers, np.int64)),
        np.array(sorted(ours), np.int64).reshape(-1, 2).T,
    )


def _whole(text: str) -> int:
    """A number of a summary, which any writer may have written; 0 if it is not a number."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < len(str(1 << 63)) else 0
