"""The highest row id of a table, which Delta reads before it commits to a table with row tracking.

It is domain metadata, and a new version's domain metadata is known only after a Spark job over the log:

    user     ──[stmt]c
    replay           ┄[rows lost]─[mask]─[commit ··········]k
    read ahead        [Spark job ─────────]└ needs its result
"""

from __future__ import annotations

from contextlib import suppress
from threading import Thread

from lakekeeper_delta.native import Log

_FEATURE = "rowTracking"


def read_ahead(log: Log) -> None:
    """Start to read the newest version's domain metadata, where a commit will wait for it; returns at once."""
    if _FEATURE in log.in_memory().features:
        Thread(target=_read, args=(log,), name="lakekeeper-delta-row-ids", daemon=True).start()


def _read(log: Log) -> None:
    with suppress(Exception):  # the commit reads it again, and reports what is wrong
        log.latest().snapshot.domainMetadata()
