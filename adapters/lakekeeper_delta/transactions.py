"""The ``txn`` actions of a version: the last transaction of each application that writes into the table.

Read in the driver by columns where possible: Delta would build the state of the whole table by a Spark job.

checkpoint (Parquet) ─► the column ``txn`` ──┐
commits (JSON)       ─► lines with ``"txn"`` ─┴─► the last action for each application
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakekeeper_delta.log_files import LogFiles, Unlike
from lakekeeper_delta.native import Log, State

RETENTION = "delta.settransactionretentionduration"
_FIELDS = ("appId", "version", "lastUpdated")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Transaction:
    """Application ``app`` has committed its transactions up to ``version``; ``at_ms`` is None if not recorded."""

    app: str
    version: int
    at_ms: int | None


def transactions(log: Log, state: State) -> list[Transaction]:
    """The last transaction of each application, in no particular order."""
    found = _in_driver(log, state)
    return _by_delta(log, state) if found is None else found


def replayed(checkpoint: Iterable[Transaction], commits: Iterable[bytes]) -> list[Transaction]:
    """The last transaction of each application, of a checkpoint and the commits after it, oldest first.

    Raises ValueError or KeyError for a line that Delta may read in another way.
    """
    last = {each.app: each for each in checkpoint}
    for text in commits:
        for line in text.splitlines() if b'"txn"' in text else ():
            action = json.loads(line).get("txn") if b'"txn"' in line else None
            if action is not None:
                found = Transaction(action["appId"], int(action["version"]), action.get("lastUpdated"))
                last[found.app] = found
    return list(last.values())


def _in_driver(log: Log, state: State) -> list[Transaction] | None:
    """None for a log that Delta has to read, and where it drops transactions by their age."""
    if any(name.lower() == RETENTION for name in state.properties):
        return None
    try:
        files = LogFiles(log)
        segment = files.segment(state)
        old = [each for part in segment.checkpoint for each in _of_checkpoint(files.checkpoint(part))]
        return replayed(old, map(files.commit, segment.commits))
    except Unlike:
        return None
    except Exception as error:
        # A log cannot be read this way, for whatever reason: Delta reads it, or reports what is wrong with it.
        _log.debug("%s: its log is read by Delta: %r", log.name, error)
        return None


def _of_checkpoint(file: Any) -> Iterator[Transaction]:
    """The transactions in a file of a checkpoint. Raises Unlike for a checkpoint of several levels."""
    with file:
        schema = file.schema_arrow
        if "sidecar" in schema.names:
            raise Unlike
        if "txn" not in schema.names:
            return
        read = [f"txn.{name}" for name in _FIELDS if schema.field("txn").type.get_field_index(name) >= 0]
        for batch in file.iter_batches(columns=read):
            rows: pa.Array = batch.column("txn")
            for row in rows.filter(rows.field("appId").is_valid()).to_pylist():
                yield Transaction(row["appId"], row["version"], row.get("lastUpdated"))


def _by_delta(log: Log, state: State) -> list[Transaction]:
    return [
        Transaction(
            str(each.appId()),
            int(each.version()),
            int(each.lastUpdated().get()) if each.lastUpdated().isDefined() else None,
        )
        for each in log.jvm.python_list(state.snapshot.setTransactions())
    ]
