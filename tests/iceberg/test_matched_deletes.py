"""Which deletes apply to which data file, against Iceberg's rules taken one pair of files at a time."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from lakekeeper.core.model.blocks import UNKNOWN
from lakekeeper_iceberg.deletes import EQUALITY, apply_deletes
from lakekeeper_iceberg.listing import Listing
from tests.sampling import fewer

UNPARTITIONED = 9
PHYSICAL = 100
TIMES = {1: 1000, 2: 3000, 3: 2000}
EXPIRED = 4
Bound = bytes


@dataclass(frozen=True)
class Data:
    path: str
    seq: int
    file_seq: int
    spec: int
    partition: str
    rows: int = PHYSICAL


@dataclass(frozen=True)
class Delete:
    path: str
    seq: int
    spec: int
    partition: str
    content: int
    referenced: str | None
    rows: int
    snapshot_id: int
    bytes: int = 50
    dv_offset: int | None = None
    dv_bytes: int | None = None
    path_low: Bound | None = None
    path_high: Bound | None = None


_TEXT, _BINARY = ("path", "partition", "referenced"), ("path_low", "path_high")
places = st.sampled_from([(0, '{"p":1}'), (0, '{"p":2}'), (1, '{"p":1}'), (UNPARTITIONED, "{}")])
seqs = st.integers(1, 5)


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[Data], list[Delete]]:
    data = []
    for number in range(draw(st.integers(0, 6))):
        seq = draw(seqs)
        data.append(Data(f"d{number}", seq, draw(st.integers(seq, 5)), *draw(places)))
    deletes = []
    for number in range(draw(st.integers(0, 6))):
        target = f"d{draw(st.integers(0, 7))}"
        kind = draw(st.sampled_from(["vector", "referenced", "bounds", "positions", "equality"]))
        alone = kind in ("vector", "referenced", "bounds")
        bounds = target.encode() if kind == "bounds" else None
        deletes.append(
            Delete(
                path=f"x{number}",
                seq=draw(seqs),
                spec=(place := draw(places))[0],
                partition=place[1],
                content=EQUALITY if kind == "equality" else 1,
                referenced=target if alone and kind != "bounds" else None,
                rows=draw(st.sampled_from([1, 3, PHYSICAL + 1])),
                snapshot_id=draw(st.sampled_from([*TIMES, EXPIRED])),
                dv_offset=4 if kind == "vector" else None,
                dv_bytes=7 if kind == "vector" else None,
                path_low=bounds,
                path_high=bounds,
            )
        )
    vectors: set[str | None] = set()  # a data file has one
    kept = []
    for delete in deletes:
        if delete.dv_offset is not None:
            if delete.referenced in vectors:
                continue
            vectors.add(delete.referenced)
        kept.append(delete)
    return data, kept


def applies(delete: Delete, file: Data, vectors: set[str | None]) -> bool:
    """The table of :mod:`lakekeeper_iceberg.deletes`, for one delete file and one data file."""
    here = (delete.spec, delete.partition) == (file.spec, file.partition)
    if delete.content == EQUALITY:
        return file.seq < delete.seq and (here or delete.spec == UNPARTITIONED)
    if delete.dv_offset is not None:
        return delete.referenced == file.path
    if file.path in vectors:
        return False
    target = delete.referenced or (delete.path_low or b"").decode()
    if target:
        return target == file.path and file.seq <= delete.seq
    return here and max(file.seq, file.file_seq) <= delete.seq


@settings(max_examples=fewer(1000), deadline=None)
@given(tables())
def test_each_data_file_has_the_deletes_that_apply_to_it(table: tuple[list[Data], list[Delete]]) -> None:
    data, deletes = table
    columns = {name: [getattr(file, name) for file in data] for name in Data.__dataclass_fields__}
    files = pa.table({name: pa.array(values, type_of(name)) for name, values in columns.items()})
    schema = pa.schema([(name, type_of(name)) for name in Delete.__dataclass_fields__])
    listing = Listing(files, pa.Table.from_pylist(list(map(asdict, deletes)), schema))
    found = apply_deletes(listing, frozenset([UNPARTITIONED]), committed_at=TIMES)
    vectors = {each.referenced for each in deletes if each.dv_offset is not None}
    expected = [[each for each in deletes if applies(each, file, vectors)] for file in data]
    assert [bool(name) for name in found.delete_id] == [bool(some) for some in expected]
    sizes = [
        sum(each.bytes if each.dv_bytes is None else each.dv_bytes for each in some) for some in expected
    ]
    assert found.delete_bytes.tolist() == sizes
    assert found.deleted_rows.tolist() == [deleted(some) for some in expected]
    assert found.delete_files.tolist() == list(map(len, expected))
    assert found.delete_rows.tolist() == [sum(each.rows for each in some) for some in expected]
    assert found.deleted_at.tolist() == [min(map(came_at, some), default=0) for some in expected]
    by_id: dict[str, list[Delete]] = {}
    for name, some in zip(found.delete_id, expected, strict=True):
        assert by_id.setdefault(name, some) == some, "one id for two sets of deletes"
    assert np.asarray(found.deleted_rows).dtype == np.int64


def came_at(delete: Delete) -> int:
    """When a delete of several data files was committed. One of a single data file may have replaced earlier ones."""
    alone = delete.content != EQUALITY and (delete.referenced or delete.path_low)
    return 0 if alone else TIMES.get(delete.snapshot_id, 0)


def type_of(column: str) -> pa.DataType:
    """The type of a column of a listing."""
    return pa.string() if column in _TEXT else pa.binary() if column in _BINARY else pa.int64()


def deleted(some: list[Delete]) -> int:
    """Rows that the deletes of one file delete; known for one delete by position, of no more rows than the file has."""
    if not some:
        return 0
    alone = all(each.referenced or each.path_low for each in some)
    known = len(some) == 1 and alone and some[0].content != EQUALITY
    return some[0].rows if known and some[0].rows <= PHYSICAL else UNKNOWN
