"""A restore of dropped rows records a transaction in Delta's log, and is no stream. No JVM is needed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lakekeeper.core.vacuum.stream_positions import SinkCommit
from lakekeeper_delta.storage import DeltaStorage


def txn(app: str, at_ms: int) -> Any:
    updated = SimpleNamespace(isDefined=lambda: True, get=lambda: at_ms)
    return SimpleNamespace(appId=lambda: app, version=lambda: 1, lastUpdated=lambda: updated)


def test_restores_are_no_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each vacuum spared orphans that were written after the last restore, for 30 days, and streams() listed it."""
    found = [txn("job-5ba1", 1000), txn("5f6a3f30ccab40d1-restore", 2000), txn("nightly-restore", 3000)]
    newest = SimpleNamespace(snapshot=SimpleNamespace(setTransactions=lambda: found))
    monkeypatch.setattr(DeltaStorage, "newest", lambda _: newest)
    log: Any = SimpleNamespace(name="t", jvm=SimpleNamespace(python_list=list))
    storage = DeltaStorage(log, "t")  # type: ignore[arg-type]  # not read here
    assert storage.sinks() == [
        SinkCommit("Delta application job-5ba1", "transaction 1", None, 1000),
        SinkCommit("Delta application nightly-restore", "transaction 1", None, 3000),
    ]
