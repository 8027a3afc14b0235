"""The ``txn`` actions of a version: the last transaction of each application that writes into the table.

Read in the driver by columns where possible: Delta would build the state of the whole table by a Spark job.

checkpoint (Parquet) ─► the column ``txn`` ──┐
commits (JSON)       ─► lines with ``"txn"`` ─┴─► the last action for each application
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakekeeper_delta.log_files import LogFiles, read_in_driver
from lakekeeper_delta.native import Log, State

RETENTION = "delta.settransactionretentionduration"
_FIELDS = ("appId", "version", "lastUpdated")


@dataclass(frozen=True, slots=True)
class Transaction:
    """The last transaction of an application: its number, and its time (epoch milliseconds; None if not recorded)."""

    app: str
    version: int
    at_ms: int | None


def transactions(log: Log, state: State) -> list[Transaction]:
    """The last transaction of each application, in no particular order."""
    if any(name.lower() == RETENTION for name in state.properties):
        return _by_delta(log, state)  # it drops transactions by their age

    def read(files: LogFiles) -> list[Transaction]:
        segment = files.segment(state)
        old = [each for part in segment.checkpoint for each in _of_checkpoint(files.checkpoint(part))]
        return replayed(old, map(files.commit, segment.commits))

    found = read_in_driver(log, read)
    if found is None:
        return _by_delta(log, state)
    return found


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


def _of_checkpoint(file: Any) -> Iterator[Transaction]:
    """The transactions in a file of a checkpoint."""
    with file:
        schema = file.schema_arrow
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
