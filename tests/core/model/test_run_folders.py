"""The folder of a run: one for each run of each table, in one spelling."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakekeeper.core.model.run_folders import (
    RUN_FOLDER,
    is_name,
    is_run_folder,
    is_run_id,
    run_folder,
)

RUN_IDS = st.from_regex(r"[0-9a-f]{16}-[1-9][0-9]{0,3}", fullmatch=True)
_SIXTEEN = "5f6a3f30ccab40d1"


@given(st.uuids(), st.uuids(), RUN_IDS, RUN_IDS)
def test_two_runs_share_a_folder_only_if_they_are_the_same_run(
    one: object, other: object, run: str, second: str
) -> None:
    same = run_folder(str(one), run) == run_folder(str(other), second)
    assert same == ((str(one), run) == (str(other), second))


@given(st.uuids(), RUN_IDS)
def test_a_folder_is_one_step_of_letters_and_digits(table: object, run: str) -> None:
    """Trino: "Random prefix must be alphanumeric"."""
    folder = run_folder(str(table), run)
    assert folder.isalnum()
    assert folder.isascii()
    assert folder == folder.lower()
    assert is_run_folder(folder)
    assert re.fullmatch(RUN_FOLDER, folder)


def test_the_spelling_of_a_uuid_does_not_matter() -> None:
    assert run_folder("5F6A3F30-CCAB-40D1-8143-1671CB311100", f"{_SIXTEEN}-1") == run_folder(
        "5f6a3f30-ccab-40d1-8143-1671cb311100", f"{_SIXTEEN}-1"
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "-1",
        f"{_SIXTEEN}",
        f"{_SIXTEEN}-",
        f"{_SIXTEEN}-x",
        "../a-1",
        "a/b-1",
        "A-1",
        "a b-1",
        "a-1\n",
        "ä-1",
    ],
)
def test_text_that_is_not_a_run_id_makes_no_folder(text: str) -> None:
    assert not is_run_id(text)
    with pytest.raises(ValueError, match="not a run id"):
        run_folder("u", text)


@pytest.mark.parametrize("step", ["lk", "lkn1", "data", "lk3f2a9c01b7den1", "lk3f2a9c01b7dexn", "../lk", ""])
def test_folders_that_are_not_those_of_a_run(step: str) -> None:
    assert not is_run_folder(step)


@pytest.mark.parametrize(
    "name, fits",
    [
        (_SIXTEEN, True),
        (f"{_SIXTEEN}-back", True),
        ("..", False),
        ("a/b", False),
        ("", False),
        ("a.b", False),
    ],
)
def test_ids_that_become_a_step_of_a_path(name: str, fits: bool) -> None:
    assert is_name(name) == fits
