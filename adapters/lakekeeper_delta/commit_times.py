"""Times of the table's recent commits, from the names and modification times of the log's files; none is read.

last checkpoint ┐   log segment: in memory already
... 17 18 19 20 ● 21 22 23
    └─ one listing ┘
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from lakekeeper.core.model.blocks import BlockSet
from lakekeeper.core.units import Ints
from lakekeeper_delta.log_marks import listed_marks, modified_ms
from lakekeeper_delta.native import Log, State

RECENT = 200
"""Number of recent versions considered."""


def recent_commits(log: Log, state: State) -> dict[int, str]:
    """The marks of the last 200 commits, by version: one listing, unless the log segment has them all."""
    marks = dict(state.marks)
    first = max(state.version - RECENT + 1, 0)
    if min(marks) > first:
        prefix = log.jvm.view.org.apache.hadoop.fs.Path(log.log.logPath(), f"{first:020d}.")
        marks = listed_marks(log.log.store().listFrom(prefix, log.log.newDeltaHadoopConf())) | marks
    return {version: each for version, each in marks.items() if first <= version <= state.version}


def commits_ms(recent: Mapping[int, str], blocks: BlockSet) -> Ints:
    """Times (ms since the epoch, ascending) of recent commits that changed data, as far as is known.

    A commit file's name does not show whether its commit only moved rows. Our own rewrites are recognized by the blocks
    that they left (see :func:`without_ours`), so that a run is not new data to the next one; OPTIMIZE and changes of
    metadata count as if they had added rows. Ages in commits need only be approximate.
    """
    known = np.array([modified_ms(each) for each in recent.values()], np.int64)
    return without_ours(np.sort(known), blocks)


def without_ours(commits: Ints, blocks: BlockSet) -> Ints:
    """``commits``, which ascend, without those that added only merged blocks.

    A block's file is written shortly before its commit, so its commit is the first at or after the file's time.
    """
    first = np.searchsorted(commits, blocks.added_at, side="left")
    merged = blocks.key_id >= 0
    ours = np.setdiff1d(first[merged], first[~merged])
    return np.delete(commits, ours[ours < len(commits)])
