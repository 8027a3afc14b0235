"""A listing as a BlockSet: truncated bounds marked as inexact, levels parsed from paths, deletes applied."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakekeeper.core.model.blocks import UNKNOWN, BlockSet, make_blocks
from lakekeeper.core.model.keys import ClusterKey, arrow_type
from lakekeeper_iceberg.deletes import Applied
from lakekeeper_iceberg.levels import places
from lakekeeper_iceberg.listing import Listing

_DEFAULT_WIDTH = 16  # default metrics mode: characters of a string bound, bytes of a binary bound


def blocks_of(
    listing: Listing,
    applied: Applied,
    key: ClusterKey | None,
    modes: Sequence[str],
    added_at: Mapping[int, int],
) -> BlockSet:
    """The data files of a listing as blocks; ``modes`` are the metrics modes of the key's columns."""
    data = listing.data
    level, key_id = places(_flat(data["path"]))
    columns = {name: data[name].to_numpy() for name in ("rows", "bytes", "spec")}
    bounds = (
        []
        if key is None
        else [
            _bounds(data, i, column.kind, mode)
            for i, (column, mode) in enumerate(zip(key.columns, modes, strict=True))
        ]
    )
    return make_blocks(
        {
            **columns,
            "path": data["path"],
            "partition": _flat(data["partition"]),
            "deleted_rows": applied.deleted_rows,
            "counted": applied.counted,
            "delete_bytes": applied.delete_bytes,
            "delete_id": applied.delete_id,
            "delete_rows": applied.delete_rows,
            "delete_files": applied.delete_files,
            "deleted_at": applied.deleted_at,
            "level": level,
            "key_id": key_id,
            "lo": [b[0] for b in bounds],
            "hi": [b[1] for b in bounds],
            "null_count": [b[2] for b in bounds],
            "exact": [b[3] for b in bounds],
            "added_at": [added_at.get(s, 0) for s in data["snapshot_id"].to_pylist()],
        },
        key,
    )


def added_times(blocks: BlockSet, snapshots: pa.ChunkedArray, committed_at: Mapping[int, int]) -> BlockSet:
    """The blocks with the commit times of the snapshots that added them; 0 for one that has expired."""
    coded = _flat(snapshots).dictionary_encode()
    times = np.array([committed_at.get(each, 0) for each in coded.dictionary.to_pylist()] or [0], np.int64)
    return replace(blocks, added_at=times[coded.indices.to_numpy(zero_copy_only=False)])


def _flat(column: pa.ChunkedArray) -> pa.Array:
    flat = column.combine_chunks()
    return flat if isinstance(flat, pa.Array) else pa.concat_arrays(flat.chunks)


def _bounds(
    data: pa.Table, i: int, kind: str, mode: str
) -> tuple[pa.Array, pa.Array, npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """(lo, hi, null counts, exactness) of key column ``i``."""
    to = arrow_type(kind)
    lo, hi = (_flat(data[f"{side}_bound_{i}"]).cast(to) for side in ("lower", "upper"))
    nulls = pc.fill_null(_flat(data[f"null_value_count_{i}"]), UNKNOWN).to_numpy(zero_copy_only=False)
    exact = np.ones(len(lo), np.bool_)
    if kind == "float":
        lo, hi = _with_nan(data, i, lo, hi, nulls)
    elif kind in ("string", "binary"):
        # Some values have no truncated upper bound, e.g. a run of 0xFF: then only the lower bound is stored.
        paired = pc.equal(lo.is_valid(), hi.is_valid()).to_numpy(zero_copy_only=False)
        exact = _whole(lo, mode) & _whole(hi, mode) & paired
    return lo, hi, np.asarray(nulls, np.int64), exact


def _with_nan(
    data: pa.Table, i: int, lo: pa.Array, hi: pa.Array, nulls: npt.NDArray[np.int64]
) -> tuple[pa.Array, pa.Array]:
    """Bounds that include NaN, which Iceberg's bounds leave out: the upper bound is NaN if the file may hold one."""
    nan = pc.fill_null(_flat(data[f"nan_value_count_{i}"]), UNKNOWN).to_numpy(zero_copy_only=False)
    values = pc.fill_null(_flat(data[f"value_count_{i}"]), UNKNOWN).to_numpy(zero_copy_only=False)
    may = nan != 0
    # Only NaN and NULL: no bounds are stored, but the only value is known.
    only = (nan > 0) & (nulls >= 0) & (nan + nulls == values)
    number = pa.scalar(float("nan"), pa.float64())
    lo = pc.if_else(pa.array(only), number, lo)
    return lo, pc.if_else(pc.and_(pa.array(may), lo.is_valid()), number, hi)


def _whole(bound: pa.Array, mode: str) -> npt.NDArray[np.bool_]:
    """Which bounds cannot be truncated, judged by their length.

    Under ``full``, a bound of exactly the default width may come from a file written before the setting.
    """
    length = pc.fill_null(
        pc.utf8_length(bound) if pa.types.is_string(bound.type) else pc.binary_length(bound), 0
    )
    length = length.to_numpy(zero_copy_only=False)
    width = re.fullmatch(r"truncate\((\d+)\)", mode)
    return np.asarray(length < int(width[1]) if width else length != _DEFAULT_WIDTH, np.bool_)
