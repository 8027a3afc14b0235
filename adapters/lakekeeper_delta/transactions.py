"""The ``txn`` actions of a version: the last transaction of each application that writes into the table."""

from __future__ import annotations

from dataclasses import dataclass

from lakekeeper_delta.last_actions import Action, Kind, last_actions
from lakekeeper_delta.native import Log, State

RETENTION = "delta.settransactionretentionduration"
_TXN = Kind("txn", ("appId", "version", "lastUpdated"))


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
    found = last_actions(log, state, _TXN, _transaction)
    return _by_delta(log, state) if found is None else found


def _transaction(action: Action) -> Transaction:
    return Transaction(action["appId"], int(action["version"]), action.get("lastUpdated"))


def _by_delta(log: Log, state: State) -> list[Transaction]:
    return [
        Transaction(
            str(each.appId()),
            int(each.version()),
            int(each.lastUpdated().get()) if each.lastUpdated().isDefined() else None,
        )
        for each in log.jvm.python_list(state.snapshot.setTransactions())
    ]
