"""A run of many hours keeps its registration alive, and commits finished groups before they could be lost."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import pytest

from lakekeeper.core.config.options import resolve
from lakekeeper.core.model.report import MergeReport
from lakekeeper.core.units import HOUR_MS
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.merge.job import maintain
from lakekeeper.engine.state.leases import registered
from lakekeeper.engine.vacuum.job import VacuumRequest, vacuum
from lakekeeper.errors import AdapterError, Rejected
from lakekeeper.spi import Notes
from lakekeeper.testing.memory import MemoryAdapter
from lakekeeper.testing.notes import MemoryNotes
from tests.engine.scene import IN_PARTS, Scene, groups_apart

TIMEOUT = 24 * HOUR_MS


class Hours:
    """A clock on which writing each group takes some hours; ``beside`` is called after each group."""

    def __init__(self, scene: Scene, each: float) -> None:
        self.scene = scene
        self.each_ms = int(each * HOUR_MS)
        self.groups = 0
        self.alive: list[bool] = []

    @property
    def clock(self) -> Clock:
        return Clock(now_ms=lambda: self.scene.table.now_ms, wait=lambda _: None)

    def __call__(self, phase: str, _info: Mapping[str, Any]) -> None:
        if phase != "read":
            return
        self.groups += 1
        self.scene.table.later(self.each_ms)
        intents = registered(MemoryAdapter(self.scene.table).notes).values()
        self.alive.append(any(i.alive(TIMEOUT, self.scene.table.now_ms) for i in intents))


class Silent(MemoryNotes):
    """Notes that cannot be overwritten: a registration cannot be renewed."""

    def replace(self, name: str, text: str) -> None:
        if name.startswith("intents/"):
            raise AdapterError("503 Slow Down")
        super().replace(name, text)


class Unrenewed(MemoryAdapter):
    """A table whose notes cannot be replaced."""

    @property
    def notes(self) -> Notes:  # type: ignore[override]  # the engine needs only the protocol
        return Silent(self.store)


def run(scene: Scene, hours: Hours, **options: Any) -> MergeReport:
    request = scene.request(options={"max-concurrent-file-group-rewrites": 1, **options})
    return maintain(scene.adapter, scene.runner, request, clock=hours.clock, observer=hours)


@pytest.mark.parametrize("options", [{}, IN_PARTS], ids=["one commit", "in parts"])
def test_a_run_longer_than_its_registration_lands(options: dict[str, Any]) -> None:
    scene = groups_apart(8)
    hours = Hours(scene, 7)
    before = scene.table.fingerprint()
    report = run(scene, hours, **options)
    assert [g.status for g in report.groups] == ["committed"] * 8
    assert hours.groups * 7 > 2 * 24
    assert hours.alive == [True] * 8
    assert scene.table.fingerprint() == before
    assert scene.table.leftovers() == set()
    assert registered(scene.adapter.notes) == {}


def test_a_vacuum_beside_a_run_of_days_deletes_none_of_its_files() -> None:
    scene = groups_apart(8)
    hours = Hours(scene, 7)
    before = scene.table.fingerprint()

    def observer(phase: str, info: Mapping[str, Any]) -> None:
        hours(phase, info)
        if phase == "written":
            request = VacuumRequest(resolve({"vacuum.max-share": 1}), age_ms=0, allow_unsafe=True)
            vacuum(MemoryAdapter(scene.table), request, clock=hours.clock)

    request = scene.request(options={"max-concurrent-file-group-rewrites": 1})
    report = maintain(scene.adapter, scene.runner, request, clock=hours.clock, observer=observer)
    assert [g.status for g in report.groups] == ["committed"] * 8
    assert scene.table.fingerprint() == before


def test_finished_groups_are_committed_before_an_unrenewable_registration_ends() -> None:
    scene = groups_apart(8)
    scene.adapter = Unrenewed(scene.table)
    hours = Hours(scene, 4)
    before = scene.table.fingerprint()
    committed: list[int] = []
    landed = threading.Event()

    def observer(phase: str, info: Mapping[str, Any]) -> None:
        if phase == "committed":
            committed.append(info["rewrites"])
            if sum(committed) == 5:
                landed.set()
        if phase == "read" and hours.groups == 5:  # 20 of 24 hours have passed
            assert landed.wait(60)
        hours(phase, info)

    request = scene.request(options={"max-concurrent-file-group-rewrites": 1})
    report = maintain(scene.adapter, scene.runner, request, clock=hours.clock, observer=observer)
    assert [g.status for g in report.groups] == ["committed"] * 5 + ["failed"] * 3
    assert all(
        "did not renew its registration" in str(g.detail) for g in report.groups if g.status == "failed"
    )
    assert scene.table.fingerprint() == before
    assert scene.table.leftovers() == set()


def test_a_run_stops_writing_once_a_vacuum_removed_its_registration() -> None:
    scene = groups_apart(8)
    hours = Hours(scene, 7)

    def observer(phase: str, info: Mapping[str, Any]) -> None:
        hours(phase, info)
        if hours.groups == 3:
            for slot in registered(scene.adapter.notes):
                scene.adapter.notes.remove(slot)

    request = scene.request(options={"max-concurrent-file-group-rewrites": 1})
    with pytest.raises(Rejected, match="registration is gone"):
        maintain(scene.adapter, scene.runner, request, clock=hours.clock, observer=observer)
    assert hours.groups < 8
    assert scene.table.leftovers() == set()


def test_a_small_run_commits_once_and_a_large_one_in_parts_by_default() -> None:
    assert groups_apart(8).run().commits == 1
    scene = groups_apart(8)
    each = scene.plan().input_bytes // 4
    report = scene.run(options={"partial-progress.bytes-per-commit": each})
    assert report.commits == 4
    assert [g.status for g in report.groups] == ["committed"] * 8


@pytest.mark.parametrize(
    "options, least, most",
    [
        ({"partial-progress.max-commits": 1}, 1, 1),
        ({"partial-progress.max-commits": 3}, 3, 3),
        ({"partial-progress.max-commits": 1000}, 7, 8),
    ],
)
def test_there_are_no_more_commits_than_configured(options: dict[str, Any], least: int, most: int) -> None:
    scene = groups_apart(8)
    assert least <= scene.run(options={**IN_PARTS, **options}).commits <= most
