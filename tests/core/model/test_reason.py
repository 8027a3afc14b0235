"""Reasons as data, and their sentences."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from lakekeeper.core.model.plan import Skip
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code


def theirs(**facts: Any) -> Reason:
    return Reason.of("sleeping", "due in {wait_ms:ms}, {files:count small file}", **facts)


def test_the_facts_are_data_and_the_text_is_made_of_them() -> None:
    why = Reason.of(Code.OVER_DAILY_BUDGET, spent_bytes=3 << 30)
    assert (why.code, why["spent_bytes"]) == ("over_daily_budget", 3 << 30)
    assert str(why) == "over budget-bytes-per-day: 3.0 GiB rewritten in 24 hours"


@pytest.mark.parametrize(
    "why",
    [
        Reason.of(Code.NO_KEY),
        Reason.of(Code.FEW_DELETED, share=(0.1, 1 / 3)).plus(Reason.of(Code.DUE_AT, threshold=0.5)),
        Reason.of(Code.INPUTS_REMOVED, removed=3, winners=("version 8 (WRITE)", "version 9 (DELETE)")),
        theirs(wait_ms=1, files=(1, 2)).plus(Reason.of(Code.CONSTANT)),
    ],
    ids=str,
)
def test_json_and_back(why: Reason) -> None:
    plain = json.loads(json.dumps(why.to_dict()))
    assert (plain["code"], plain["text"].split(";")[0]) == (why.code, str(why).split(";")[0])
    again = Reason.from_dict(plain)
    assert again == why
    assert hash(again) == hash(why)
    assert str(again) == str(why)


def test_an_incomplete_reason_is_refused() -> None:
    with pytest.raises(ValueError, match="its sentence needs spent_bytes"):
        Reason.of(Code.OVER_DAILY_BUDGET, budget_bytes=1)
    with pytest.raises(ValueError, match="any other code needs one"):
        Reason.of("sleeping")
    with pytest.raises(ValueError, match="a Code has its own sentence"):
        Reason.of(Code.NO_KEY, "no key at all")
    with pytest.raises(KeyError):
        Reason.from_dict({"code": "unheard_of", "facts": {}})


def test_reasons_of_many_rows_are_those_made_one_by_one() -> None:
    files, depth = [2, 3, 2], [4.0, 1.5, 4.0]
    one_by_one = [Reason.of(Code.DEEP, files=n, level=0, depth=d) for n, d in zip(files, depth, strict=True)]
    assert Reason.each(Code.DEEP, files=files, depth=depth, level=[0, 0, 0]) == one_by_one
    assert Reason.each(Code.DEEP, files=[], depth=[], level=[]) == []
    with pytest.raises(ValueError, match="its sentence needs depth"):
        Reason.each(Code.DEEP, files=files, level=[0, 0, 0])
    with pytest.raises(ValueError, match="argument"):
        Reason.each(Code.DEEP, files=files, depth=depth, level=[0])


def test_another_reason_is_added_once() -> None:
    why, more = Reason.of(Code.NO_GAIN), Reason.of(Code.FEW_NEIGHBOURS, more=2)
    both = why.plus(more, more).plus(why, more)
    assert both.codes == ("no_gain", "few_neighbours")
    assert str(both) == f"{why}; {more}"


def test_reasons_sort_the_same_way_in_any_order() -> None:
    some = [theirs(wait_ms="soon", files=1), theirs(wait_ms=1, files=1), Reason.of(Code.CONSTANT)]
    some += [Reason.of(Code.MAX_LEVEL, level=n) for n in (2, 1)]
    assert sorted(some) == sorted([*some[2:], *some[:2]])
    assert [why.code for why in sorted(some)] == [
        "constant",
        "max_level",
        "max_level",
        "sleeping",
        "sleeping",
    ]


def test_a_choice_holds_the_reason_itself() -> None:
    why = theirs(wait_ms=7_200_000, files=3)
    assert Skip(np.array([0]), why).reason["files"] == 3
