"""Each task of the application of heavy tasks is answered, however it ends; without Spark."""

from __future__ import annotations

import io
import json
import threading
from typing import Any

import pytest

from lakekeeper.core.scheduling.heavy_call import HeavyCall
from lakekeeper.heavy import application
from lakekeeper.heavy.application import Answers, Application


@pytest.mark.parametrize("error", [ValueError("no space left"), SystemExit(3), KeyboardInterrupt()])
def test_a_task_is_answered_however_it_ends(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """The service waited forever for a task whose error is not an ``Exception``."""

    def fail(*_: object) -> None:
        raise error

    raised: list[BaseException | None] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: raised.append(args.exc_value))
    monkeypatch.setattr(application, "lakekeeper_confs", lambda _: {})
    monkeypatch.setattr(application, "has_ended", lambda _: False)
    monkeypatch.setattr(application, "open_table", fail)
    spark: Any = None
    said, others = io.StringIO(), set(threading.enumerate())
    Application(spark, Answers(said)).start(7, HeavyCall("ice.db.t", "compact"))
    for thread in set(threading.enumerate()) - others:
        thread.join(30)
    (answer,) = [json.loads(line) for line in said.getvalue().splitlines()]
    assert (answer["id"], answer["over"]) == (7, False)
    assert answer["error"].startswith(type(error).__name__)
    assert raised == ([] if isinstance(error, Exception) else [error])
