"""The live AddFile actions of a few files of a small log, as Delta's own JSON: read in the driver, without a Spark job.

checkpoint (Parquet) ─► rows of these paths ──┐
commits (JSON)       ─► lines of these paths ─┴─► the last action for each path and deletion vector
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakekeeper_delta.file_marks import vector_id
from lakekeeper_delta.log_files import LogFiles, Unlike, read_in_driver
from lakekeeper_delta.native import Log, State
from lakekeeper_delta.spellings import UNLIKE

_unlike = re.compile(UNLIKE)
_BEGINS = re.compile(rb'\{"(?:add|remove)":\{"path":"([^"\\]*)"')
_File = dict[str, Any]


def named_adds(log: Log, state: State, paths: Collection[str], most_bytes: int) -> list[_File] | None:
    """The AddFiles of these paths that are in the version, as plain data.

    None for a log of more than ``most_bytes``, and for one that Delta has to read.
    """

    def read(files: LogFiles) -> list[_File] | None:
        segment = files.segment(state)
        if segment.bytes > most_bytes:
            return None
        wanted = set(paths)
        found, touched = replayed(map(files.commit, segment.commits), wanted)
        for part in segment.checkpoint:
            for add in _of_checkpoint(files.checkpoint(part), wanted):
                if _identity(add) not in touched:
                    found.append(add)
        # Two live vectors of a file are for Delta to judge.
        return found if len({add["path"] for add in found}) == len(found) else None

    return read_in_driver(log, read)


def replayed(commits: Iterable[bytes], wanted: Collection[str]) -> tuple[list[_File], set[tuple[str, str]]]:
    """Of these paths, the AddFiles that commits added and did not remove, and the identities of all files in them.

    Raises Unlike for a path that may have several spellings, and ValueError for a line that is not JSON.
    """
    live: dict[tuple[str, str], _File] = {}
    touched: set[tuple[str, str]] = set()
    for text in commits:
        for line in text.splitlines():
            adds, removes = b'"add"' in line, b'"remove"' in line
            if not (adds or removes) or (not (adds and removes) and _names_another(line, wanted)):
                continue
            action = json.loads(line)
            for kind in ("add", "remove"):
                file = action.get(kind)
                if file is None:
                    continue
                if _unlike.search(file["path"]):
                    raise Unlike
                if file["path"] not in wanted:
                    continue
                name = _identity(file)
                touched.add(name)
                live.pop(name, None)
                if kind == "add":
                    # As in the state that Delta makes of a log.
                    live[name] = {**file, "dataChange": False}
    return list(live.values()), touched


def _names_another(line: bytes, wanted: Collection[str]) -> bool:
    """Whether a line begins with the path of a file that is not wanted, and need not be parsed. Raises Unlike."""
    match = _BEGINS.match(line)
    if match is None:
        return False
    path = match[1].decode()
    if _unlike.search(path):
        raise Unlike
    return path not in wanted


def _identity(file: _File) -> tuple[str, str]:
    """How Delta distinguishes files."""
    return file["path"], vector_id(file.get("deletionVector"))


def _of_checkpoint(file: Any, wanted: Collection[str]) -> Iterator[_File]:
    """The AddFiles of these paths in a file of a checkpoint. Raises Unlike where statistics are not text."""
    with file:
        schema = file.schema_arrow
        add = schema.field("add").type
        there = [add.field(number).name for number in range(add.num_fields)]
        if "stats" not in there:
            raise Unlike
        names = pa.array(sorted(wanted), pa.string())
        # The fields that a commit has, too; "stats_parsed" and "partitionValues_parsed" repeat two of them.
        read = [f"add.{name}" for name in there if not name.endswith("_parsed")]
        for group in range(file.num_row_groups):
            paths = _column(file.read_row_group(group, columns=["add.path"]))
            path = pc.struct_field(paths, "path")
            if pc.any(pc.match_substring_regex(path, UNLIKE)).as_py():
                raise Unlike
            at = pc.indices_nonzero(pc.fill_null(pc.is_in(path, value_set=names), fill_value=False))
            if not len(at):
                continue
            for row in (
                _column(file.read_row_group(group, columns=read)).take(at).to_pylist(maps_as_pydicts="strict")
            ):
                if row.get("stats") is None and "stats_parsed" in there:
                    raise Unlike
                known = {name: value for name, value in row.items() if value is not None}
                yield {**known, "dataChange": False}


def _column(rows: pa.Table) -> pa.Array:
    return rows.column("add").combine_chunks()
