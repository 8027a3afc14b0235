"""Replaying commits by columns equals replaying them action by action."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakekeeper_delta.driver_listing import parsed_stats
from lakekeeper_delta.file_marks import KEY_TAG, LEVEL_TAG, vector_id
from lakekeeper_delta.live_adds import replayed
from lakekeeper_delta.log_files import Unlike
from tests.delta.vectors import VECTORS

_FILES = st.tuples(st.sampled_from("abcd"), VECTORS)


def _add(path: str, vector: dict[str, Any] | None, size: int) -> dict[str, Any]:
    more = {} if vector is None else {"deletionVector": vector}
    tags = {LEVEL_TAG: "2", KEY_TAG: "k", "other": "x"} if size % 2 else None
    common = {"path": path, "size": size, "modificationTime": size, "dataChange": False, "tags": tags}
    return {**common, "partitionValues": {"p": "1", "q": None}, "stats": '{"numRecords":5}', **more}


def _replay(commits: list[list[dict[str, Any]]]) -> list[tuple[str, str, int]]:
    live: dict[tuple[str, str], int] = {}
    for action in (action for commit in commits for action in commit):
        kind = next(iter(action))
        if kind not in ("add", "remove"):
            continue
        file = action[kind]
        key = file["path"], vector_id(file.get("deletionVector"))
        live.pop(key, None)
        if kind == "add":
            live[key] = file["size"]
    return sorted((path, vector, size) for (path, vector), size in live.items())


@given(st.lists(st.lists(st.tuples(st.booleans(), _FILES), max_size=5), max_size=6))
def test_the_last_action_of_a_file_counts(history: list[list[tuple[bool, Any]]]) -> None:
    size = iter(range(1000))
    commits = [
        [{"commitInfo": {"operation": "WRITE", "add": {"path": 7}}}]
        + [
            {"add": _add(path, vector, next(size))}
            if added
            else {"remove": {"path": path, "deletionVector": vector, "partitionValues": {"p": "1"}}}
            for added, (path, vector) in actions
        ]
        for actions in history
    ]
    texts = ["\n".join(map(json.dumps, commit)).encode() + b"\n" for commit in commits]
    found, touched = replayed(texts, ("p", "q"))
    rows = found.to_pylist()
    assert sorted((row["path"], row["delete_id"], row["bytes"]) for row in rows) == _replay(commits)
    assert all(row["deleted_rows"] == (3 if row["delete_id"] else 0) for row in rows)
    assert all(row["partition.p"] == "1" and row["partition.q"] is None for row in rows)
    assert all(row[LEVEL_TAG] == ("2" if row["bytes"] % 2 else None) for row in rows)
    named = {f"{path}\0{vector_id(vector)}" for actions in history for _, (path, vector) in actions}
    assert set(touched.to_pylist()) == named


@pytest.mark.parametrize(
    "path",
    ["file:/a/x.parquet", "/a/x.parquet", "a//x.parquet", "./x.parquet", "a/../x.parquet", "a%3a.parquet"],
)
@pytest.mark.parametrize("kind", ["add", "remove"])
def test_paths_that_delta_spells_differently(path: str, kind: str) -> None:
    with pytest.raises(Unlike):
        replayed([json.dumps({kind: _add(path, None, 1)}).encode()], ())


@pytest.mark.parametrize(
    "change",
    [{"size": 1.5}, {"size": None}, {"size": "1"}, {"path": None}, {"modificationTime": True}, {"stats": {}},
     {"partitionValues": {"p": 1}}, {"deletionVector": 5}],
)  # fmt: skip
def test_values_of_another_type(change: dict[str, Any]) -> None:
    with pytest.raises((Unlike, pa.ArrowInvalid)):
        replayed([json.dumps({"add": {**_add("a", None, 1), **change}}).encode()], ("p",))


def test_a_commit_that_is_cut_off() -> None:
    text = "\n".join(json.dumps({"add": _add(path, None, 1)}) for path in "ab").encode()
    for end in range(len(text) // 2 + 2, len(text)):
        with pytest.raises(pa.ArrowInvalid):
            replayed([text[:end]], ())


@pytest.mark.parametrize("text", ["null", "null\nnull", " null", "7"])
def test_lines_that_are_not_objects(text: str) -> None:
    with pytest.raises(Unlike):
        replayed([text.encode()], ())
    with pytest.raises(Unlike):
        parsed_stats(pa.chunked_array([pa.array([text])]), ())


@given(st.lists(st.none() | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["numRecords", "x"]) | st.text(), inner),
    max_leaves=10,
).map(json.dumps) | st.text(), max_size=10))  # fmt: skip
def test_statistics_are_one_row_for_each_file(texts: list[str | None]) -> None:
    """Row counts are those of a JSON parser, file by file, or Spark reads them."""
    try:
        parsed = parsed_stats(pa.chunked_array([pa.array(texts, pa.string())]), ())
    except (Unlike, pa.ArrowInvalid):
        return
    expected = [json.loads(text).get("numRecords") if text is not None else None for text in texts]
    assert parsed["numRecords"].to_pylist() == expected
