from __future__ import annotations

from dataclasses import replace

from lakekeeper.core.model.report import UndoReport

UNDONE = UndoReport(
    "t",
    "r-1",
    version_before=7,
    version_after=8,
    restored_data_files_count=4,
    restored_bytes_count=2048,
    removed_data_files_count=1,
    removed_bytes_count=1024,
    run_id="r-2",
    duration_ms=1200,
)


def test_an_undo() -> None:
    assert str(UNDONE).splitlines() == [
        "t: undo of run r-1 in 1.2 s, version 7 -> 8",
        "  restored    4 files, 2.0 KiB",
        "  removed     1 file, 1.0 KiB",
        "  run         r-2",
    ]


def test_a_dry_run_of_an_undo_has_restored_nothing() -> None:
    planned = replace(UNDONE, dry_run=True, version_after=None, rollback_to=6, run_id="")
    assert str(planned).splitlines() == [
        "dry run of undo: nothing was written",
        "t: undo of run r-1 would change the layout back, by a rollback to version 6",
        "  restores    4 files, 2.0 KiB",
        "  removes     1 file, 1.0 KiB",
    ]


def test_a_run_that_was_undone_before() -> None:
    assert str(replace(UNDONE, already=True)) == "t: run r-1 was undone before; version 8 has its layout"
