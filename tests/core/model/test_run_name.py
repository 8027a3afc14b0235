"""Which commits the name of a run means."""

from __future__ import annotations

import pytest

from lakekeeper.core.model.run_folders import is_name
from lakekeeper.core.model.run_name import RunName, is_restore_id, restore_id


@pytest.mark.parametrize(
    "name, meant, others",
    [
        ("abc-1", ["abc-1"], ["abc-2", "abc-11", "abc", "xabc-1", "abc-undo1", ""]),
        ("abc", ["abc-0", "abc-1", "abc-12"], ["abcd-1", "abc", "abc-undo", "abc-undo1", "abc-restore", ""]),
        ("abc-undo1", ["abc-undo1"], ["abc-1", "abc-undo", "abc-undo12"]),
    ],
)
def test_a_name_means_one_commit_or_all_of_an_operation(
    name: str, meant: list[str], others: list[str]
) -> None:
    run = RunName.parse(name)
    assert [each for each in (*meant, *others) if run.means(each)] == meant
    assert str(run) == name


@pytest.mark.parametrize("text", ["", "-1", "abc-", "a b", "../x", "ABC-1", "abc-1-2", "a" * 33])
def test_text_that_is_not_a_run_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not the id of a run"):
        RunName.parse(text)


@pytest.mark.parametrize("name", ["abc-1", "abc", "abc-0", "abc-undo1"])
def test_an_undo_is_a_run_of_its_own(name: str) -> None:
    """It can be undone in turn, and is not one of the commits that the operation made."""
    run = RunName.parse(name)
    again = RunName.parse(run.undo_id)
    assert is_name(run.undo_id)
    assert again.means(run.undo_id)
    assert not run.means(run.undo_id)


@pytest.mark.parametrize("entry", ["0123456789abcdef", "5f6a3f30ccab40d1"])
def test_only_the_restore_of_a_dropped_partition_is_one(entry: str) -> None:
    run_id = restore_id(entry)
    assert is_restore_id(run_id)
    others = [
        "",
        entry,
        f"{entry}-1",
        f"{run_id}d",
        f"a{run_id}",
        run_id.upper(),
        "job-restore",
        f"{run_id}\n",
    ]
    assert [text for text in others if is_restore_id(text)] == []
