"""The lease of services: one holder at a time, and an unreadable lease never blocks work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from lakekeeper.engine.clock import Clock
from lakekeeper.engine.state.service_lease import LASTS_MS, NOTE, new_owner, service_lease
from lakekeeper.errors import AdapterError
from lakekeeper.testing.lake import MemoryTable
from lakekeeper.testing.notes import MemoryNotes


@pytest.fixture
def notes() -> Any:
    return MemoryNotes(MemoryTable("t", {"k": "int"}))


def at(now_ms: int) -> Clock:
    return Clock(now_ms=lambda: now_ms)


def test_a_second_service_sees_the_first_until_it_is_done(notes: Any) -> None:
    with service_lease(notes, "one", at(0)) as other:
        assert other == ""
        with service_lease(notes, "two", at(1)) as seen:
            assert seen == "one"
        assert notes.read(NOTE) is not None
    assert notes.read(NOTE) is None
    with service_lease(notes, "two", at(2)) as other:
        assert other == ""


def test_the_lease_of_a_dead_service_expires(notes: Any) -> None:
    dead = service_lease(notes, "dead", at(0))
    assert dead.__enter__() == ""
    with service_lease(notes, "two", at(LASTS_MS - 1)) as other:
        assert other == "dead"
    with service_lease(notes, "two", at(LASTS_MS)) as other:
        assert other == ""
    assert notes.read(NOTE) is None


def test_a_lease_is_renewed_while_the_work_runs(notes: Any) -> None:
    """Even longer than one term; and it is not written again once the work is done."""
    now, renew = [0], []
    clock = Clock(now_ms=lambda: now[0])

    def repeat(call: Callable[[], None]) -> Callable[[], None]:
        renew.append(call)
        return renew.clear

    with service_lease(notes, "one", clock, repeat):
        for _ in range(4):
            now[0] += LASTS_MS - 1
            renew[0]()
        with service_lease(notes, "two", clock) as other:
            assert other == "one"
        notes.replace(NOTE, json.dumps({"owner": "two", "until_ms": now[0] + LASTS_MS}))
        renew[0]()  # a lease that another service took stays with that service
        assert json.loads(notes.read(NOTE))["owner"] == "two"
    assert not renew
    assert json.loads(notes.read(NOTE))["owner"] == "two"


def test_the_thread_that_renews_ends_with_the_work(notes: Any) -> None:
    with service_lease(notes, "one", at(0)):
        assert "lakekeeper-lease" in [thread.name for thread in threading.enumerate()]
    assert "lakekeeper-lease" not in [thread.name for thread in threading.enumerate()]


@pytest.mark.parametrize("ahead_ms", [1, 2_000, 60_000, LASTS_MS - 1])
def test_a_clock_that_is_ahead_takes_no_lease_away(notes: Any, ahead_ms: int) -> None:
    with service_lease(notes, "ahead", at(1_000 + ahead_ms)) as other:
        assert other == ""
        with service_lease(notes, "two", at(1_000)) as seen:
            assert seen == "ahead"


def test_a_dead_process_holds_nothing_where_its_id_is_known(notes: Any) -> None:
    """A container with our host name has processes that we do not see: they are not dead for that."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    mine = new_owner()
    host, _, place, _ = mine.split(":")
    assert place, "this test requires /proc"
    for holder, holds in (
        (f"{host}:{ended.pid}:{place}:abc", False),
        (f"{host}:{os.getppid()}:{place}:abc", True),
        (f"elsewhere:{ended.pid}:{place}:abc", True),
        (f"{host}:{ended.pid}:another:abc", True),
        (f"{host}:{ended.pid}::abc", True),
        (f"{host}:{ended.pid}:abc", True),
        (f"{host}:99999999999999999999:{place}:abc", True),
        (f"{host}:?", True),
    ):
        notes.replace(NOTE, json.dumps({"owner": holder, "until_ms": LASTS_MS}))
        with service_lease(notes, mine, at(1)) as other:
            assert other == (holder if holds else "")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        '{"owner": "x"}',
        '{"owner": "x", "until_ms": 9000000000000000}',
        "[1]",
        "null",
        '{"owner": "x", "until_ms": 1e999}',
    ],
)
def test_a_note_that_no_service_wrote_blocks_nothing(notes: Any, text: str) -> None:
    notes.replace(NOTE, text)
    with service_lease(notes, "one", at(0)) as other:
        assert other == ""


def test_a_storage_that_does_not_answer_blocks_nothing() -> None:
    class Down:
        def __getattr__(self, name: str) -> Any:
            def fail(*_: Any) -> Any:
                raise AdapterError("down")

            return fail

    down: Any = Down()
    with service_lease(down, "one", at(0)) as other:
        assert other == ""
