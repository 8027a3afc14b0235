"""One error of the catalog, the log or the notes drops no group; a lasting one deletes no file of unknown state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.plan import MergeTask
from lakekeeper.core.model.report import MergeReport
from lakekeeper.core.planning.changes import Changes
from lakekeeper.core.planning.rewrites import Rewrite
from lakekeeper.engine.merge.job import maintain
from lakekeeper.engine.merge.quiet_window import WATCH_MS
from lakekeeper.engine.state.leases import registered
from lakekeeper.errors import AdapterError, NotFound, Rejected, Unknown
from lakekeeper.spi import Commit
from lakekeeper.testing.memory import MemoryAdapter, Parts
from lakekeeper.testing.notes import MemoryNotes
from tests.engine.scene import IN_PARTS, Scene, groups_apart

ERRORS: Mapping[str, Callable[[], Exception]] = {
    "503": lambda: AdapterError("503 Slow Down"),
    "raw": lambda: RuntimeError("An error occurred while calling o42.load"),
    "not found": lambda: NotFound("db.t", "the catalog answered with an error page"),
}


@dataclass
class Line:
    """The connection to the catalog: counts calls, and fails those of ``broken``."""

    error: Callable[[], Exception] = ERRORS["503"]
    broken: Callable[[int, str], bool] = lambda _call, _name: False
    calls: list[str] = field(default_factory=list)

    def pass_(self, name: str) -> None:
        self.calls.append(name)
        if self.broken(len(self.calls), name):
            raise self.error()


class FlakyNotes(MemoryNotes):
    """Notes over such a connection."""

    def __init__(self, notes: MemoryNotes, line: Line) -> None:
        super().__init__(notes.table)  # the memory adapter's own notes, over a connection
        self.line = line

    def read(self, name: str) -> str | None:
        self.line.pass_("notes.read")
        return super().read(name)

    def keep(self, name: str, text: str) -> str:
        kept = super().keep(name, text)
        self.line.pass_("notes.keep")  # it landed, and the response is lost
        return kept

    def replace(self, name: str, text: str) -> None:
        super().replace(name, text)
        self.line.pass_("notes.replace")

    def remove(self, name: str) -> None:
        self.line.pass_("notes.remove")
        super().remove(name)


class FlakyAdapter(MemoryAdapter):
    """A table over such a connection."""

    def __init__(self, scene: Scene, line: Line) -> None:
        super().__init__(scene.table)
        self.line = line
        self._committing = False

    def snapshot(self, columns: Sequence[str] | None = None, where: str | None = None) -> Snapshot:
        self.line.pass_("snapshot")
        return super().snapshot(columns, where)

    def refresh(self, snapshot: Snapshot, columns: Sequence[str] | None = None) -> Snapshot | None:
        self.line.pass_("snapshot")
        return super().refresh(snapshot, columns)

    def read(self, task: MergeTask) -> Parts:
        self.line.pass_("read")
        return super().read(task)

    def changes_since(self, snapshot: Snapshot) -> Changes:
        if not self._committing:
            self.line.pass_("changes_since")
        return super().changes_since(snapshot)

    def commit(self, rewrites: Sequence[Rewrite], snapshot: Snapshot, run_id: str) -> Commit:
        try:
            self.line.pass_("commit")
        except Exception as error:
            raise Rejected("the catalog was not reached") from error
        self._committing = True
        try:
            return super().commit(rewrites, snapshot, run_id)
        finally:
            self._committing = False

    @property
    def notes(self) -> MemoryNotes:
        return FlakyNotes(super().notes, self.line)


def run(scene: Scene, line: Line, **options: Any) -> MergeReport:
    scene.tick_ms = WATCH_MS
    request = scene.request(options={"max-concurrent-file-group-rewrites": 1, **options})
    return maintain(FlakyAdapter(scene, line), scene.runner, request, clock=scene.clock)


def calls_of_a_run(**options: Any) -> list[str]:
    line = Line()
    run(groups_apart(4), line, **options)
    return line.calls


@pytest.mark.parametrize("error", ERRORS.values(), ids=ERRORS)
@pytest.mark.parametrize("options", [{}, IN_PARTS], ids=["one commit", "in parts"])
def test_one_error_at_any_call_drops_no_group(
    error: Callable[[], Exception], options: dict[str, Any]
) -> None:
    names = calls_of_a_run(**options)
    assert {"snapshot", "read", "changes_since", "notes.read", "notes.keep"} <= set(names)
    for at, name in enumerate(names, 1):
        scene = groups_apart(4)
        before = scene.table.fingerprint()
        report = run(scene, Line(error, lambda call, _, at=at: call == at), **options)  # type: ignore[misc]
        assert [g.status for g in report.groups] == ["committed"] * 4, (at, name)
        assert scene.table.fingerprint() == before, (at, name)
        assert scene.table.leftovers() == set(), (at, name)
        if name != "notes.remove":
            assert registered(MemoryAdapter(scene.table).notes) == {}, (at, name)


def test_checks_that_always_fail_during_the_writes_stop_no_group() -> None:
    scene, writing = groups_apart(4), True
    line = Line(broken=lambda _call, name: writing and name == "changes_since")

    def observer(phase: str, _info: Mapping[str, Any]) -> None:
        nonlocal writing
        writing = phase != "before_commit"

    scene.tick_ms = WATCH_MS
    request = scene.request()
    report = maintain(FlakyAdapter(scene, line), scene.runner, request, clock=scene.clock, observer=observer)
    assert [g.status for g in report.groups] == ["committed"] * 4


def test_a_read_that_fails_permanently_drops_only_its_group() -> None:
    scene, seen = groups_apart(4), []

    def broken(_call: int, name: str) -> bool:
        seen.append(name)
        return name == "read" and seen.count("read") <= 6

    report = run(scene, Line(broken=broken))
    assert sorted(g.status for g in report.groups) == ["committed"] * 3 + ["failed"]
    assert "503 Slow Down" in next(str(g.detail) for g in report.groups if g.status == "failed")


def test_a_log_that_cannot_be_read_before_the_first_attempt_leaves_no_file() -> None:
    scene = groups_apart(4)
    before, writing = scene.table.fingerprint(), True

    def observer(phase: str, _info: Mapping[str, Any]) -> None:
        nonlocal writing
        writing = phase != "before_commit"

    line = Line(broken=lambda _call, name: not writing and name == "changes_since")
    with pytest.raises(Rejected, match=r"log cannot be read, so nothing of run .* 503"):
        maintain(
            FlakyAdapter(scene, line), scene.runner, scene.request(), clock=scene.clock, observer=observer
        )
    assert scene.table.fingerprint() == before
    assert scene.table.leftovers() == set()


def test_a_log_that_cannot_be_read_after_a_lost_attempt_keeps_every_file() -> None:
    scene, lost = groups_apart(4), False

    def race() -> None:
        nonlocal lost
        lost = True
        scene.table.delete("k = 0")

    line = Line(broken=lambda _call, name: lost and name == "changes_since")
    adapter = FlakyAdapter(scene, line)
    adapter.faults.races.append(race)
    written = set(scene.table.disk)
    with pytest.raises(Unknown, match="none of its files was removed"):
        maintain(adapter, scene.runner, scene.request(), clock=scene.clock)
    assert set(scene.table.disk) > written
