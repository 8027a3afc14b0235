"""The live files of a version, replayed in the driver by columns: no Spark job, and no state for Delta to build.

checkpoint (Parquet) ─► adds ──────────┐
commits (JSON)       ─► adds, removes ─┴─► the last action for each path and deletion vector
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from lakekeeper_delta.columns import physical_name
from lakekeeper_delta.file_marks import CURVE_TAG, KEY_TAG, LEVEL_TAG
from lakekeeper_delta.log_files import LogFiles, Unlike, read_in_driver
from lakekeeper_delta.native import Log, State
from lakekeeper_delta.spellings import UNLIKE

MOST_FILES = 3_000_000
TAGS = (LEVEL_TAG, KEY_TAG, CURVE_TAG)

_BATCH = 1 << 16  # rows of a checkpoint
_TEXT = 16 << 20  # bytes of commits that are parsed together, and of the longest line
_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int64()),
        ("sizeInBytes", pa.int64()),
        ("cardinality", pa.int64()),
    ]
)
_NO_OBJECT = re.compile(rb"\n[^{\n]")


def live_adds(log: Log, state: State) -> pa.Table | None:
    """The AddFile actions of ``state``; None for a log that Delta has to read.

    Columns: ``path``, ``bytes``, ``added_at`` (ms since the epoch), ``stats`` (JSON text), ``deleted_rows``,
    ``delete_bytes``, ``delete_id``, one for each of ``TAGS``, and ``partition.<physical name>``.
    """

    def read(files: LogFiles) -> pa.Table:
        segment = files.segment(state)
        names = tuple(physical_name(state, name) for name in state.partition_columns)
        added, touched = replayed(map(files.commit, segment.commits), names)
        parts = [added]
        for file in segment.checkpoint:
            parts += _of_checkpoint(files.checkpoint(file), names, touched)
        return pa.concat_tables(parts)

    return read_in_driver(log, read)


def live_bytes(log: Log, state: State) -> int | None:
    """The bytes of the live files of ``state``; None where Delta has to sum them."""
    adds = live_adds(log, state)
    return None if adds is None else int(pc.sum(adds["bytes"]).as_py() or 0)


def replayed(commits: Iterable[bytes], names: Sequence[str]) -> tuple[pa.Table, pa.Array]:
    """The files that commits added and did not remove, and the identities of all files in them."""
    schema = _schema(names)
    added, removed = [_columns(pa.array([], schema.field("add").type), names)], []
    add_at, remove_at, start = [], [], 0
    for text in _joined(commits):
        actions = _parsed(text, schema)
        adds, removes = actions["add"], actions["remove"]
        added.append(_columns(adds.drop_null().combine_chunks(), names))
        removed.append(_removed(removes.drop_null().combine_chunks()))
        add_at.append(start + np.flatnonzero(adds.is_valid()))
        remove_at.append(start + np.flatnonzero(removes.is_valid()))
        start += len(actions)
    table = pa.concat_tables(added)
    if start == 0:
        return table, pa.array([], pa.string())
    if len(table) > MOST_FILES:
        raise Unlike
    at = np.concatenate([*add_at, *remove_at])
    encoded = pa.concat_arrays([_identities(table), *removed]).dictionary_encode()
    last = np.full(len(encoded.dictionary), -1)
    np.maximum.at(last, encoded.indices, at)
    live = last[encoded.indices.slice(0, len(table))] == at[: len(table)]
    return table.filter(pa.array(live)), encoded.dictionary


def _joined(texts: Iterable[bytes]) -> Iterator[bytes]:
    """Commits in their order, several small ones together."""
    kept: list[bytes] = []
    for text in texts:
        kept.append(text)
        if sum(map(len, kept)) >= _TEXT:
            yield b"\n".join(kept)
            kept = []
    if any(text.strip() for text in kept):
        yield b"\n".join(kept)


def _schema(names: Sequence[str]) -> pa.Schema:
    text = pa.string()
    fields = {"path": text, "size": pa.int64(), "modificationTime": pa.int64(), "stats": text}
    fields |= {"tags": pa.struct([(tag, text) for tag in TAGS]), "deletionVector": _VECTOR}
    if names:
        fields["partitionValues"] = pa.struct([(name, text) for name in names])
    remove = {"path": text, "deletionVector": _VECTOR}
    return pa.schema(
        [(kind, pa.struct(list(each.items()))) for kind, each in (("add", fields), ("remove", remove))]
    )


def _parsed(text: bytes, schema: pa.Schema) -> pa.Table:
    """The actions of commits, in their order. Raises Unlike for a line that is not an object."""
    if text[:1] not in (b"{", b"\n") or _NO_OBJECT.search(text):
        raise Unlike  # Arrow 26 crashes on a block of which each line is ``null``
    strict = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    return pj.read_json(pa.BufferReader(text), pj.ReadOptions(block_size=_TEXT), strict)


def _removed(remove: pa.Array) -> pa.Array:
    return _identity(_paths(remove), _vector(remove)["delete_id"])


def _of_checkpoint(file: Any, names: Sequence[str], touched: pa.Array) -> Iterator[pa.Table]:
    """The adds of a checkpoint's file that no later commit touched. Raises Unlike where statistics are not text."""
    with file:
        schema = file.schema_arrow
        add = schema.field("add").type
        there = {add.field(i).name for i in range(add.num_fields)}
        if file.metadata.num_rows > MOST_FILES or "stats" not in there:
            raise Unlike
        wanted = ("path", "partitionValues", "size", "modificationTime", "stats", "tags", "deletionVector")
        read = [f"add.{name}" for name in wanted if name in there]
        for batch in file.iter_batches(_BATCH, columns=read):
            rows = batch.column("add")
            found = _columns(rows.filter(pc.struct_field(rows, "path").is_valid()), names)
            if "stats_parsed" in there and found["stats"].null_count:
                raise Unlike
            yield found.filter(pc.invert(pc.is_in(_identities(found), value_set=touched)))


def _columns(add: pa.Array, names: Sequence[str]) -> pa.Table:
    """AddFile actions as the columns of :func:`live_adds`."""
    tags = _entries(add, "tags", TAGS)
    values = _entries(add, "partitionValues", names)
    size, added_at = (pc.struct_field(add, name) for name in ("size", "modificationTime"))
    if size.null_count or added_at.null_count:
        raise Unlike
    return pa.table(
        {
            "path": _paths(add),
            "bytes": size,
            "added_at": added_at,
            "stats": pc.struct_field(add, "stats"),
            **_vector(add),
            **dict(zip(TAGS, tags, strict=True)),
            **{f"partition.{name}": each for name, each in zip(names, values, strict=True)},
        }
    )


def _entries(add: pa.Array, field: str, names: Sequence[str]) -> list[pa.Array]:
    """The values of these names in a map, or in a struct."""
    if add.type.get_field_index(field) < 0:
        return [pa.nulls(len(add), pa.string()) for _ in names]
    held = pc.struct_field(add, field)
    if pa.types.is_map(held.type):
        return [pc.map_lookup(held, pa.scalar(name), "first").cast(pa.string()) for name in names]
    return [pc.struct_field(held, [number]) for number in range(len(names))]


def _vector(action: pa.Array) -> dict[str, pa.Array]:
    """The id of the deletion vector as Delta spells it, ``""`` for none, and how many rows and bytes it has."""
    if action.type.get_field_index("deletionVector") < 0:
        none = pa.array(np.zeros(len(action), np.int64))
        return {
            "deleted_rows": none,
            "delete_bytes": none,
            "delete_id": pa.array([""] * len(action), pa.string()),
        }
    vector = pc.struct_field(action, "deletionVector")
    kind, place, offset, size, rows = (pc.struct_field(vector, each.name).cast(each.type) for each in _VECTOR)
    at = pc.fill_null(pc.binary_join_element_wise("@", offset.cast(pa.string()), ""), "")
    return {
        "deleted_rows": pc.fill_null(rows, 0),
        "delete_bytes": pc.fill_null(size, 0),
        "delete_id": pc.fill_null(pc.binary_join_element_wise(kind, place, at, ""), ""),
    }


def _paths(action: pa.Array) -> pa.Array:
    """Raises Unlike for a path that may have several spellings."""
    paths = pc.struct_field(action, "path")
    if paths.null_count or pc.any(pc.match_substring_regex(paths, UNLIKE)).as_py():
        raise Unlike
    return paths


def _identities(adds: pa.Table) -> pa.Array:
    """How Delta distinguishes files."""
    return _identity(adds["path"].combine_chunks(), adds["delete_id"].combine_chunks())


def _identity(paths: pa.Array, delete_ids: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(paths, delete_ids, "\0")
