"""Missing statistics are computed; rows, deletes and users' commits stay as they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from lakekeeper.core.config.options import resolve
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.model.statistics_report import StatisticsReport
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.compute_statistics import compute_statistics
from lakekeeper.engine.state.leases import registered
from lakekeeper.errors import Conflict, NotSent, Rejected, Unknown
from lakekeeper.spi import Computed, Observer, Outdated
from lakekeeper.testing.lake import Settings
from lakekeeper.testing.statistics import MemoryStatistics
from tests.engine.scene import ReadOnly, Scene, overlapping, rows
from tests.observers import once_at


@pytest.fixture
def scene() -> Scene:
    """Six files; users' writers store no statistics."""
    return overlapping(settings=Settings(measured=False))


def computed(
    scene: Scene, observer: Observer | None = None, options: Mapping[str, Any] | None = None, **given: Any
) -> StatisticsReport:
    clock = Clock(now_ms=lambda: scene.table.now_ms, wait=scene.pauses.append)
    return compute_statistics(
        scene.adapter, scene.runner, None, resolve(options), observer=observer, clock=clock, **given
    )


def lacking(scene: Scene) -> int:
    return sum(not entry.file.statistics for entry in scene.table.current.files.values())


def test_files_get_statistics_in_one_commit_and_are_not_read_again(scene: Scene) -> None:
    rows_before, commits = scene.table.fingerprint(), scene.table.touched.commits
    report = computed(scene)
    assert (report.status, report.described_data_files_count, lacking(scene)) == ("done", 6, 0)
    assert scene.table.touched.commits == commits + 1
    assert scene.table.fingerprint() == rows_before
    assert report.version_after == scene.table.current.number
    assert scene.table.current.run_id == report.run_ids[0]
    assert registered(scene.adapter.notes) == {}
    scene.untouched(lambda: computed(scene))
    assert computed(scene).status == "idle"


def test_a_dry_run_reads_and_writes_nothing(scene: Scene) -> None:
    scene.untouched(lambda: computed(scene, dry_run=True))
    report = computed(scene, dry_run=True)
    assert (report.status, report.described_data_files_count) == ("planned", 6)
    assert report.ended.code == Code.STATISTICS_DUE


def test_in_a_table_that_may_not_be_written_nothing_is_computed(scene: Scene) -> None:
    scene.adapter = ReadOnly(scene.table)
    scene.refused(lambda: computed(scene))
    assert computed(scene, dry_run=True).status == "planned"


def test_jobs_are_marked_with_the_run(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    marked: list[tuple[str, str]] = []

    class Marked(MemoryStatistics):
        def compute(self, outdated: Outdated, most_bytes: int, run_id: str) -> Computed:
            marked.extend(scene.runner.working_now)
            return super().compute(outdated, most_bytes, run_id)

    monkeypatch.setattr(type(scene.adapter), "statistics", property(Marked))
    [run] = computed(scene).run_ids
    assert marked == [(run, "db.t: statistics of 6 files")]
    assert scene.runner.working_now == []


def test_a_budget_ends_the_call_and_the_next_one_continues(scene: Scene) -> None:
    sizes = [entry.file.bytes for entry in scene.table.current.files.values()]
    first = computed(scene, options={"budget-bytes": sum(sizes[:2])})
    assert (first.described_data_files_count, lacking(scene)) == (2, 4)
    assert computed(scene).described_data_files_count == 4


def test_large_tables_are_committed_in_parts(scene: Scene) -> None:
    report = computed(scene, options={"partial-progress.bytes-per-commit": 1})
    assert len(report.run_ids) == report.described_data_files_count == 6
    assert lacking(scene) == 0


RIVALS: dict[str, tuple[Callable[[Scene], object], int]] = {
    "append": (lambda scene: scene.table.append(rows(700, 701)), 1),
    "delete of rows": (lambda scene: scene.table.delete("k = 0"), 1),
    "delete of all": (lambda scene: scene.table.delete("k >= 0"), 0),
    "overwrite": (lambda scene: scene.table.overwrite(rows(1, 2)), 1),
}
"""What another writer does, and how many files have no statistics afterwards."""


@pytest.mark.parametrize("phase", ["planned", "written", "before_commit"])
@pytest.mark.parametrize("rival", RIVALS)
def test_a_user_who_commits_first_loses_nothing(scene: Scene, rival: str, phase: str) -> None:
    act, left = RIVALS[rival]
    twin = overlapping(settings=Settings(measured=False))
    act(twin)
    computed(scene, once_at(phase, lambda: act(scene)))
    assert scene.table.fingerprint() == twin.table.fingerprint()
    assert lacking(scene) == left


def test_nothing_is_committed_where_every_file_is_gone(scene: Scene) -> None:
    report = computed(scene, once_at("before_commit", lambda: scene.table.overwrite(rows(1, 2))))
    assert (report.status, report.ended.code) == ("idle", Code.FILES_CHANGED)
    assert scene.table.current.operation == "OVERWRITE"


class Lost(MemoryStatistics):
    """The first attempts lose."""

    left = 2
    error: Exception = Conflict("db.t: lost", "version 7")

    def commit(self, computed: Computed, run_id: str) -> int | None:
        if Lost.left:
            Lost.left -= 1
            raise self.error
        return super().commit(computed, run_id)


def test_a_lost_attempt_is_repeated_without_reading_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    Lost.left = 2
    monkeypatch.setattr(type(scene.adapter), "statistics", property(Lost))
    report = computed(scene)
    assert (report.conflicts, report.status, lacking(scene)) == (2, "done", 0)
    assert len(scene.table.touched.data_reads) == 6


def test_an_unknown_outcome_is_settled_by_the_log(scene: Scene) -> None:
    scene.adapter.faults.outcomes.append("unknown, landed")
    report = computed(scene)
    assert (report.status, report.version_after) == ("done", scene.table.current.number)
    other = overlapping(settings=Settings(measured=False))
    other.adapter.faults.outcomes.append("unknown, lost")
    with pytest.raises(Unknown, match="the commit of statistics of run"):
        computed(other)
    assert lacking(other) == 6
    other.adapter.faults.outcomes.extend(["rejected"] * 3)  # a refusal is tried twice more
    with pytest.raises(Rejected):
        computed(other)
    assert lacking(other) == 6


class Interrupted(MemoryStatistics):
    """Ctrl-C arrives while an attempt is under way: py4j raises it once the call has returned."""

    lands = True
    discarded = 0

    def commit(self, computed: Computed, run_id: str) -> int | None:
        if self.lands:
            super().commit(computed, run_id)
        raise KeyboardInterrupt if self.lands else Rejected("db.t: refused")

    def discard(self, computed: Computed) -> None:
        Interrupted.discarded += 1


@pytest.mark.parametrize("lands", [True, False])
def test_an_interrupt_deletes_no_file_that_the_table_may_name(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, lands: bool
) -> None:
    monkeypatch.setattr(Interrupted, "lands", lands)
    monkeypatch.setattr(Interrupted, "discarded", 0)
    monkeypatch.setattr(type(scene.adapter), "statistics", property(Interrupted))
    with pytest.raises(KeyboardInterrupt if lands else Rejected):
        computed(scene)
    assert (lacking(scene) == 0) == lands
    assert Interrupted.discarded == (0 if lands else 1)


@pytest.mark.parametrize(
    "error", [NotSent("the log cannot be read"), Rejected("503")], ids=["not sent", "refused"]
)
def test_an_error_before_the_commit_was_sent_discards_nothing(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(Lost, "left", 2)
    monkeypatch.setattr(Lost, "error", error)
    monkeypatch.setattr(type(scene.adapter), "statistics", property(Lost))
    report = computed(scene)
    assert (report.conflicts, report.status, lacking(scene)) == (0, "done", 0)
    assert len(scene.table.touched.data_reads) == 6


def test_an_observer_that_raises_stops_it_as_a_crash_would(scene: Scene) -> None:
    def crash() -> None:
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        computed(scene, once_at("before_commit", crash))
    assert lacking(scene) == 6
    assert computed(scene).status == "done"
