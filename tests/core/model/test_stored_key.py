"""A key stored as table properties: by name, and by field id, which survives a rename."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakekeeper.core.model.keys import LAYOUTS, ClusterKey, KeyColumn, quote
from lakekeeper.core.model.stored_key import (
    FIELDS_PROPERTY,
    KEY_PROPERTY,
    key_of_properties,
    key_properties,
    text_of_key,
)

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)


@given(st.lists(NAMES, min_size=2, max_size=4, unique=True), st.sampled_from(LAYOUTS), st.data())
def test_a_key_is_found_by_its_fields_whatever_their_current_names(
    names: list[str], layout: str, data: st.DataObject
) -> None:
    key = ClusterKey(tuple(KeyColumn((n,), "int", str(i)) for i, n in enumerate(names)), layout)
    kept = key_properties(key, list(range(len(names))))
    now = data.draw(st.lists(NAMES, min_size=len(names), max_size=len(names), unique=True))
    found = key_of_properties(kept, lambda field: quote(now[field]))
    assert (found.columns, found.layout, found.problem) == (tuple(map(quote, now)), layout, "")
    gone = data.draw(st.integers(0, len(names) - 1))
    without = key_of_properties(kept, lambda field: None if field == gone else quote(now[field]))
    assert (without.columns, key.columns[gone].name in without.problem) == ((), True)


@pytest.mark.parametrize(
    "beside",
    [
        None,
        "",
        "[",
        "null",
        "{}",
        json.dumps({"fields": [2, 1], "key": "b, a"}),  # of the previous key
        json.dumps({"fields": [1], "key": "a, b"}),
        json.dumps({"fields": None, "key": "a, b"}),
    ],
)
def test_a_key_that_was_set_by_hand_is_read_by_its_names(beside: str | None) -> None:
    kept: dict[str, Any] = {KEY_PROPERTY: "a, b"} | ({} if beside is None else {FIELDS_PROPERTY: beside})

    def fails(_: Any) -> str:
        raise AssertionError("no field is known")

    assert key_of_properties(kept, fails).columns == ("a", "b")


def test_either_spelling_of_the_property_is_the_key() -> None:
    assert key_of_properties({"lakekeeper.cluster_by": "hilbert(a, b)"}, str).columns == ("a", "b")
    assert text_of_key({"lakekeeper.cluster_by": "a", KEY_PROPERTY: "b"}) == "b"


def test_no_key() -> None:
    assert key_of_properties({}, str).columns == ()
    assert key_of_properties({FIELDS_PROPERTY: json.dumps({"fields": [1], "key": "a"})}, str).columns == ()
