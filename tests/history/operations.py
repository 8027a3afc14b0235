"""Operations as the recorder creates them."""

from __future__ import annotations

import re
import sqlite3
from typing import Any

import pytest

from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.model.report import GroupResult
from lakekeeper.history.operation import Decision, Operation
from lakekeeper.history.table_id import TableId

EVENTS = TableId("ice", "db", "events", "iceberg")
DAY_MS = 86_400_000
WHY = Reason.of(Code.REWROTE, verb="compact", files_before=4, files_after=1)
GROUP = GroupResult(
    "abc",
    "committed",
    4,
    400,
    1,
    310,
    1,
    "day=1",
    Reason.of(Code.SMALL_FILES, files=4, level=0),
    Reason.of(Code.REPLAYED, rows=2),
    2,
    rows_in=40,
    rows_out=38,
    score=61.5,
)
LEFT = Decision(Reason.of(Code.NOT_SMALL, full_bytes=96), 7, 900)


def traced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements that read from a history from now on, without those that look at its schema."""
    statements: list[str] = []
    connect = sqlite3.connect

    def traced(*given: Any, **named: Any) -> sqlite3.Connection:
        db = connect(*given, **named)
        db.set_trace_callback(
            lambda text: statements.append(text) if re.search(r" FROM (?!sqlite)", text) else None
        )
        return db

    monkeypatch.setattr(sqlite3, "connect", traced)
    return statements


def operation(identity: str = "op-1", **given: Any) -> Operation:
    """A compaction that ended at ``end_ms``, with one group and one decision."""
    plain: dict[str, Any] = {
        "operation_id": identity,
        "operation_type": "compact",
        "operation_status": "done",
        "table": EVENTS,
        "start_ms": 1_000,
        "end_ms": 2_500,
        "reason": WHY,
        "operation_metrics": {"rewritten_bytes_count": 400, "added_bytes_count": 310, "depth_before": 2.5},
        "core_seconds": 1.25,
        "policies": ("sizes",),
        "cluster_key": "id",
        "version_before": 2**62,
        "version_after": 2**62 + 1,
        "run_ids": ("op-1-1",),
        "groups": (GROUP,),
        "decisions": (LEFT,),
        "application_id": "local-1",
        "user": "me",
        "versions": {"Spark": "4.1.1"},
    }
    return Operation(**plain | given)
