"""Options of earlier versions that are gone, and what to use instead."""

from __future__ import annotations

from collections.abc import Mapping

REMOVED: Mapping[str, str] = {
    "universal.num-levels": "there is always one level more than universal.num-sorted-run.compaction-trigger",
    "universal.compaction.force-level-0": "use universal.compaction.force-up-level-0",
    "constant-size-ratio": "a file is full at 80% of target-file-size-bytes or max-rows-per-file",
    "delete-ratio-threshold-old": "delete-ratio-threshold falls to 0.05 after seven days, unless it is 0.05 or less",
    "early-abort-interval-ms": "a run looks for conflicts every 10 seconds",
    "replay.max-rows": "use replay.max-deleted-ratio",
    "partial-progress.enabled": "set partial-progress.max-commits to 1 for a single commit",
    "commit.retry.min-wait-ms": "the wait between retries grows from 100 ms to 2 s",
    "commit.retry.max-wait-ms": "the wait between retries grows from 100 ms to 2 s",
    "commit.quiet-max-wait-ms": "a commit waits for at most twice commit.quiet-window-ms",
    "auto.final": "automatic runs do one round a pass; lower auto.every, or call recluster(final=True)",
    "vacuum.min-batch-delete-size": "use vacuum.max-batch-delete-size",
}
"""Name → what to use instead."""
