"""Long random histories of several tables in one folder, and losses once found there, planted again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, ClassVar
from unittest.mock import patch

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from lakekeeper.core.units import HOUR_MS
from lakekeeper.engine.trash import entries as trash_entries
from lakekeeper.engine.trash.entries import DROPPED, TrashEntry
from lakekeeper.engine.vacuum.foreign_tables import Neighbours
from lakekeeper.engine.vacuum.job import VacuumJob
from lakekeeper.testing.lake import Settings
from lakekeeper.testing.memory import MemoryAdapter
from lakekeeper.testing.storage import MemoryStorage
from tests.model.oracle import Violation
from tests.model.places import STRANGE, Place
from tests.model.playing import one_of_each, play, play_daily
from tests.model.program import deterministic

LINES = {
    "linear": Settings(),
    "expiring": Settings(linear=False),
    "expiring, copies": Settings(linear=False, row_deletes=False),
}
AT = (0, 1, 2)
STEPS = 30
PHASES = ("", "", "planned", "written", "before_commit", "committed")
SEEN = ("deleted", "settled", "refused", "killed", "expired", "dropped tables", "unrecognised", "restored")


class Places(RuleBasedStateMachine):
    """Each rule is one action of one user, stranger or maintainer."""

    counts: ClassVar[Counter[str]] = Counter()
    place: Place

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.stack.enter_context(deterministic())
        self.strange: list[str] = []

    @initialize(line=st.sampled_from(sorted(LINES)))
    def make(self, line: str) -> None:
        self.place = Place(LINES[line])
        self.place.create()

    @rule(what=one_of_each(("append", "overwrite", "drop", "create", "swap"), AT))
    def catalog(self, what: tuple[str, int]) -> None:
        act, at = what
        place = self.place
        if act == "create" and len(place.tables) < len(AT):
            place.create()
        elif act == "swap":
            place.swap_names()
        elif place.tables and act in ("append", "overwrite", "drop"):
            getattr(place, act)(at % len(place.tables))
            self.counts["dropped tables"] += act == "drop"

    @rule(at=st.sampled_from(AT))
    def register(self, at: int) -> None:
        if self.place.dropped:
            self.place.register(at % len(self.place.dropped))

    @rule(what=one_of_each(AT, ("rewrite", "rewrite", "delete", "drop", "restore"), PHASES))
    def go(self, what: tuple[int, str, str]) -> None:
        at, verb, dies = what
        if self.place.tables:
            before = len(self.place.notes)
            self.place.run(at % len(self.place.tables), verb, dies)
            self.counts["killed"] += bool(dies) and len(self.place.notes) > before
            self.counts["restored"] += verb == "restore"

    @rule(what=one_of_each(AT, (False, False, True)))
    def vacuum(self, what: tuple[int, bool]) -> None:
        at, orphans = what
        if not self.place.tables:
            return
        self.place.meet()
        report = self.place.vacuum(at % len(self.place.tables), orphans=orphans)
        self.counts["refused"] += report is None
        if report is not None:
            self.counts["deleted"] += report.deleted_files_count > 0
            self.counts["settled"] += bool(report.settled_runs)
            self.counts["unrecognised"] += bool(report.plan and report.plan.unrecognised)
            self.counts["expired"] += any(table.expired for table in self.place.tables)

    @rule(hours=st.sampled_from((1, 30, 100, 200)))
    def later(self, hours: int) -> None:
        self.place.now_ms += hours * HOUR_MS

    @rule(name=st.sampled_from(STRANGE))
    def leave(self, name: str) -> None:
        self.place.leave(name)
        self.strange.append(name)

    @rule(what=one_of_each((("list",), ("cursor", "list"), ("intent",)), AT, range(9)), sweep=st.booleans())
    def forge(self, what: tuple[Sequence[str], int, int], sweep: bool) -> None:
        kinds, at, pick = what
        for kind in kinds:
            self.place.forge(kind, at, pick)
        if sweep:
            self.vacuum((at, False))

    @invariant()
    def nothing_is_lost(self) -> None:
        self.place.check(self.strange)

    def teardown(self) -> None:
        self.stack.close()


@pytest.mark.slow
@pytest.mark.parametrize("examples, share", [(1_000, 5), pytest.param(10_000, 1, marks=pytest.mark.deep)])
def test_tables_in_one_folder_lose_nothing_by_each_other(examples: int, share: int) -> None:
    Places.counts.clear()
    if play_daily(Places, examples, STEPS, share):
        assert {what for what in SEEN if not Places.counts[what]} == set()


def _any_uuid() -> Sequence[tuple[Any, str, Any]]:
    return [(MemoryStorage, "same_table", lambda *_: True)]


def _no_neighbours() -> Sequence[tuple[Any, str, Any]]:
    return [(Neighbours, "around", lambda *_: ""), (Neighbours, "refuse_orphans", lambda *_: None)]


def _whole_folder() -> Sequence[tuple[Any, str, Any]]:
    return [*_no_neighbours(), (MemoryStorage, "left_by", lambda self, _runs: self.files())]


def _any_name() -> Sequence[tuple[Any, str, Any]]:
    return [(MemoryStorage, "recognised", lambda _self, paths: set(paths))]


def _any_list() -> Sequence[tuple[Any, str, Any]]:
    return [(VacuumJob, "believed", lambda _self, garbage: (garbage, {}))]


def _any_cursor() -> Sequence[tuple[Any, str, Any]]:
    return [(VacuumJob, "reaches_back", lambda *_: True)]


def _any_entry() -> Sequence[tuple[Any, str, Any]]:
    real = trash_entries.find

    def find(adapter: MemoryAdapter, name: str) -> tuple[str, TrashEntry]:
        slot, entry = real(adapter, name)
        return slot, replace(entry, state=DROPPED, dropped=entry.dropped or entry.version + 1)

    return [(trash_entries, "find", find)]


BUGS: dict[str, Callable[[], Sequence[tuple[Any, str, Any]]]] = {
    "runs of another table are settled, by a listing of the folder": lambda: [
        *_any_uuid(), *_whole_folder()
    ],
    "orphans are searched beside another table": _no_neighbours,
    "what a dead run left is all that the table does not name": _whole_folder,
    "a drop that did not happen is restored": _any_entry,
    "files of strangers are orphans": _any_name,
    "a list is believed": _any_list,
    "a cursor beyond the retention is believed": _any_cursor,
}  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("bug", BUGS)
def test_a_seeded_bug_is_found(bug: str) -> None:
    patches = [patch.object(*each) for each in BUGS[bug]()]
    for each in patches:
        each.start()
    try:
        with pytest.raises(Violation):
            play(Places, 2_000, STEPS, shrink=False)
    finally:
        for each in patches:
            each.stop()
