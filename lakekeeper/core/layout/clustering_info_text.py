"""Clustering information as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekeeper.core.text.formatting import bars, size

if TYPE_CHECKING:
    from lakekeeper.core.layout.clustering_info import ClusteringInformation


def render_information(info: ClusteringInformation) -> str:
    """Clustering information as a page of text."""
    version = "no version yet" if info.version is None else f"version {info.version}"
    levels = ", ".join(f"L{n}: {c:,}" for n, c in info.levels.items()) or "none"
    lines = [
        f"{info.table} ({version}), key {info.cluster_by_keys}",
        f"  blocks             {info.total_partition_count:,} ({size(info.total_bytes)}, {info.total_rows:,} rows)",
        f"  constant           {info.total_constant_partition_count:,}",
        f"  average depth      {info.average_depth:g} per block, {info.average_point_depth:g} per overlapping point",
        f"  max depth          {info.max_depth:,}",
        f"  average overlaps   {info.average_overlaps:g}",
        f"  levels             {levels}",
    ]
    if info.blocks_with_null:
        lines.append(f"  with NULL          {info.blocks_with_null:,}")
    if info.blocks_without_statistics:
        lines.append(f"  no statistics      {info.blocks_without_statistics:,}")
    if info.notes:
        lines.append(f"  note               {info.notes}")
    return "\n".join(
        [*lines, "  histogram of depths (number of blocks)", bars(info.partition_depth_histogram)]
    )
