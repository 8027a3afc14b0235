"""Blocks after a few of them were removed, replaced or added; the others are not read again."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakekeeper.core.model.blocks import BlockSet, Bools, Snapshot
from lakekeeper.core.units import Ints

_CODES = {"partition": "partitions", "key_id": "key_ids", "curve_id": "curve_ids"}
"""Columns of codes, and the table that each refers to."""


def changed_blocks(blocks: BlockSet, gone: Collection[str], added: BlockSet) -> BlockSet:
    """``blocks`` without the paths in ``gone``, followed by ``added``, which are under the same key."""
    named = pa.array(sorted(gone), pa.string())
    stay = np.asarray(
        pc.invert(pc.is_in(blocks.path, value_set=named)).to_numpy(zero_copy_only=False), np.bool_
    )
    return joined(blocks.take(stay), added)


def only_blocks(blocks: BlockSet, paths: pa.Array | Collection[str] | None) -> BlockSet:
    """The blocks with these paths (None: all blocks); a path without a block is ignored."""
    if paths is None:
        return blocks
    named = paths if isinstance(paths, pa.Array) else pa.array(list(paths), pa.string())
    hit = pc.is_in(blocks.path, value_set=named)
    return blocks.take(np.asarray(hit.to_numpy(zero_copy_only=False), np.bool_))


def differing(before: Snapshot, after: Snapshot) -> tuple[Snapshot, Snapshot]:
    """Both snapshots with only those blocks that the other one lacks, or has under other deletes."""
    first, second = _lacking(before.blocks, after.blocks), _lacking(after.blocks, before.blocks)
    return replace(before, blocks=first), replace(after, blocks=second)


def delete_ids(blocks: BlockSet) -> dict[str, str]:
    """The id of its deletes for each path; empty for a block without deletes."""
    return dict(zip(blocks.path.to_pylist(), blocks.delete_id.to_pylist(), strict=True))


def _lacking(blocks: BlockSet, others: BlockSet) -> BlockSet:
    same = others.delete_id.take(pc.index_in(blocks.path, value_set=others.path))
    stayed = pc.fill_null(pc.equal(blocks.delete_id, same), False)
    return blocks.take(np.asarray(pc.invert(stayed).to_numpy(zero_copy_only=False), np.bool_))


def with_deletes(
    blocks: BlockSet,
    delete_id: Sequence[str],
    deleted_rows: Ints,
    delete_bytes: Ints,
    counted: Bools | None = None,
    *,
    delete_files: Ints | None = None,
    delete_rows: Ints | None = None,
    deleted_at: Ints | None = None,
) -> BlockSet:
    """``blocks`` with other deletes, one value for each block; they count as in ``make_blocks``."""
    ids = pa.array(delete_id, pa.string())
    masked = np.asarray(pc.not_equal(ids, "").to_numpy(zero_copy_only=False), np.bool_) | (deleted_rows > 0)
    return replace(
        blocks,
        delete_id=ids,
        deleted_rows=deleted_rows,
        counted=np.ones(len(blocks), np.bool_) if counted is None else counted,
        delete_bytes=delete_bytes,
        delete_files=masked.astype(np.int64) if delete_files is None else delete_files,
        delete_rows=deleted_rows if delete_rows is None else delete_rows,
        deleted_at=np.zeros(len(blocks), np.int64) if deleted_at is None else deleted_at,
    )


def joined(first: BlockSet, second: BlockSet) -> BlockSet:
    """The blocks of both, under one table of codes. Both are under one key, and none is placed on a curve."""
    if first.placed_by or second.placed_by or len(first.lo) != len(second.lo):
        raise ValueError("blocks: only blocks as they were read, under one key, can be joined")
    made: dict[str, Any] = {}
    for f in fields(BlockSet):
        one, other = getattr(first, f.name), getattr(second, f.name)
        if f.name in _CODES:
            table = _CODES[f.name]
            made[f.name], made[table] = _recoded(
                (one, getattr(first, table)), (other, getattr(second, table))
            )
        elif isinstance(one, np.ndarray):
            made[f.name] = np.concatenate([one, other])
        elif isinstance(one, pa.Array):
            made[f.name] = pa.concat_arrays([one, other])
        elif f.name in ("lo", "hi"):
            made[f.name] = tuple(pa.concat_arrays(pair) for pair in zip(one, other, strict=True))
        elif f.name in ("null_count", "exact"):
            made[f.name] = tuple(np.concatenate(pair) for pair in zip(one, other, strict=True))
    return replace(first, **made)


def _recoded(
    first: tuple[Any, tuple[str, ...]], second: tuple[Any, tuple[str, ...]]
) -> tuple[Any, tuple[str, ...]]:
    """The codes of both, into one table of names; -1 stays -1."""
    (codes, names), (others, other_names) = first, second
    known = {name: code for code, name in enumerate(names)}
    table = list(names)
    for name in other_names:
        if name not in known:
            known[name] = len(table)
            table.append(name)
    to = np.array([known[name] for name in other_names] or [0], codes.dtype)
    moved = np.where(others < 0, -1, to[np.maximum(others, 0)]).astype(codes.dtype)
    return np.concatenate([codes, moved]), tuple(table)
