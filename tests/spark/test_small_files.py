"""What Hadoop's file systems differ in, without one: which renames are one step, and which text a reader sees."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from lakekeeper.spark.small_files import SPARE, has_folders, renames_in_one_step, whole


@dataclass
class Files:
    """A file system of a scheme."""

    scheme: str
    capabilities: set[str] = field(default_factory=set)

    def getUri(self) -> Files:  # noqa: N802 - the name in Java
        return self

    def getScheme(self) -> str:  # noqa: N802 - the name in Java
        return self.scheme

    def hasPathCapability(self, place: object, capability: str) -> bool:  # noqa: N802 - the name in Java
        del place
        return capability in self.capabilities


ACLS = {"fs.capability.paths.acls"}


@pytest.mark.parametrize(
    "files, one_step",
    [
        (Files("file"), True),
        (Files("hdfs", ACLS), True),
        (Files("abfss", ACLS), True),  # with a hierarchical namespace
        (Files("abfss"), False),
        (Files("abfs"), False),
        (Files("wasbs"), False),
        (Files("s3a"), False),
        (Files("gs"), False),
        (Files("s3a", ACLS), False),
    ],
)
def test_a_rename_is_one_step_where_there_are_folders(files: Files, one_step: bool) -> None:
    assert renames_in_one_step(files, "/t") == one_step


def test_folders_are_removed_where_one_with_files_is_refused() -> None:
    assert [
        each
        for each in ("file", "hdfs", "viewfs", "abfs", "abfss", "wasb", "s3a")
        if has_folders(Files(each))
    ] == [
        "hdfs",
        "abfs",
        "abfss",
    ]


@pytest.mark.parametrize(
    "states, read",
    [
        ([("old", None)], "old"),
        ([("old", "ne")], "old"),
        ([("", "new")], "new"),  # while the file is written over, or after a crash
        ([("", "new"), ("", None), ("new", None)], "new"),  # it was written between two looks
        ([(None, "new")], None),  # of a note that was removed
        ([("", None)], ""),
        ([("", "")], ""),
    ],
)
def test_a_text_is_the_old_or_the_new_one(
    states: list[tuple[str | None, str | None]], read: str | None
) -> None:
    looks = iter(states)
    state: list[tuple[str | None, str | None]] = [states[0]]

    def look(name: str) -> str | None:
        state[0] = next(looks, state[0])
        return state[0][name.endswith(SPARE)]

    assert whole(look, "intents/05.json") == read
