"""Options of what is merged: the files to write, the groups to read, and the thresholds of the policies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from lakekeeper.core.config.option import option
from lakekeeper.core.units import Floats, Ints

MAX_BLOCK_BYTES = 500_000_000
"""Snowflake splits a merged partition above 500 MB."""
MAX_TARGET_BYTES = 400_000_000
"""A writer exceeds the target by up to a tenth to avoid a small file, and ranges cut by a sample by a few percent."""

_KIB, _MIB, _GIB = 1 << 10, 1 << 20, 1 << 30


@dataclass(frozen=True, slots=True)
class TableOptions:
    """Cluster key and policies."""

    cluster_by: str | None = option(
        "cluster-by",
        None,
        "Cluster key of tables that store none: one to four columns, or a layout of them such as `hilbert(a, b)`.",
    )
    policies: tuple[str, ...] = option(
        "policy",
        (),
        "Policies of `recluster`, in order. Default: `adaptive`. `compact` and `merge_deletes` ignore this option "
        "and take a policy from the call only.",
        not_by_property=("full",),
    )


@dataclass(frozen=True, slots=True)
class FileOptions:
    """Output files."""

    target_bytes: int = option(
        "target-file-size-bytes",
        128 * _MIB,
        "Target size of output files. A merge closes a file when it reaches this size.",
        unit="bytes",
        low=_KIB,
        high=MAX_TARGET_BYTES,
    )
    max_rows: int | None = option(
        "max-rows-per-file",
        None,
        "Maximum number of rows in an output file. `none`: only the target size limits a file.",
        unit="rows",
        low=1,
    )
    min_size_ratio: float = option(
        "min-file-size-ratio",
        0.75,
        "Files below this share of the target size are small, and candidates for compaction. Iceberg's default.",
        unit="of the target size",
        low=0.01,
        high=1.0,
    )

    def fullness(self, rows: Ints | Floats, live_bytes: Ints | Floats, row_slack: float = 1.0) -> Floats:
        """The number of full output files that these rows and bytes make, by whichever bound is reached first."""
        by_bytes = np.asarray(live_bytes / self.target_bytes, dtype=np.float64)
        return by_bytes if self.max_rows is None else np.maximum(by_bytes, rows / (row_slack * self.max_rows))


@dataclass(frozen=True, slots=True)
class GroupOptions:
    """File groups: what one merge task reads, and how many run at a time."""

    max_bytes: int = option(
        "max-file-group-size-bytes",
        16 * _GIB,
        "Maximum input size of a file group. A file larger than this is a group of its own, but for `merge_deletes` "
        "and `build_filters`, which leave it as it is.",
        unit="bytes",
        low=_KIB,
        scope="lower",
    )
    max_files: int = option(
        "max-file-group-input-files",
        2000,
        "Maximum number of input files in a file group.",
        unit="files",
        low=2,
        scope="lower",
    )
    single_task_bytes: int = option(
        "single-task-bytes",
        512 * _MIB,
        "Maximum input size that one columnar worker merges, but at least `target-file-size-bytes`. A larger group "
        "is cut along the key into several tasks. By rows, a task sorts 128 MiB, or one file if its target is larger.",
        unit="bytes",
        low=_KIB,
        scope="lower",
    )
    max_concurrent: int = option(
        "max-concurrent-file-group-rewrites",
        5,
        "Maximum number of file groups rewritten at the same time.",
        unit="groups",
        low=1,
        high=256,
        scope="lower",
    )
    engine: Literal["auto", "spark"] = option(
        "merge-engine",
        "auto",
        "How rows are merged. `auto`: by columnar workers in Spark tasks, where table and files admit it, and by rows "
        "in Spark elsewhere; the report names the reason. A worker takes up to 2 GB of memory beside the JVM. `spark`: "
        "always by rows in Spark.",
        scope="session",
    )


@dataclass(frozen=True, slots=True)
class PlanningOptions:
    """Planning: the thresholds of the policies."""

    min_input_files: int = option(
        "min-input-files",
        2,
        "Minimum number of small neighbouring files that `compact` packs together.",
        unit="files",
        low=2,
    )
    delete_ratio: float = option(
        "delete-ratio-threshold",
        0.3,
        "`merge_deletes` rewrites a new file when at least this share of its rows is deleted (Iceberg's default). "
        "The threshold falls with the age of the file, to 0.05 after seven days and further towards 0; a threshold of "
        "0.05 or less does not fall.",
        unit="of a file's rows",
        low=0.0,
        high=1.0,
    )
    depth_threshold: float = option(
        "depth-threshold",
        2.0,
        "`ranges` and `peaks` merge a level when its average depth per overlapping point is above this. Above level 0 "
        "the threshold is at least the depth that a single sorted run can appear to have: twice the number of columns "
        "of a linear key; for a curve 2 on Delta, and on Iceberg 3 (`hilbert`) or more (`zorder`).",
        unit="blocks",
        low=1.0,
        high=1e9,
    )
    depth_threshold_ratio: float | None = option(
        "depth-threshold-ratio",
        None,
        "`ranges` and `peaks` use this share of the number of blocks in a level as its threshold, but at least 1, "
        "instead of `depth-threshold`. The minimum above level 0 is the same. `none`: `depth-threshold` applies.",
        unit="of a level's blocks",
        low=0.0,
        high=1.0,
    )
    max_level: int = option(
        "max-level",
        32,
        "`ranges` and `peaks` do not merge files of this level again. Bounds how often they rewrite a row.",
        unit="merges",
        low=1,
        high=1000,
    )
    key_change_ratio: float = option(
        "key-change-ratio",
        0.25,
        "Share of the table that one round reclusters after a change of the cluster key, but at least "
        "`single-task-bytes`. The policy `full` takes all.",
        unit="of the table's bytes",
        low=0.01,
        high=1.0,
    )
    max_rounds: int = option(
        "max-rounds",
        100,
        "Maximum number of rounds of a call with `final`.",
        unit="rounds",
        low=1,
        high=10_000,
        scope="lower",
    )


@dataclass(frozen=True, slots=True)
class UniversalOptions:
    """Universal compaction, by the names of Paimon's options."""

    trigger: int = option(
        "universal.num-sorted-run.compaction-trigger",
        5,
        "`universal` applies its size rules to a partition with at least this many sorted runs, and always compacts a "
        "partition with more. There is one level more than this.",
        unit="sorted runs",
        low=2,
        high=999,
    )
    size_ratio: int = option(
        "universal.compaction.size-ratio",
        1,
        "`universal` adds the next older sorted run to a compaction unless it is larger than all newer ones "
        "together by more than this percentage.",
        unit="percent",
        low=0,
        high=1000,
    )
    max_amplification: int = option(
        "universal.compaction.max-size-amplification-percent",
        200,
        "`universal` compacts all sorted runs when the newer ones exceed this percentage of the size of the oldest.",
        unit="percent",
        low=1,
        high=1_000_000,
    )
    full_interval_ms: int | None = option(
        "universal.compaction.optimization-interval-ms",
        None,
        "`universal` compacts all sorted runs when the last full compaction is longer ago than this. `none`: never "
        "because of time.",
        unit="ms",
        low=1,
    )
    total_bytes: int | None = option(
        "universal.compaction.total-size-threshold-bytes",
        None,
        "`universal` compacts all sorted runs of a partition when their total size is below this. `none`: never "
        "because of the total size.",
        unit="bytes",
        low=1,
    )
    incremental_bytes: int | None = option(
        "universal.compaction.incremental-size-threshold-bytes",
        None,
        "`universal` compacts all sorted runs of a partition when the total size of those below the highest level "
        "exceeds this. `none`: never because of the incremental size.",
        unit="bytes",
        low=1,
    )
    force_up_level_0: bool = option(
        "universal.compaction.force-up-level-0",
        False,
        "`universal` compacts the sorted runs of level 0 even when no other rule applies, together with the older ones "
        "that `universal.compaction.size-ratio` adds.",
    )
