"""The parts of nested values: one level down, and at the leaves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from lakekeeper.columnar.types import parts_of

_STEPS = ((pa.types.is_struct, "."), (pa.types.is_list, ".list."), (pa.types.is_map, ".key_value."))


def parts(values: pa.Array) -> list[pa.Array]:
    """The fields of structs, NULL where the struct is; the elements of lists; the keys and the values of maps."""
    if pa.types.is_struct(values.type):
        return list(values.flatten())
    if pa.types.is_map(values.type):
        ends = values.offsets
        first, last = (ends[0].as_py(), ends[-1].as_py()) if len(values) else (0, 0)
        return [part.slice(first, last - first) for part in (values.keys, values.items)]
    return [values.flatten()] if pa.types.is_list(values.type) else []


def leaves(path: str, kind: pa.DataType, values: Sequence[pa.Array]) -> Iterator[tuple[str, pa.ChunkedArray]]:
    """(path in Parquet's schema, values) of each leaf of a column of this type."""
    inside = parts_of(kind)
    if not inside:
        yield path, pa.chunked_array(values, kind)
        return
    below = path + next(step for is_, step in _STEPS if is_(kind))
    split = [parts(chunk) for chunk in values]
    for number, part in enumerate(inside):
        yield from leaves(f"{below}{part.name}", part.type, [each[number] for each in split])
