"""Log compaction: a checkpoint in place of the commits that a reader opens one by one."""

from __future__ import annotations

from lakekeeper.core.model.reason import Reason
from lakekeeper.errors import Rejected, reason
from lakekeeper.spi.storage import MetadataChange
from lakekeeper_delta import log_stores
from lakekeeper_delta.features import check
from lakekeeper_delta.native import Log

WORTH = 10
"""Commits after the last checkpoint from which a new one pays off: the default of Delta's own writers."""


def compact_metadata(log: Log, *, dry_run: bool) -> MetadataChange:
    """Write a checkpoint if at least ``WORTH`` commits follow the last one; raises Rejected if that fails.

    Delta also cleans its log then, as far as the table's own ``delta.logRetentionDuration`` permits.
    """
    state = log.latest()
    check(log.name, state.reader, state.writer, state.features, state.properties)
    # The cached state of a version does not include a checkpoint written since.
    segment = log.log.update(False, log.jvm.none(), log.catalog_table).logSegment()
    commits = int(segment.deltas().size())
    checkpoint = int(segment.checkpointProvider().version())
    parts = 0 if checkpoint < 0 else 1
    if commits < WORTH:
        return MetadataChange(commits + parts, commits + parts, None, _not_due(commits, checkpoint))
    if not dry_run:
        log_stores.refuse_second_driver(log, single_driver=log.single_driver)
        try:
            log.log.checkpoint(state.snapshot, log.catalog_table)
        except Exception as error:
            raise Rejected(f"{log.name}: no checkpoint could be written ({reason(error)})") from error
    return MetadataChange(commits + parts, 1, state.version, _written(state.version))


def _not_due(commits: int, checkpoint: int) -> Reason:
    sentence = "{commits:count commit} without a checkpoint, one is due after {due}"
    return Reason.of("checkpoint_not_due", sentence, commits=commits, due=WORTH, checkpoint=checkpoint)


def _written(version: int) -> Reason:
    return Reason.of("checkpoint", "a checkpoint of version {version}", version=version)
