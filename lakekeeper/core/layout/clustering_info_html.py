"""Clustering information as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakekeeper.core.text.charts import bar
from lakekeeper.core.text.formatting import significant, size
from lakekeeper.core.text.markup import Child, Markup, facts_table, joined, rows_table, tag

if TYPE_CHECKING:
    from lakekeeper.core.layout.clustering_info import ClusteringInformation


def information_html(info: ClusteringInformation) -> Markup:
    """Clustering information for a notebook."""
    version = "" if info.version is None else f", version {info.version}"
    facts = [
        ("key", info.cluster_by_keys),
        ("blocks", f"{info.total_partition_count:,}, {size(info.total_bytes)}, {info.total_rows:,} rows"),
        ("constant blocks", f"{info.total_constant_partition_count:,}"),
        ("average depth", f"{significant(info.average_depth)} per block"),
        ("", f"{significant(info.average_point_depth)} per overlapping point"),
        ("max depth", f"{info.max_depth:,}"),
        ("average overlaps", significant(info.average_overlaps)),
        ("levels", ", ".join(f"L{n}: {c:,}" for n, c in info.levels.items()) or "none"),
        ("with NULL", f"{info.blocks_with_null:,}" if info.blocks_with_null else None),
        ("no statistics", f"{info.blocks_without_statistics:,}" if info.blocks_without_statistics else None),
        ("note", info.notes or None),
    ]
    return joined([tag("p", tag("b", info.table), version), facts_table(facts), histogram_table(info)])


def histogram_table(info: ClusteringInformation) -> Markup:
    """Blocks by depth, with bars, without the empty buckets at both ends."""
    counts = [(int(name), count) for name, count in info.partition_depth_histogram.items()]
    top = max((count for _, count in counts), default=0) or 1
    filled = [at for at, (_, count) in enumerate(counts) if count]
    rows: list[Sequence[Child]] = [("depth", "files", "")]
    for depth, count in counts[filled[0] : filled[-1] + 1] if filled else []:
        bucket = f"{depth // 2 + 1:,} to {depth:,}" if depth > 16 else f"{depth:,}"
        shown = tag("data", f"{count:,}", data_name=f"depth_{depth}", value=count)
        rows.append((bucket, shown, tag("div", bar(count / top), style="min-width:8em")))
    return rows_table(rows, right=frozenset({0, 1}))
