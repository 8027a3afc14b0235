"""``lakekeeper expire-rows`` deletes only what it has shown, and only with a confirmation."""

from __future__ import annotations

from typing import Any

import pytest

from lakekeeper.cli import main, storage
from lakekeeper.cli.setup import Setup
from lakekeeper.core.model.lifecycle_report import LifecycleReport
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code


class Expiring:
    """A table of which so many files are due; rows expire between any two calls."""

    def __init__(self, due: int) -> None:
        self.due, self.calls = due, list[bool]()

    def expire_rows(self, *, dry_run: bool = False, **_: Any) -> LifecycleReport:
        self.calls.append(dry_run)
        ended = Reason.of(Code.DRY_RUN if dry_run else Code.DONE)
        return LifecycleReport("t", dry_run, "at < x", 1, 2, ended, due_data_files_count=self.due)


@pytest.mark.parametrize(
    "due, agrees, code, calls",
    [(0, True, 0, [True]), (2, True, 0, [True, False]), (2, False, 1, [True])],
)
def test_without_yes_nothing_is_deleted_that_was_not_confirmed(
    monkeypatch: pytest.MonkeyPatch, due: int, agrees: bool, code: int, calls: list[bool]
) -> None:
    table, questions = Expiring(due), list[str]()

    def agreed(question: str) -> bool:
        questions.append(question)
        return agrees

    monkeypatch.setattr(Setup, "table", lambda *_: table)
    monkeypatch.setattr(storage, "require_terminal", lambda: None)
    monkeypatch.setattr(storage, "agreed", agreed)
    assert main(["expire-rows", "t"]) == code
    assert (table.calls, len(questions)) == (calls, int(due > 0))


def test_without_a_slot_in_the_trash_the_command_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(Expiring):
        def expire_rows(self, *, dry_run: bool = False, **_: Any) -> LifecycleReport:
            full = Reason.of(Code.TRASH_FULL, entries=48, most=48)
            return LifecycleReport("t", dry_run, "at < x", 1, None, full, due_data_files_count=self.due)

    monkeypatch.setattr(Setup, "table", lambda *_: Full(2))
    assert main(["expire-rows", "t", "--yes"]) == 1
