"""The mark of a commit: the modification time and the size of its file, ``1764585000123/641``.

The same version of a log that was rolled back, or replaced by another copy, is another commit: its mark differs. Marks
are compared by :func:`same_mark` alone, since not every listing has all of a file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_COMMIT = re.compile(
    r"/(\d{20})(?:\.[0-9a-f-]{36})?\.json\b[^{}]*?\blength=(\d+)[^{}]*?modification_time=(\d+)"
)


def mark(modified_ms: int, size: int | None = None) -> str:
    """The mark of a commit file; of one that is known by its time alone without a size."""
    return str(modified_ms) if size is None else f"{modified_ms}/{size}"


def modified_ms(of: str) -> int:
    """The modification time in a mark."""
    return int(of.partition("/")[0])


def same_mark(one: str, other: str) -> bool:
    """Whether two marks can be of one commit; an empty one is of none."""
    if not one or not other:
        return False
    sizes = {size for each in (one, other) if (size := each.partition("/")[2])}
    return len(sizes) < 2 and same_time(modified_ms(one), modified_ms(other))


def same_time(one: int, other: int) -> bool:
    """Whether two times are equal; some stores return whole seconds in one call and milliseconds in another."""
    return one == other or (one // 1000 == other // 1000 and 0 in (one % 1000, other % 1000))


def listed_marks(files: Any) -> dict[int, str]:
    """Version → mark of its commit, from a Scala collection of FileStatus: one call, as text."""
    found = _COMMIT.findall(str(files.mkString("\n")))
    return {int(version): mark(int(at), int(size)) for version, size, at in found}


def marks_of(segment: Any, version: int) -> Mapping[int, str]:
    """The marks of the commits in Delta's LogSegment of a version; of those before its checkpoint, only its own."""
    own = mark(int(segment.lastCommitFileModificationTimestamp()))
    return {version: own, **listed_marks(segment.deltas())}
