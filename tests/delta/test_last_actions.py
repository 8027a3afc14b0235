"""The last action of each identity counts, wherever the log has it. No JVM is needed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakekeeper_delta.last_actions import Kind, replayed

KINDS = [
    Kind("txn", ("appId", "version", "lastUpdated")),
    Kind("domainMetadata", ("domain", "configuration", "removed")),
]
_VALUES = st.tuples(
    st.sampled_from(["a", "b", 'c"txn"', "domainMetadata"]), st.integers(0, 9), st.none() | st.integers(0, 9)
)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@given(
    st.lists(_VALUES, unique_by=lambda each: each[0]),
    st.lists(st.lists(st.one_of(_VALUES, st.none()), max_size=4), max_size=5),
    st.booleans(),
)
def test_the_last_action_of_an_identity_counts(
    kind: Kind, checkpoint: list[Any], commits: list[list[Any]], bare: bool
) -> None:
    """``bare`` leaves out a field that is not known."""

    def action(values: Any) -> dict[str, Any]:
        found = dict(zip(kind.fields, values, strict=True))
        return {name: value for name, value in found.items() if value is not None or not bare}

    other = json.dumps({"commitInfo": {"operationParameters": {kind.name: "x"}}})
    texts = ["\n".join(json.dumps({kind.name: action(v)}) if v else other for v in c) for c in commits]
    last = {each[0]: action(each) for each in checkpoint}
    last |= {each[0]: action(each) for commit in commits for each in commit if each is not None}
    found = replayed(map(action, checkpoint), [text.encode() for text in texts], kind)
    assert {each[kind.fields[0]]: each for each in found} == last


@pytest.mark.parametrize("line", ['{"txn": {"version": 3}}', '{"txn": "app"', "txn"])
def test_a_line_that_may_mean_something_else_is_left_to_delta(line: str) -> None:
    with pytest.raises((ValueError, KeyError)):
        replayed([], [f'{{"add": {{}}}}\n{line} "txn"'.encode()], KINDS[0])
