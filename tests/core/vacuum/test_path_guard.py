"""No path leaves the table's folder: by a table of cases, and fuzzed against the file system's own answer."""

from __future__ import annotations

import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakekeeper.core.vacuum.path_guard import (
    Grounds,
    below,
    grounds_of,
    may_meet,
    meets,
    move_refusal,
    refusal,
    require_roots,
    same_place,
    spelled,
    trash_folder,
    within,
)
from lakekeeper.errors import RetentionError
from tests.linear import assert_linear

HOME = Grounds(("file:/lake/t",), ("_delta_log",))
BUCKET = Grounds(("s3a://bucket/t", "s3://other/data"), ("metadata",))


@pytest.mark.parametrize(
    "path",
    [
        "file:/lake/t/a.parquet",
        "file:///lake/t/a.parquet",
        "/lake/t/p=a b/ä+#:~.parquet",
        "/lake/t/p=a%20b/x",
        "/lake/t/_p=1/x",
        "/lake/t/...x/y..z",
    ],
)
def test_paths_that_may_be_deleted(path: str) -> None:
    assert refusal(path, HOME) == ""


@pytest.mark.parametrize(
    "path, why",
    [
        ("file:/lake/t", "outside"),
        ("file:/lake/t/", "folder"),
        ("file:/lake/t/a/", "folder"),
        ("file:/lake/t2/a", "outside"),
        ("file:/lake/ta", "outside"),
        ("file:/lake/t/../u/a", "plain"),
        ("file:/lake/t/./a", "plain"),
        ("file:/lake/t//a", "plain"),
        ("file:/lake/t/a\x00", "plain"),
        ("file:/lake/t/..\\u\\a", "plain"),
        ("file:/etc/passwd", "outside"),
        ("hdfs://name/lake/t/a", "outside"),
        ("file://host/lake/t/a", "outside"),
        ("lake/t/a", "absolute"),
        ("a", "absolute"),
        ("", "absolute"),
        ("file:/lake/t/_delta_log/00000000000000000000.json", "_delta_log"),
        ("file:/lake/t/_lakekeeper/vacuum/cursor.json", "_lakekeeper"),
    ],
)
def test_paths_that_must_not_be_deleted(path: str, why: str) -> None:
    assert why in refusal(path, HOME)


def test_metadata_is_deleted_from_its_own_folder_and_never_from_lakekeepers() -> None:
    assert refusal("s3a://bucket/t/metadata/snap-1.avro", BUCKET, "metadata") == ""
    assert "metadata" in refusal("s3a://bucket/t/metadata/snap-1.avro", BUCKET)
    assert "_lakekeeper" in refusal("s3a://bucket/t/_lakekeeper/intents/00.json", BUCKET, "metadata")


@pytest.mark.parametrize(
    "path",
    [
        "/lake/t/data/live.parquet",
        "/lake/t/_lakekeeper/vacuum/cursor.json",
        "/lake/t/_lakekeeper/trash/00.json",
        "/lake/t/_lakekeeper/trash/e",
        "/lake/t/_lakekeeper/trash/e/../../../data/live.parquet",
        "/lake/t/_lakekeeper/trash/../trash/e/x",
        "/lake/other/_lakekeeper/trash/e/x",
        "s3://bucket/t/_lakekeeper/trash/e/x",
    ],
)
def test_what_is_not_a_file_of_an_entry_is_not_deleted_with_the_trash(path: str) -> None:
    assert refusal(path, HOME, "trash")
    assert move_refusal("/lake/t/data/x", path, HOME)


def test_files_move_only_between_their_places_and_the_trash() -> None:
    here, there = "/lake/t/p=1/x", f"{trash_folder('/lake/t', 'e')}/0/p=1/x"
    assert there == "/lake/t/_lakekeeper/trash/e/0/p=1/x"
    assert (
        refusal(there, HOME, "trash")
        == move_refusal(here, there, HOME)
        == move_refusal(there, here, HOME)
        == ""
    )
    assert move_refusal(here, "/lake/t/p=1/y", HOME)
    assert move_refusal(there, there, HOME)
    assert move_refusal(there, "/lake/t/_delta_log/00000000000000000000.json", HOME)
    assert move_refusal("/lake/t/_delta_log/00000000000000000000.json", there, HOME)


DECLARED = {"write.data.path": "s3a://bulk/data/", "write.metadata.path": "s3://bucket/t/meta"}


@pytest.mark.parametrize(
    "allowed, permitted",
    [
        ((), False),
        (("s3://bulk/data",), True),
        (("s3://bulk/",), True),
        (("s3://bulk",), True),
        (("s3://bulk/data/lake",), False),
        (("s3://bulk/da",), False),
        (("s3://bulk/../bulk/data",), False),
        (("gs://bulk/data",), False),
    ],
)
def test_a_property_allows_nothing_that_the_operator_does_not_allow(
    allowed: tuple[str, ...], permitted: bool
) -> None:
    grounds = grounds_of("s3://bucket/t", ("metadata",), DECLARED, allowed)
    assert refusal("s3://bucket/t/meta/m.avro", grounds) == ""
    why = refusal("s3://bulk/data/x.parquet", grounds)
    assert (why == "") == permitted
    if not permitted:
        assert "write.data.path" in why
        assert "vacuum.allowed-locations" in why
    assert "trash" in refusal("s3://bulk/data/x.parquet", grounds, "trash") or not permitted


def test_places_above_below_and_beside() -> None:
    assert within("s3a://b/x/y/", "s3://b/x")
    assert not within("s3://b/xy", "s3://b/x")
    assert meets("/lake", ["/lake/t"])
    assert meets("/lake/t/u", ["file:///lake/t/"])
    assert not meets("/lake/u", ["/lake/t"])


def test_one_store_under_several_names_and_declared_roots() -> None:
    assert refusal("s3://bucket/t/data/x", BUCKET) == ""
    assert refusal("s3n://other/data/x", BUCKET) == ""
    assert refusal("s3://other/data/metadata/x", BUCKET) == ""  # a data folder of that name, elsewhere
    assert "outside" in refusal("s3://bucket2/t/data/x", BUCKET)
    assert "outside" in refusal("gs://bucket/t/data/x", BUCKET)


def test_one_container_of_azure_under_several_names() -> None:
    """Loss L51: a file that the table names by one of them was an orphan in a listing by another."""
    names = [
        "abfss://c@a.dfs.core.windows.net/t/x",
        "abfs://c@a.dfs.core.windows.net/t/x",
        "abfss://c@a.blob.core.windows.net/t/x",
        "wasbs://c@a.blob.core.windows.net/t/x",
        "wasb://c@a.blob.core.windows.net/t/x",
    ]
    assert len({spelled(name) for name in names}) == 1
    others = ("wasbs://d@a.blob.core.windows.net/t/x", "abfss://c@b.dfs.core.windows.net/t/x")
    assert not any(same_place(other, name) for other in others for name in names)
    assert not same_place("s3://c@a.blob.x/t", "s3://c@a.dfs.x/t")


@pytest.mark.parametrize("root", ["/", "file:/", "s3://bucket", "s3://bucket/", "t", "file:/a/../b", ""])
def test_a_root_that_is_not_a_folder_is_refused(root: str) -> None:
    with pytest.raises(RetentionError, match="not a folder below"):
        require_roots("t", Grounds((root,)))


def test_spellings() -> None:
    assert same_place("file:/x/y", "/x/y/")
    assert same_place("file:///x/y", "file:/x/y")
    assert not same_place("s3://b/x", "s3://c/x")
    assert {spelled(p) for p in ("file:/x y", "file:///x y", "/x y")} == {"file:/x y"}
    assert spelled("s3a://b/x") == spelled("s3://b/x")
    assert below("file:///lake/t/p=1/a", HOME.roots) == "p=1/a"
    assert below("file:/elsewhere/a", HOME.roots) == "file:/elsewhere/a"


@given(st.lists(st.sampled_from(["..", ".", "", "a", "t", "lake", "b c", "%2e%2e"]), max_size=6))
def test_every_permitted_path_is_below_the_root_for_the_file_system_too(steps: list[str]) -> None:
    for path in ("/lake/t/" + "/".join(steps), "/" + "/".join(steps), "file:/lake/" + "/".join(steps)):
        if refusal(path, HOME) == "":
            plain = path.removeprefix("file:")
            assert posixpath.normpath(plain) == plain
            assert plain.startswith("/lake/t/")


@pytest.mark.parametrize("piece", ["a", "@", "@a", ".blob", "/", "://", "%2F", "../"])
@pytest.mark.parametrize("start", ["", "wasbs://", "/"])
def test_a_long_path_is_spelled_in_proportion_to_its_length(start: str, piece: str) -> None:
    assert_linear(spelled, lambda n: start + piece * (n // len(piece)))


@pytest.mark.parametrize("path", ["s3://b/t/../u", "s3://b/t/./x", "s3://b/t//x", "s3://b/t/a\\..\\x"])
def test_no_path_with_odd_steps_is_within_a_folder(path: str) -> None:
    assert within("s3://b/t/x", "s3://b/t")
    assert not within(path, "s3://b/t")


@pytest.mark.parametrize(
    "one, other",
    [
        ("file:/wh/bulk", "file:/wh//bulk"),
        ("file:/wh/bulk", "file:/wh/./bulk/t"),
        ("file:/wh/bulk/t", "file:/wh/x/../bulk"),
        ("hdfs://nn:8020/wh/t", "hdfs:///wh/t"),
        ("hdfs://nn:8020/wh/t", "hdfs://NN/wh/t/data"),
        ("hdfs://nn:8020/wh/t", "/wh/t"),
        ("s3a://b/wh/t", "s3://b/wh//t/data"),
        ("s3://b/wh/t", "s3://b"),
        ("wasbs://c@a.blob.core.windows.net/t", "abfss://c@a.dfs.core.windows.net/t/x"),
    ],
)
def test_places_that_may_meet_however_they_are_spelled(one: str, other: str) -> None:
    assert may_meet(one, [other])
    assert may_meet(other, ["file:/elsewhere", one])


@pytest.mark.parametrize(
    "one, other",
    [
        ("file:/wh/t", "file:/wh/t2"),
        ("file:/wh/t", "file:/wh/x/../u"),
        ("hdfs://nn/wh/t", "hdfs://other/wh/t"),
        ("s3://b/wh/t", "s3://c/wh/t"),
        ("s3://b/wh/t", "hdfs://b/wh/t"),
        ("/wh/t", "relative"),
    ],
)
def test_places_that_do_not_meet(one: str, other: str) -> None:
    assert not may_meet(one, [other])
    assert not may_meet(other, [one])


@given(st.lists(st.sampled_from(["a", "b"]), min_size=1), st.lists(st.sampled_from(["a", "b"]), min_size=1))
def test_places_that_meet_may_meet(one: list[str], other: list[str]) -> None:
    first, second = (f"s3://b/{'/'.join(steps)}" for steps in (one, other))
    assert may_meet(first, [second]) == meets(first, [second])
