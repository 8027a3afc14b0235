"""Clustering information, with the field names of Snowflake's SYSTEM$CLUSTERING_INFORMATION."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from lakekeeper.core.layout.clustering_info_html import information_html
from lakekeeper.core.layout.clustering_info_text import render_information
from lakekeeper.core.layout.depth import Counts, block_depth, histogram, overlaps
from lakekeeper.core.layout.ranks import Intervals, has_null
from lakekeeper.core.layout.snapshot_index import kept, level_counts, table_curve, table_line
from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.text.result import Result


@dataclass(frozen=True, slots=True)
class ClusteringInformation(Result):
    """How well a table is clustered by a key. *Partition* here is Snowflake's term for a block.

    cluster_by_keys                  the key, as text
    total_partition_count            number of blocks measured
    total_constant_partition_count   blocks with a single key value
    average_overlaps                 mean, per block, of the number of other blocks that share a point with it
    average_depth                    mean, per block, of the greatest depth at any point that it covers
    partition_depth_histogram        blocks per depth: 00000…00016, then (16, 32], (32, 64] …
    average_point_depth              mean depth over overlapping points only (Snowflake's AvgDepth)
    max_depth                        number of blocks over the deepest point
    blocks_with_null                 blocks with NULL in the first key column (NULL is one more point)
    blocks_without_statistics        blocks that count as covering the whole key
    levels                           level → blocks: how often their rows were reclustered under this key
    total_bytes, total_rows          of the measured blocks, including deleted rows
    notes                            caveats for the reader
    """

    table: str
    version: int | None
    cluster_by_keys: str
    total_partition_count: int
    total_constant_partition_count: int
    average_overlaps: float
    average_depth: float
    partition_depth_histogram: Mapping[str, int]
    average_point_depth: float
    max_depth: int
    blocks_with_null: int
    blocks_without_statistics: int
    levels: Mapping[int, int]
    total_bytes: int
    total_rows: int
    notes: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain data, with the fields above."""
        return asdict(self)

    def __str__(self) -> str:
        return render_information(self)

    def _repr_html_(self) -> str:
        return information_html(self)


_NOTHING: dict[str, Any] = {
    "total_constant_partition_count": 0,
    "average_overlaps": 0.0,
    "average_depth": 0.0,
    "average_point_depth": 0.0,
    "max_depth": 0,
    "blocks_with_null": 0,
    "blocks_without_statistics": 0,
    "levels": {},
    "notes": "no blocks",
}


def measure(snapshot: Snapshot) -> ClusteringInformation:
    """The clustering of a snapshot that has a key; each partition is measured on its own line."""
    return kept(snapshot, "information", lambda: _measured(snapshot))


def _measured(snapshot: Snapshot) -> ClusteringInformation:
    blocks = snapshot.blocks
    count = len(blocks)
    common: dict[str, Any] = {
        "table": snapshot.table,
        "version": snapshot.version,
        "cluster_by_keys": str(snapshot.key),
        "total_partition_count": count,
        "total_bytes": int(blocks.bytes.sum()),
        "total_rows": int(blocks.rows.sum()),
    }
    if not count:
        return ClusteringInformation(
            **common, **_NOTHING, partition_depth_histogram=histogram(np.zeros(0, np.int32))
        )
    intervals = table_line(snapshot)
    curve, deepest = table_curve(snapshot), _depths(snapshot)
    single = (intervals.lo == intervals.hi) & ~has_null(blocks) & ~intervals.missing
    return ClusteringInformation(
        **common,
        total_constant_partition_count=int(single.sum()),
        average_overlaps=round(float(overlaps(intervals).mean()), 4),
        average_depth=round(float(deepest.mean()), 4),
        partition_depth_histogram=histogram(deepest),
        average_point_depth=round(curve.average, 4),
        max_depth=curve.max,
        blocks_with_null=int((blocks.null_count[0] > 0).sum()),
        blocks_without_statistics=int(intervals.missing.sum()),
        levels=level_counts(snapshot),
        notes=_notes(snapshot, intervals),
    )


def mean_depth(snapshot: Snapshot) -> float:
    """Mean block depth under the snapshot's key; 0.0 without blocks or without a key."""
    if snapshot.key is None or not len(snapshot.blocks):
        return 0.0
    return round(float(_depths(snapshot).mean()), 4)


def _depths(snapshot: Snapshot) -> Counts:
    """For each block, the greatest depth at any point that it covers."""
    return kept(snapshot, "depths", lambda: block_depth(table_curve(snapshot), table_line(snapshot)))


def _notes(snapshot: Snapshot, intervals: Intervals) -> str:
    notes = []
    if not snapshot.complete:
        notes.append("only blocks that may match the predicate")
    if intervals.missing.any():
        notes.append("blocks without statistics count as covering the whole key; a recluster adds statistics")
    if snapshot.key is not None and snapshot.key.curved:
        boxed = int((snapshot.blocks.curve_id < 0).sum())
        along = f"depth is along the {snapshot.key.layout} curve"
        these = "1 block by its bounding box" if boxed == 1 else f"{boxed:,} blocks by their bounding boxes"
        notes.append(f"{along}; {these}, an upper bound" if boxed else along)
    elif snapshot.key is not None and len(snapshot.key.columns) > 1:
        notes.append("depth is of the bounding boxes of the columns: an upper bound for a compound key")
    return "; ".join(notes)


def deepest_stretch(snapshot: Snapshot, *, lines: int = 12) -> str:
    """Drawing of the blocks over the deepest point, one per line, positioned by rank."""
    return kept(snapshot, f"drawing {lines}", lambda: _drawn(snapshot, lines))


def _drawn(snapshot: Snapshot, lines: int) -> str:
    if snapshot.key is None or not len(snapshot.blocks):
        return ""
    intervals = table_line(snapshot, null_region=False)
    curve = table_curve(snapshot, null_region=False)
    if curve.max < 2:
        return ""
    point = int(np.argmax(curve.depth))
    over = np.flatnonzero((intervals.lo <= point) & (intervals.hi >= point))
    shown = over[np.lexsort((intervals.hi[over], intervals.lo[over]))][:lines]
    first, last = int(intervals.lo[shown].min()), int(intervals.hi[shown].max())
    scale = 58 / max(last - first, 1)
    level = snapshot.blocks.level_under(snapshot.key)
    drawn = []
    for i in shown:
        start, end = (round((int(p[i]) - first) * scale) for p in (intervals.lo, intervals.hi))
        drawn.append(f"  L{level[i]:<3}{' ' * start}|{'-' * max(end - start - 1, 0)}|")
    more = f"\n  … and {len(over) - lines} more" if len(over) > lines else ""
    return "\n".join(drawn) + more
