"""``lakekeeper vacuum`` asks for what it is about to do."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lakekeeper.cli import main, storage
from lakekeeper.cli.setup import Setup
from lakekeeper.core.model.report import RestoreReport
from lakekeeper.core.vacuum.vacuum_report import VacuumReport
from lakekeeper.engine.trash.entries import KEPT, TrashEntry


class Vacuumed:
    """A table whose vacuum has this much to do."""

    def __init__(self, files: int, versions: int, refs: int = 0) -> None:
        self.files, self.versions, self.refs = files, versions, refs

    def vacuum(self, *, dry_run: bool = False, **_: Any) -> VacuumReport:
        return VacuumReport(
            "t",
            dry_run,
            5,
            deleted_files_count=self.files,
            deleted_bytes_count=1024 * self.files,
            expired_snapshots_count=self.versions,
            expired_refs_count=self.refs,
        )


@pytest.mark.parametrize(
    "counts, flags, question",
    [
        ((0, 0), [], None),
        ((0, 7), [], "Expire 7 versions of t?"),
        ((0, 7, 2), [], "Expire 7 versions and 2 branches and tags of t?"),
        ((0, 0, 1), [], "Expire 1 branch or tag of t?"),
        ((1, 1), [], "Expire 1 version of t, and delete 1 file (1.0 KiB)?"),
        ((2, 0), [], "Delete 2 files (2.0 KiB) of t?"),
        ((2, 0), ["--trash"], "Move 2 files (2.0 KiB) of t to the trash?"),
    ],
)
def test_the_question_names_versions_and_files(
    monkeypatch: pytest.MonkeyPatch, counts: tuple[int, ...], flags: list[str], question: str | None
) -> None:
    questions: list[str] = []
    monkeypatch.setattr(Setup, "table", lambda *_: Vacuumed(*counts))
    monkeypatch.setattr(storage, "require_terminal", lambda: None)
    monkeypatch.setattr(storage, "agreed", questions.append)
    assert main(["vacuum", "t", *flags]) == (1 if question else 0)
    assert questions == ([question] if question else [])


def test_a_dry_run_names_the_versions_that_would_expire(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Setup, "table", lambda *_: Vacuumed(0, 7))
    assert main(["vacuum", "t", "--dry-run"]) == 0
    assert capfd.readouterr().out == (
        "dry run: 7 versions would expire, and 0 files, 0 B, would be deleted; nothing was changed\n"
    )


@pytest.mark.parametrize("state, code", [("", 0), (KEPT, 1)])
def test_the_exit_code_says_whether_an_entry_of_the_trash_is_kept(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], state: str, code: int
) -> None:
    entry = TrashEntry("r-1", "files", 1000, 4, files=0, state=state)
    table = SimpleNamespace(empty_trash=lambda *, all_entries, **_: (entry,) if all_entries else ())
    monkeypatch.setattr(Setup, "table", lambda *_: table)
    assert main(["trash", "empty", "t", "--all", "--yes"]) == code
    said = capfd.readouterr().out
    assert said.startswith("kept: " if state == KEPT else "deleted permanently:\n")
    assert ("files of a vacuum (kept)" in said) == (code == 1)
    assert main(["trash", "empty", "t", "--yes"]) == 0
    assert capfd.readouterr().out == "no entry of the trash is due\n"


@pytest.mark.parametrize("call", ["restore", "empty_trash"])
def test_the_trash_takes_options(monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """A vacuum with an option could move files to the trash that no command of the trash could handle."""
    given: list[dict[str, Any]] = []

    def act(*_: Any, options: dict[str, Any], **__: Any) -> Any:
        given.append(options)
        return () if call == "empty_trash" else RestoreReport("t", "r-1", "files")

    monkeypatch.setattr(Setup, "table", lambda *_: SimpleNamespace(**{call: act}))
    arguments = ["empty", "t", "--yes"] if call == "empty_trash" else ["restore", "t", "r-1"]
    assert main(["trash", *arguments, "--option", "vacuum.allowed-locations=/ext"]) == 0
    assert given == [{"vacuum.allowed-locations": "/ext"}]
