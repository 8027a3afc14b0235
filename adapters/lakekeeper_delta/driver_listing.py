"""AddFile actions in the driver as the columns that Spark makes of them (``blocks``), value for value.

Arrow parses the statistics: those of 10⁶ files take a core-second, and Spark takes twelve. Its JSON reader is strict:
a value of another type is an error. Whatever Spark may read in another way raises
:class:`~lakekeeper_delta.log_files.Unlike`: Spark then reads the log.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from lakekeeper.core.model.blocks import UNKNOWN
from lakekeeper.core.model.keys import arrow_type
from lakekeeper.core.model.run_folders import NO_KEY, RUN_FOLDER
from lakekeeper_delta.columns import Found, nested, physical_name
from lakekeeper_delta.file_marks import CURVE_TAG, KEY_TAG, LEVEL_TAG, PLACE, SHORT_TEXT
from lakekeeper_delta.log_files import Unlike
from lakekeeper_delta.native import State

_BATCH = 1 << 16  # files whose statistics are parsed together
_LONGEST = 64 << 20  # bytes of them
_CURVE = r"^(?P<name>[^:]*):(?P<first>[0-9]{1,18}):(?P<last>[0-9]{1,18})$"
_LEVEL = r"^[0-9]{1,9}$"
_DATE = r"^\d{4}-\d\d-\d\d$"
_TIME = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}"
_SPECIAL = r'[^ -~]|["\\]'  # what JSON may write in several ways
_SIDES = ("minValues", "maxValues", "nullCount")
_JSON = {
    "int": pa.int64(),
    "double": pa.float64(),
    **dict.fromkeys(("string", "date", "timestamp", "timestamp_ntz"), pa.string()),
}
"""The types of bounds in JSON; a float, a decimal or a partition value is parsed by Spark."""


def can_list(found: Sequence[Found]) -> bool:
    """Whether the bounds of these columns are of types that the driver parses."""
    return all(not item.partition and _kind(item) in _JSON for item in found)


def _kind(item: Found) -> str:
    return item.sql_type if item.column.kind == "float" else item.column.kind


def listed(adds: pa.Table, state: State, found: Sequence[Found]) -> pa.Table | None:
    """The columns that Spark makes of these AddFiles; None where it has to make them.

    ``found`` are columns that `can_list` accepts.
    """
    try:
        return _listed(adds.combine_chunks(), state, found)
    except (Unlike, pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _listed(adds: pa.Table, state: State, found: Sequence[Found]) -> pa.Table:
    stats = parsed_stats(adds["stats"], found)
    level, key_id = _places(adds)
    plain = ("path", "bytes", "added_at", "deleted_rows", "delete_bytes", "delete_id")
    made: dict[str, Any] = {name: adds[name] for name in plain}
    made |= {"level": level, "key_id": key_id, "foreign": pa.repeat(pa.scalar(value=False), len(adds))}
    made |= _curves(adds[CURVE_TAG])
    made |= {"partition": _partitions(adds, state), "rows": stats["numRecords"]}
    for number, item in enumerate(found):
        lo, hi, nulls = (_leaf(stats[side], item.physical) for side in _SIDES)
        made |= _bounds(number, item, lo, hi, nulls)
    return pa.table(made)


def parsed_stats(stats: pa.ChunkedArray, found: Sequence[Found]) -> pa.Table:
    """The statistics with the row count and the bounds of the key, one row for each file."""
    schema = _schema(found)
    options = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    parsed = [schema.empty_table()]
    for lines in _lines(pc.fill_null(stats, "{}")):
        text = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines), "\n")
        rows = pj.read_json(
            pa.BufferReader(text[0].as_buffer()), pj.ReadOptions(block_size=_LONGEST), options
        )
        if len(rows) != len(lines):
            raise Unlike
        parsed.append(rows)
    return pa.concat_tables(parsed).combine_chunks()


def _lines(stats: pa.ChunkedArray) -> Iterator[pa.Array]:
    """Batches of lines that each begin with an object, so that as many rows as lines are one object a line."""
    for start in range(0, len(stats), _BATCH):
        lines = stats.slice(start, _BATCH).combine_chunks()
        if pc.sum(pc.binary_length(lines)).as_py() + len(lines) > _LONGEST:
            raise Unlike
        yield _matching(lines, r"^\{[^\n]*\z")


def _schema(found: Sequence[Found]) -> pa.Schema:
    bounds = nested({item.physical: _JSON[_kind(item)] for item in found}, pa.struct)
    counts = nested({item.physical: pa.int64() for item in found}, pa.struct)
    sides = zip(_SIDES, (bounds, bounds, counts), strict=True)
    return pa.schema([("numRecords", pa.int64()), *(sides if found else ())])


def _leaf(struct: pa.ChunkedArray, path: Sequence[str]) -> pa.Array:
    whole = struct.combine_chunks()
    for step in path:
        whole = pc.struct_field(whole, [whole.type.get_field_index(step)])
    return whole


def _bounds(number: int, item: Found, lo: pa.Array, hi: pa.Array, nulls: pa.Array) -> dict[str, pa.Array]:
    kind = item.column.kind
    exact, lmt = (pa.repeat(pa.scalar(value), len(lo)) for value in (True, kind == "timestamp"))
    if kind == "string":
        short = [pc.less(pc.binary_length(side), SHORT_TEXT) for side in (lo, hi)]
        exact = pc.fill_null(pc.and_(*short), fill_value=False)
        # Null where one is missing.
        whole = pc.invert(pc.or_(*(pc.match_substring(side, "\ufffd") for side in (lo, hi))))
        lo, hi = (pc.if_else(whole, side, pa.scalar(None, pa.string())) for side in (lo, hi))
    elif kind == "timestamp":
        lmt = pc.or_(lo.is_null(), hi.is_null())  # all others are in UTC
    lo, hi = (_typed(side, kind) for side in (lo, hi))
    return {
        f"lo{number}": lo,
        f"hi{number}": hi,
        f"nulls{number}": pc.fill_null(nulls, UNKNOWN),
        f"exact{number}": exact,
        f"lmt{number}": lmt,
    }


def _typed(bound: pa.Array, kind: str) -> pa.Array:
    """Bounds in the type of the key. Raises Unlike, and ArrowInvalid for a date that does not exist."""
    if kind == "float" and pc.any(pc.invert(pc.is_finite(bound))).as_py():
        raise Unlike
    if kind == "date":
        return _matching(bound, _DATE).cast(pa.date32())
    if kind in ("timestamp", "timestamp_ntz"):
        zone = "Z" if kind == "timestamp" else ""
        local = pc.utf8_slice_codeunits(_matching(bound, f"{_TIME}{zone}$"), 0, 23)
        return local.cast(pa.timestamp("us")).cast(pa.int64()).cast(arrow_type(kind))
    return bound


def _matching(text: pa.Array, pattern: str) -> pa.Array:
    if not pc.all(pc.match_substring_regex(text, pattern), min_count=0).as_py():
        raise Unlike
    return text


def _places(adds: pa.Table) -> tuple[pa.Array, pa.Array]:
    """(level, key) by the tags, else by the path."""
    level = _matching(adds[LEVEL_TAG], _LEVEL).cast(pa.int32())
    key_id = pc.fill_null(adds[KEY_TAG], "")
    unmarked = pc.and_(level.is_null(), pc.match_substring_regex(adds["path"], f"(?:^|/){RUN_FOLDER}/"))
    if not pc.any(unmarked).as_py():
        return pc.fill_null(level, 0), key_id
    levels, keys = pc.fill_null(level, 0).to_pylist(), key_id.to_pylist()
    for row in pc.indices_nonzero(unmarked).to_pylist():
        match = re.search(PLACE, adds["path"][row].as_py())
        if match is not None:
            levels[row], keys[row] = int(match[2]), "" if match[1] == NO_KEY else match[1]
    return pa.array(levels, pa.int32()), pa.array(keys, pa.string())


def _curves(tag: pa.ChunkedArray) -> dict[str, pa.Array]:
    parts = pc.extract_regex(_matching(tag, _CURVE), _CURVE)
    first, last = (pc.struct_field(parts, name).cast(pa.int64()) for name in ("first", "last"))
    if pc.any(pc.greater(first, last)).as_py():
        raise Unlike
    return {
        "curve_id": pc.fill_null(pc.struct_field(parts, "name"), ""),
        "curve_lo": pc.fill_null(first, UNKNOWN),
        "curve_hi": pc.fill_null(last, UNKNOWN),
    }


def _partitions(adds: pa.Table, state: State) -> pa.Array:
    """Partition values as JSON text with sorted names, as Spark writes it."""
    pieces: list[Any] = []
    for name in sorted(state.partition_columns):
        values = adds[f"partition.{physical_name(state, name)}"]
        if re.search(_SPECIAL, name) or pc.any(pc.match_substring_regex(values, _SPECIAL)).as_py():
            raise Unlike
        quoted = pc.binary_join_element_wise('"', values, '"', "")
        pieces += [f'{"," if pieces else "{"}"{name}":', pc.fill_null(quoted, "null")]
    if not pieces:
        return pa.repeat(pa.scalar(""), len(adds))
    return pc.binary_join_element_wise(*pieces, "}", "")
