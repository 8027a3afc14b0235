"""A restore of dropped rows records a transaction in Delta's log, and is no stream. No JVM is needed."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from lakekeeper.core.vacuum.stream_positions import SinkCommit
from lakekeeper_delta.storage import DeltaStorage
from lakekeeper_delta.transactions import Transaction


def test_restores_are_no_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each vacuum spared orphans that were written after the last restore, for 30 days, and streams() listed it."""
    found = [
        Transaction("job-5ba1", 1, 1000),
        Transaction("5f6a3f30ccab40d1-restore", 1, 2000),
        Transaction("nightly-restore", 1, 3000),
    ]
    monkeypatch.setattr(DeltaStorage, "newest", lambda _: None)
    monkeypatch.setattr("lakekeeper_delta.storage.transactions", lambda _log, _state: found)
    storage = DeltaStorage(SimpleNamespace(name="t"), "t")  # type: ignore[arg-type]  # not read here
    assert storage.sinks() == [
        SinkCommit("Delta application job-5ba1", "transaction 1", None, 1000),
        SinkCommit("Delta application nightly-restore", "transaction 1", None, 3000),
    ]
