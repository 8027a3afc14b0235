"""Times of the table's recent commits, from the names and modification times of the log's files; none is read.

last checkpoint ┐   log segment: in memory already
... 17 18 19 20 ● 21 22 23
    └─ one listing ┘
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from lakekeeper.core.model.blocks import BlockSet
from lakekeeper.core.units import Ints
from lakekeeper_delta.native import Log, State

RECENT = 200
"""Number of recent versions considered."""
_COMMIT = re.compile(r"/(\d{20})(?:\.[0-9a-f-]{36})?\.json\b[^{}]*?modification_time=(\d+)")


def commits_ms(log: Log, state: State, blocks: BlockSet) -> Ints:
    """Times (ms since the epoch, ascending) of recent commits that changed data, as far as is known; no Spark job.

    A commit file's name does not show whether its commit only moved rows. Our own rewrites are recognized by the blocks
    that they left (see :func:`without_ours`), so that a run is not new data to the next one; OPTIMIZE and changes of
    metadata count as if they had added rows. Ages in commits need only be approximate.
    """
    times = writer_times(state.snapshot.logSegment().deltas())
    first = max(state.version - RECENT + 1, 0)
    if min(times, default=state.version + 1) > first:
        prefix = log.jvm.view.org.apache.hadoop.fs.Path(log.log.logPath(), f"{first:020d}.")
        times = writer_times(log.log.store().listFrom(prefix, log.log.newDeltaHadoopConf())) | times
    known = [at for version, at in times.items() if first <= version <= state.version]
    return without_ours(np.sort(np.array(known, np.int64)), blocks)


def without_ours(commits: Ints, blocks: BlockSet) -> Ints:
    """``commits``, which ascend, without those that added only merged blocks.

    A block's file is written shortly before its commit, so its commit is the first at or after the file's time.
    """
    first = np.searchsorted(commits, blocks.added_at, side="left")
    merged = blocks.key_id >= 0
    ours = np.setdiff1d(first[merged], first[~merged])
    return np.delete(commits, ours[ours < len(commits)])


def writer_times(files: Any) -> dict[int, int]:
    """Version → time of its commit file, from a Scala collection of FileStatus: one call, as text."""
    return {int(version): int(at) for version, at in _COMMIT.findall(str(files.mkString("\n")))}
