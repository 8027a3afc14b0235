"""Blocks of an earlier version, brought up to date from the commits since: no other file of the log is opened.

version 7           8              9                10
a, b, c     +d          b: vector        -a, +e          a leaves, b, d and e are read from 8, 9 and 10
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakekeeper.core.model.block_changes import changed_blocks, only_blocks
from lakekeeper.core.model.blocks import BlockSet, Snapshot, make_blocks
from lakekeeper.errors import NotFound
from lakekeeper_delta.blocks import added_blocks
from lakekeeper_delta.columns import Found
from lakekeeper_delta.json_commits import Since, commits_between, read_commits
from lakekeeper_delta.native import Log, State

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_MOST = 100
"""Commits; the log has a checkpoint every ten by default, which a whole read starts from."""


def refreshed_blocks(log: Log, state: State, snapshot: Snapshot, found: Sequence[Found]) -> BlockSet | None:
    """The blocks of ``state``, from those of an earlier version under the same key; ``found`` are the key's columns.

    None if the metadata or the protocol has changed, for more than 100 commits, if a commit is gone from the log, and
    if the remove of a file does not name its deletion vector: the file is still live.
    """
    before = state.version if snapshot.version is None else snapshot.version
    if state.version < before or state.version - before > _MOST:
        return None
    try:
        since = commits_between(log, before, state.version)
        if since.renewed or _survives(snapshot.blocks, since):
            return None
        at = _last_adds(since.files)
        if not at:
            added = make_blocks(_NO_FILES | _bounds_of(snapshot), snapshot.key)
        else:
            adds = read_commits(log, sorted(set(at.values())), _schema(log)).where("add IS NOT NULL")
            added = added_blocks(log, state, snapshot.key, found, adds.select("version", "add.*"), at)
    except NotFound:
        return None
    if len(added) != len(at):
        return None
    return changed_blocks(snapshot.blocks, pc.unique(since.files["path"]).to_pylist(), added)


def _survives(blocks: BlockSet, since: Since) -> bool:
    """Whether a file that was removed without a deletion vector had one, from the blocks or from an earlier commit."""
    if not since.bare:
        return False
    if any(only_blocks(blocks, since.bare).delete_id.to_pylist()):
        return True
    actions = since.touching(pa.array(sorted(since.bare), pa.string())).to_pylist()
    bare: dict[str, int] = {}
    for row in actions:
        if not row["live"] and not row["delete_id"]:
            bare[row["path"]] = max(row["version"], bare.get(row["path"], -1))
    return any(
        row["live"] and row["delete_id"] and row["version"] < bare.get(row["path"], -1) for row in actions
    )


_NO_FILES: dict[str, list[object]] = {"path": [], "rows": [], "bytes": []}


def _bounds_of(snapshot: Snapshot) -> dict[str, list[list[object]]]:
    """Empty bounds for each column of the key."""
    width = len(snapshot.key.columns) if snapshot.key else 0
    return {name: [[] for _ in range(width)] for name in ("lo", "hi", "null_count", "exact")}


def _last_adds(files: pa.Table) -> dict[str, int]:
    """Path → version of its last add, of the files that no later commit removed."""
    last: dict[str, tuple[int, bool]] = {}
    for path, version, live in zip(
        *(files[name].to_pylist() for name in ("path", "version", "live")), strict=True
    ):
        # A commit changes a deletion vector by a remove and an add of the same path: the add counts.
        last[path] = max(last.get(path, (-1, False)), (version, live))
    return {path: version for path, (version, live) in last.items() if live}


def _schema(log: Log) -> StructType:
    """The schema of commits with whole AddFile actions, as Delta itself reads them."""
    from pyspark.sql.types import StructField, StructType

    add = log.singleton("implicits.package").addFileEncoder().schema()
    return StructType([StructField("add", StructType.fromJson(json.loads(str(add.json()))))])
