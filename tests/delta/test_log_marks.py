"""What distinguishes a commit from another one of the same version."""

from __future__ import annotations

import uuid

import pytest

from lakekeeper_delta.log_marks import listed_marks, mark, modified_ms, same_mark


class Files:
    """A Scala collection of FileStatus, as far as the code reads it."""

    def __init__(self, *listed: str) -> None:
        self._listed = listed

    def mkString(self, between: str) -> str:  # noqa: N802
        return between.join(self._listed)


def test_only_commit_files_have_marks_whatever_the_file_system_calls_its_status() -> None:
    tail = "isDirectory=false; length=9; replication=1; blocksize=33554432; modification_time={}; owner=}}"
    log = "s3a://b/t x/_delta_log"
    found = listed_marks(
        Files(
            f"S3AFileStatus{{path={log}/{3:020d}.json; "
            + tail.format(1003)
            + " isEmptyDirectory=FALSE eTag=a",
            f"FileStatus{{path={log}/{4:020d}.crc; " + tail.format(1004),
            f"FileStatus{{path={log}/{4:020d}.checkpoint.parquet; " + tail.format(1005),
            f"FileStatus{{path={log}/{1:020d}.{4:020d}.compacted.json; " + tail.format(1006),
            f"FileStatus{{path={log}/_commits/{5:020d}.{uuid.UUID(int=5)}.json; " + tail.format(1007),
        )
    )
    assert found == {3: "1003/9", 5: "1007/9"}


@pytest.mark.parametrize(
    "one, other, same",
    [
        (mark(1_700_000_000_123, 641), mark(1_700_000_000_123, 641), True),
        (mark(1_700_000_000_123, 641), mark(1_700_000_000_124, 641), False),
        (mark(1_700_000_000_123, 641), mark(1_700_000_000_123, 642), False),
        (mark(1_700_000_000_123, 641), mark(1_700_000_000_123), True),
        (mark(1_700_000_000_123, 641), mark(1_700_000_000_124), False),
        (mark(1_700_000_000_123, 641), mark(1_700_000_000_000, 641), True),
        (mark(1_700_000_000_123, 641), mark(1_700_000_001_000, 641), False),
        (mark(0, 641), mark(0, 641), True),
        ("", mark(0, 641), False),
        ("", "", False),
    ],
    ids=[
        "the same",
        "another time",
        "another size",
        "no size",
        "another time, no size",
        "whole seconds",
        "another second",
        "a time of 0",
        "none",
        "both none",
    ],
)
def test_marks_of_one_commit(one: str, other: str, same: bool) -> None:
    """A listing may lack the size, or give the time in whole seconds."""
    assert same_mark(one, other) is same_mark(other, one) is same
    assert not one or modified_ms(one) in (0, 1_700_000_000_123)
