"""Every call of a vacuum fails once, in every way: kept versions read the same, and the next one leaves no garbage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from lakekeeper.core.config.options import resolve
from lakekeeper.core.units import HOUR_MS
from lakekeeper.core.vacuum.vacuum_report import VacuumReport
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.state import leases
from lakekeeper.engine.state.leases import register, registered
from lakekeeper.engine.trash import entries as trash_entries
from lakekeeper.engine.trash.empty import empty
from lakekeeper.engine.vacuum.job import VacuumRequest, vacuum
from lakekeeper.testing.lake import MemoryTable, Settings
from lakekeeper.testing.memory import MemoryAdapter
from tests.engine.scene import intent, written
from tests.faults.port import ANSWERS, MODES, Dead, Faulty, Port

DAY = 24 * HOUR_MS
KEPT = (2, 5, 6, 7)
"""Versions 5, 6 and 7 by the grace, 2 by its tag."""
OPTIONS = {"vacuum.max-share": 1, "vacuum.max-batch-delete-size": 2}
CALLS: Mapping[str, Mapping[str, Any]] = {
    "plain": {},
    "orphans": {"orphans": True},
    "trash": {"trash": True},
}


@pytest.fixture(autouse=True)
def few_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise nine of ten calls would look for intents or trash that do not exist."""
    monkeypatch.setattr(leases, "SLOTS", 3)
    monkeypatch.setattr(leases, "VACUUMS", 2)
    monkeypatch.setattr(trash_entries, "SLOTS", 2)


def made(*, linear: bool) -> MemoryTable:
    """Seven versions, a tag, and a dead run with its files; version 6 also references the file of version 5."""
    table = MemoryTable("db.t", {"k": "int"}, settings=Settings(linear=linear))
    clock = Clock(lambda: table.now_ms)
    for day in range(1, 5):
        table.later(5 * DAY)
        table.overwrite([{"k": 10 * day + i} for i in range(3)], [{"k": day}])
        if day == 2:
            register(MemoryAdapter(table).notes, "db.t", intent(table, "dead-1"), clock)
            written(table, "dead-1", key=0)
    table.tag("t", 2)
    for day in (5, 6, 7):
        table.later(DAY)
        table.append([{"k": day}]) if day == 6 else table.overwrite([{"k": day}])
    return table


def swept(table: MemoryTable, adapter: Any, **wanted: Any) -> VacuumReport:
    clock = Clock(now_ms=lambda: table.now_ms, wait=lambda _: None)
    options = resolve(OPTIONS)
    request = VacuumRequest(options, **{"age_ms": DAY + HOUR_MS, **wanted})
    return vacuum(adapter, request, clock=clock)


def shot(table: MemoryTable, port: Port, **wanted: Any) -> str:
    """The name of the outcome."""
    adapter = Faulty(MemoryAdapter(table), port)
    try:
        return swept(table, adapter, **wanted).ended.code
    except (Exception, Dead) as error:
        return type(error).__name__


def check(table: MemoryTable, rows: Mapping[int, Any], said: str) -> None:
    assert {v: table.rows(v) for v in KEPT} == rows, said
    list(empty(MemoryAdapter(table), None, table.now_ms))
    swept(table, MemoryAdapter(table))
    assert {v: table.rows(v) for v in KEPT} == rows, said
    oldest = 2 if table.settings.linear else 5
    stays = {*KEPT, *range(oldest, 8)}
    assert set(table.disk) == {path for v in stays for path in table.versions[v].files}, said
    assert swept(table, MemoryAdapter(table)).deleted_files_count == 0, said
    table.later(2 * DAY)  # a vacuum that wrote no list yet counts as running until then
    swept(table, MemoryAdapter(table), age_ms=100 * DAY)
    assert registered(MemoryAdapter(table).notes) == {}, said
    assert not [name for name in table.notes if "/list-" in name], said


@pytest.mark.sampled
@pytest.mark.parametrize("linear", [True, False], ids=["linear", "expiring"])
@pytest.mark.parametrize("kind", sorted(CALLS))
def test_each_call_fails_once_in_each_way(kind: str, linear: bool) -> None:
    counted = Port()
    table = made(linear=linear)
    rows = {v: table.rows(v) for v in KEPT}
    assert shot(table, counted, **CALLS[kind]) == "done"
    check(table, rows, "no fault")
    tally: Counter[str] = Counter()
    for at, mode in [(k, mode) for k in range(len(counted.calls)) for mode in MODES]:
        table, port = made(linear=linear), Port(at, mode)
        tally[shot(table, port, **CALLS[kind])] += 1
        check(table, rows, f"{mode} at {at}: {port.hit}")
    assert tally["Dead"] > 20
    assert tally["Fault"] > 15
    assert tally["stopped"] > 0


ENDS = ("storage.expire", "storage.delete", "storage.move")
"""The calls of a vacuum after its list is written."""


@pytest.mark.parametrize(
    "kind", sorted(set(CALLS) - {"trash"})
)  # it also writes an entry, which is not retried
def test_a_call_that_fails_once_before_the_deletes_costs_nothing(kind: str) -> None:
    """A vacuum reads about a hundred notes and writes a few: a store that throttles some must not stop every vacuum."""
    counted = Port()
    assert shot(made(linear=False), counted, **CALLS[kind]) == "done"
    first = next(at for at, name in enumerate(counted.calls) if name in ENDS)
    looks = range(counted.calls.index("notes.read"), first)
    assert {"notes.read", "notes.replace", "storage.versions", "storage.look"} <= {
        counted.calls[at] for at in looks
    }
    ended = {at: shot(made(linear=False), Port(at, "before"), **CALLS[kind]) for at in looks}
    assert {at: said for at, said in ended.items() if said != "done"} == {}


@pytest.mark.parametrize("answer", ANSWERS)
def test_every_response_to_an_expiry(answer: str) -> None:
    counted = Port()
    table = made(linear=False)
    rows = {v: table.rows(v) for v in KEPT}
    shot(table, counted)
    table, port = made(linear=False), Port(counted.calls.index("storage.expire"), answer)
    ended = shot(table, port)
    lost = {"refused": "Rejected", "lost": "Unknown", "landed": "Unknown"}
    assert ended == lost.get(answer, "done")
    if ended != "done":
        assert table.touched.deleted == []
    check(table, rows, answer)


def test_a_response_that_contradicts_the_outcome_costs_only_a_second_check() -> None:
    looks: Callable[[list[str]], int] = lambda calls: calls.count("storage.versions")  # noqa: E731
    first, second = Port(), Port()
    shot(made(linear=False), first)
    second.at, second.mode = first.calls.index("storage.expire"), "contradicted"
    table = made(linear=False)
    shot(table, second)
    assert looks(second.calls) == looks(first.calls) + 1
    assert table.leftovers() == set()
