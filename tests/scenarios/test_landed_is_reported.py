"""Once a commit of a call is in the table, whatever fails afterwards: the call returns a report of what landed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from lakekeeper.core.config.options import resolve
from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.statistics_report import StatisticsReport
from lakekeeper.core.planning.rewrites import Rewrite
from lakekeeper.engine.compute_statistics import compute_statistics
from lakekeeper.engine.merge.build_filters import build_filters
from lakekeeper.engine.merge.request import Request
from lakekeeper.errors import AdapterError, Rejected, Unknown
from lakekeeper.spi import Commit
from lakekeeper.testing.lake import MemoryTable, Settings
from lakekeeper.testing.memory import MemoryAdapter
from lakekeeper.testing.notes import MemoryNotes
from lakekeeper.testing.runner import MemoryRunner
from tests.engine.scene import IN_PARTS, Scene, groups_apart, overlapping

ONE_AT_A_TIME = {**IN_PARTS, "max-concurrent-file-group-rewrites": 1}
PARTS = 3
"""Commits of four groups of about one size: two groups are in one of them."""


class _Notes(MemoryNotes):
    """Notes that do not answer while ``fails`` says so of a name."""

    fails: Callable[[str], bool] = staticmethod(lambda _: False)

    def read(self, name: str) -> str | None:
        if type(self).fails(name):
            raise AdapterError("503 Slow Down")
        return super().read(name)

    def replace(self, name: str, text: str) -> None:
        if type(self).fails(name):
            raise AdapterError("503 Slow Down")
        super().replace(name, text)


class _Scripted(MemoryAdapter):
    """Fails reads of the table while ``silent``, and each commit whose number is in ``refused``."""

    silent = 0
    refused: Sequence[int] = ()

    def __init__(self, table: MemoryTable) -> None:
        super().__init__(table)
        self.run_ids: list[str] = []

    @property
    def notes(self) -> MemoryNotes:
        return _Notes(self.store)

    def _answer(self) -> None:
        if self.silent:
            self.silent -= 1
            raise AdapterError("503 Slow Down")

    def snapshot(self, *given: Any, **named: Any) -> Snapshot:
        self._answer()
        return super().snapshot(*given, **named)

    def refresh(self, *given: Any, **named: Any) -> Snapshot | None:
        self._answer()
        return super().refresh(*given, **named)

    def version(self) -> Snapshot:
        self._answer()
        return super().version()

    def commit(self, rewrites: Sequence[Rewrite], snapshot: Snapshot, run_id: str) -> Commit:
        if run_id not in self.run_ids:
            self.run_ids.append(run_id)
        if len(self.run_ids) in self.refused:
            raise Rejected("db.t: one of its files is gone")
        return super().commit(rewrites, snapshot, run_id)


def scripted(scene: Scene) -> _Scripted:
    adapter = _Scripted(scene.table)
    scene.adapter = adapter
    return adapter


@pytest.mark.parametrize("refused", [1, 2, 3])
def test_a_part_that_is_refused_costs_the_others_nothing(refused: int) -> None:
    """The first part of a run in parts threw away all others, finished ones and those that still ran."""
    scene = groups_apart(4)
    adapter = scripted(scene)
    adapter.refused = (refused,)
    report = scene.run(options=ONE_AT_A_TIME)
    assert len(adapter.run_ids) == PARTS
    assert report.commits == PARTS - 1
    assert len(report.groups) == 4
    assert {group.status for group in report.groups} == {"failed", "committed"}
    assert scene.table.leftovers() == set()


def test_where_every_part_is_refused_the_first_error_is_raised() -> None:
    scene = groups_apart(4)
    scripted(scene).refused = range(1, PARTS + 1)
    with pytest.raises(Rejected, match="one of its files is gone"):
        scene.run(options=ONE_AT_A_TIME)
    assert scene.table.leftovers() == set()


def test_an_unknown_outcome_is_raised_before_a_refusal() -> None:
    scene = groups_apart(4)
    scripted(scene).refused = range(1, PARTS)
    scene.adapter.faults.outcomes.append("unknown, lost")
    with pytest.raises(Unknown, match=f"-{PARTS} is not known"):
        scene.run(options=ONE_AT_A_TIME)


def test_notes_that_stop_to_answer_end_the_parts_that_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    scene, parts = groups_apart(4), 0
    scripted(scene)

    def observer(phase: str, _info: object) -> None:
        nonlocal parts
        parts += phase == "before_commit"
        if parts == PARTS:
            monkeypatch.setattr(_Notes, "fails", staticmethod(lambda name: name.startswith("intents")))

    report = scene.run(options=ONE_AT_A_TIME, observer=observer)
    assert (report.commits, report.groups[-1].status) == (PARTS - 1, "failed")
    assert "was committed (AdapterError: 503 Slow Down)" in str(report.groups[-1].detail)
    assert scene.table.leftovers() == set()


def test_a_catalog_that_fails_while_the_second_round_plans_ends_the_rounds() -> None:
    scene = overlapping(24, 10)
    adapter = scripted(scene)

    def observer(phase: str, _info: object) -> None:
        if phase == "committed":
            adapter.silent = 3

    report = scene.run(final=True, observer=observer)
    assert (report.commits, report.rounds, report.status) == (1, 1, "partial")
    assert str(report.ended) == "ended by an error: AdapterError: 503 Slow Down"


def test_a_note_about_bloom_filters_that_cannot_be_written_costs_only_speed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = MemoryTable(
        "t", {"id": "int", "k": "int", "note": "string"}, settings=Settings(byte_scale=1 << 20)
    )
    for number in range(3):
        table.append([{"id": number, "k": number, "note": f"n{number}"}])
    table.set_property("bloom-filters", "note")
    monkeypatch.setattr(_Notes, "fails", staticmethod(lambda name: name == "bloom-filters.json"))
    request = Request("build_filters", (), resolve(None))

    class Readable(_Scripted):
        @property
        def notes(self) -> MemoryNotes:
            notes = _Notes(self.store)
            notes.read = lambda name: MemoryNotes.read(notes, name)  # type: ignore[method-assign]  # writes fail
            return notes

    report = build_filters(Readable(table), MemoryRunner(), request, every=True)
    assert report.commits == 1


def _computed(scene: Scene, observer: Callable[[str, Any], None]) -> StatisticsReport:
    options = resolve(IN_PARTS)
    return compute_statistics(
        scene.adapter, scene.runner, None, options, observer=observer, clock=scene.clock
    )


def test_one_error_between_two_parts_of_statistics_ends_nothing() -> None:
    scene = overlapping(settings=Settings(measured=False))
    adapter = scripted(scene)

    def observer(phase: str, _info: object) -> None:
        adapter.silent = int(phase == "committed")

    report = _computed(scene, observer)
    assert report.described_data_files_count == 6
    assert report.status == "done"


def test_a_part_of_statistics_that_is_refused_keeps_the_report_of_those_before() -> None:
    scene = overlapping(settings=Settings(measured=False))

    def observer(phase: str, _info: object) -> None:
        if phase == "committed" and not scene.adapter.faults.outcomes:
            scene.adapter.faults.outcomes.extend(["rejected"] * 3)

    report = _computed(scene, observer)
    assert (len(report.run_ids), report.status) == (1, "partial")
    assert report.version_after == scene.table.current.number
    assert "ended_by_error" in report.ended.codes
    assert "ended by an error" in str(report)
