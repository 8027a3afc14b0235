"""The lease of services: one at a time, and never in the way of work."""

from __future__ import annotations

from typing import Any

import pytest

from lakekeeper.engine.clock import Clock
from lakekeeper.engine.state.service_lease import LASTS_MS, NOTE, service_lease
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


def test_a_lease_of_a_service_that_died_runs_out(notes: Any) -> None:
    dead = service_lease(notes, "dead", at(0))
    assert dead.__enter__() == ""
    with service_lease(notes, "two", at(LASTS_MS - 1)) as other:
        assert other == "dead"
    with service_lease(notes, "two", at(LASTS_MS)) as other:
        assert other == ""
    assert notes.read(NOTE) is None


@pytest.mark.parametrize("text", ["", "{", '{"owner": "x"}', '{"owner": "x", "until_ms": 9000000000000000}'])
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
