"""What a listener reports after it has dropped its oldest scans; without Spark, on a clock of its own."""

from __future__ import annotations

import time
from unittest.mock import MagicMock

import pytest

from lakekeeper.core.workload.plan_scans import Sighting
from lakekeeper.core.workload.predicates import Meaning
from lakekeeper.spark import query_listener
from lakekeeper.spark.query_listener import Listening
from lakekeeper.spark.query_sampling import Sampling


@pytest.mark.parametrize("tables", [("ice.db.a",), ("ice.db.a", "ice.db.b")])
def test_the_rate_of_queries_is_that_of_the_time_of_the_kept_scans(
    tables: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session of many days keeps the scans of some hours; it once reported their number by all of its days."""
    jvm, execution, now, queried = MagicMock(), MagicMock(), 1_800_000_000.0, ""
    jvm.view.com.fasterxml.jackson.databind.ObjectMapper().writeValueAsString.return_value = "{}"
    monkeypatch.setattr(query_listener, "Jvm", lambda _: jvm)
    monkeypatch.setattr(query_listener, "listen_for_callbacks", lambda _: None)
    monkeypatch.setattr(query_listener, "sightings", lambda *_: [Sighting((queried,), Meaning({}), {})])
    monkeypatch.setattr(time, "time", lambda: now)
    listening = Listening(MagicMock(), most=100, sampling=Sampling(always=1_000)).start()
    rates = []
    for second in range(1_000):
        now, queried = now + 1, tables[second % len(tables)]
        listening.note("collect", execution, 0.1)
        if second in (99, 999):
            rates += [listening.workload(name, (name,)).rate(int(now * 1000)) for name in tables]
    assert (listening.seen, listening.failed) == (1_000, 0)
    assert rates == pytest.approx([1.0 / len(tables)] * len(rates), rel=0.02)


def test_time_after_a_stop_is_no_time_without_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hours after an hour of one query a second, plans assumed one in ten seconds."""
    jvm, execution, now = MagicMock(), MagicMock(), 1_800_000_000.0
    jvm.view.com.fasterxml.jackson.databind.ObjectMapper().writeValueAsString.return_value = "{}"
    monkeypatch.setattr(query_listener, "Jvm", lambda _: jvm)
    monkeypatch.setattr(query_listener, "listen_for_callbacks", lambda _: None)
    monkeypatch.setattr(query_listener, "sightings", lambda *_: [Sighting(("t",), Meaning({}), {})])
    monkeypatch.setattr(time, "time", lambda: now)
    listening = Listening(MagicMock(), sampling=Sampling(always=1_000)).start()

    def queried(seconds: int) -> None:
        nonlocal now
        for _ in range(seconds):
            now += 1
            listening.note("collect", execution, 0.1)

    queried(100)
    stopped = int(now * 1000)
    listening.stop()
    now += 8 * 3600
    found = listening.workload("t", ("t",))
    assert (len(found), found.start_ms, found.end_ms) == (100, 1_800_000_000_000, stopped)
    again = int(now * 1000)
    listening.start()
    queried(50)
    found = listening.workload("t", ("t",))
    assert (len(found), found.start_ms, found.end_ms) == (50, again, again + 50_000)
