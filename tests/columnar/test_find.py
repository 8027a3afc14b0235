"""The columnar search against brute force: each lost row gets its own position, or the search declines."""

from __future__ import annotations

import cProfile
import datetime as dt
import io
import itertools
import pstats
import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakekeeper.columnar.find import Identity, Lost, Source, Written, find
from lakekeeper.columnar.parquet import Bounds, Column, ParquetFile
from lakekeeper.columnar.rows import Budget
from lakekeeper.columnar.values import Declined
from tests.sampling import fewer

NAN, OTHER_NAN = float("nan"), struct.unpack("<d", struct.pack("<Q", 0x7FF8000000000001))[0]
_UTC = dt.timezone.utc
DAYS = (dt.date(1900, 1, 2), dt.date(2024, 2, 29), dt.date(9999, 12, 31))
TIMESTAMPS = (dt.datetime(1900, 1, 3, tzinfo=_UTC), dt.datetime(2024, 1, 1, 0, 0, 0, 1, tzinfo=_UTC))
NESTED = pa.struct([("x", pa.float64()), ("y", pa.struct([("z", pa.string())]))])
ONE = pa.struct([("x", pa.int64())])
ONE_DEEP = pa.struct([("x", pa.struct([("y", pa.int64())]))])
KINDS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int8(): st.integers(-2, 2),
    pa.int16(): st.integers(-12, 12),  # enough values for a search by hash table
    pa.int32(): st.integers(-3, 3),
    pa.int64(): st.sampled_from([0, 1, -(2**63), 2**63 - 1]),
    pa.bool_(): st.booleans(),
    pa.float32(): st.sampled_from([0.0, -0.0, NAN, 1.5, float("inf")]),
    pa.float64(): st.sampled_from([0.0, -0.0, NAN, OTHER_NAN, 1.5, -float("inf")]),
    pa.decimal128(9, 2): st.sampled_from([Decimal("1.20"), Decimal("-1.20"), Decimal("0.00")]),
    pa.decimal128(18, 0): st.sampled_from([Decimal(10**18 - 1), Decimal(1 - 10**18), Decimal(0)]),
    pa.decimal128(38, 3): st.sampled_from([Decimal("1e34"), Decimal("-1e34"), Decimal(2**64)]),
    pa.string(): st.sampled_from(["", "a", "é", "a\0", "\U0001f600", "z" * 70]),
    pa.binary(): st.sampled_from([b"", b"\x00", b"\xff", b"a"]),
    pa.binary(3): st.sampled_from([b"abc", b"\xff\x00\x01"]),
    pa.large_string(): st.sampled_from(["", "a", "é", "a\0"]),
    pa.large_binary(): st.sampled_from([b"", b"\x00", b"\xff"]),
    pa.date32(): st.sampled_from(DAYS),
    pa.timestamp("us", "UTC"): st.sampled_from(TIMESTAMPS),
    pa.timestamp("us", "Europe/Berlin"): st.sampled_from(TIMESTAMPS),
    NESTED: st.fixed_dictionaries(
        {"x": st.sampled_from([None, -0.0, 0.0]), "y": st.sampled_from([None, {"z": None}, {"z": "q"}])}
    ),
    ONE: st.fixed_dictionaries({"x": st.none() | st.integers(0, 4)}),
    ONE_DEEP: st.fixed_dictionaries(
        {"x": st.none() | st.fixed_dictionaries({"y": st.none() | st.integers(0, 4)})}
    ),
}


@dataclass
class Disk:
    """Parquet files in memory, by name; ``opened`` counts how often each was opened."""

    files: dict[str, bytes] = field(default_factory=dict)
    opened: Counter[str] = field(default_factory=Counter)

    def write(self, name: str, table: pa.Table, group: int, **how: Any) -> None:
        sink = io.BytesIO()
        pq.write_table(table, sink, row_group_size=group, **how)
        self.files[name] = sink.getvalue()

    def source(self, name: str) -> Source:
        def opened() -> io.BytesIO:
            self.opened[name] += 1
            return io.BytesIO(self.files[name])

        return Source(name, opened)


def token(value: Any) -> Any:
    """Equal for interchangeable values, and only for these."""
    if isinstance(value, float):
        return "nan" if value != value else struct.pack("<d", value)  # noqa: PLR0124  # NaN alone differs from itself
    if isinstance(value, dict):
        return tuple((name, token(item)) for name, item in value.items())
    return (type(value).__name__, value)


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(token(value) for value in row.values()) for row in table.to_pylist()]


def identity_of(table: pa.Table, key: Sequence[str] = (), *, whole: bool = True) -> Identity:
    columns = tuple(Column(((name, None),)) for name in table.column_names)
    return Identity(columns, whole, tuple(Column(((name, None),)) for name in key))


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    kinds = draw(st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=4))
    count = draw(st.integers(1, 24))
    columns = [
        pa.array(draw(st.lists(st.none() | KINDS[kind], min_size=count, max_size=count)), kind)
        for kind in kinds
    ]
    return pa.table(columns, names=[f"c{i}" for i in range(len(kinds))])


@given(tables(), st.data())
@settings(max_examples=fewer(250), deadline=None)
def test_each_lost_row_is_found_at_its_own_position(table: pa.Table, data: st.DataObject) -> None:
    """Inputs cut anywhere, outputs in any order of the rows; some rows were masked before, and some are lost now."""
    disk, count = Disk(), table.num_rows
    cuts = sorted({0, count, *data.draw(st.lists(st.integers(0, count), max_size=2))})
    inputs = [f"in{i}" for i in range(len(cuts) - 1)]
    integers = data.draw(st.booleans(), "decimals as integers")
    for name, start, stop in zip(inputs, cuts, cuts[1:], strict=False):
        group = data.draw(st.integers(1, 8))
        disk.write(name, table.slice(start, stop - start), group, store_decimal_as_integer=integers)
    order = data.draw(st.permutations(range(count)))
    by_key = data.draw(st.booleans(), "sorted")
    tokens = rows_of(table)
    if by_key:
        order = sorted(order, key=lambda i: repr(tokens[i][0]))
    half = data.draw(st.integers(0, count))
    outputs = {"out0": order[:half], "out1": order[half:]}
    for name, here in outputs.items():
        group = data.draw(st.integers(1, 8))
        disk.write(name, table.take(pa.array(here, pa.int64())), group, store_decimal_as_integer=integers)
    gone = data.draw(st.sets(st.integers(0, count - 1), max_size=count - 1), "masked")
    lost = data.draw(st.sets(st.sampled_from(sorted(set(range(count)) - gone)), min_size=1), "lost")

    taken = [
        Lost(disk.source(name), np.array([i - start for i in sorted(lost) if start <= i < stop], np.int64))
        for name, start, stop in zip(inputs, cuts, cuts[1:], strict=False)
    ]
    written = [
        Written(disk.source(name), np.array([at for at, i in enumerate(here) if i in gone], np.int64))
        for name, here in outputs.items()
    ]
    key = [] if pa.types.is_struct(table.schema.field("c0").type) else ["c0"]
    found = find(taken, written, identity_of(table, key if by_key else ()), {})

    hits = [outputs[name][at] for name, positions in found.items() for at in positions.tolist()]
    assert len(hits) == len(set(hits)) == len(lost)
    assert not set(hits) & gone
    assert Counter(tokens[i] for i in hits) == Counter(tokens[i] for i in lost)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=fewer(250), deadline=None)
def test_a_struct_of_one_field_excludes_no_row_group(seed: int) -> None:
    """Its only leaf has bounds, but a lost row is first compared by whether its struct is NULL."""
    rng, disk = np.random.default_rng(seed), Disk()
    count = int(rng.integers(6, 30))
    numbers = np.sort(rng.integers(-1, 5, count)).tolist()
    structs = pa.array([None if x < 0 else {"x": x} for x in numbers], ONE)
    table = pa.table({"s": structs, "v": rng.integers(0, 4, count)})
    disk.write("in", table, 4)
    cuts = sorted({0, count, *rng.integers(1, count, 3).tolist()})
    for start, stop in itertools.pairwise(cuts):
        disk.write(str(start), table.slice(start, stop - start), int(rng.integers(2, 6)))
    written = [Written(disk.source(str(start)), np.zeros(0, np.int64)) for start in cuts[:-1]]
    lost = np.sort(rng.choice(count, rng.integers(1, 4), replace=False))
    found = find([Lost(disk.source("in"), lost)], written, identity_of(table), {})
    hits = [int(name) + at for name, positions in found.items() for at in positions.tolist()]
    tokens = rows_of(table)
    assert Counter(tokens[i] for i in hits) == Counter(tokens[i] for i in lost)


def test_a_row_is_not_taken_for_another_by_a_struct_of_one_field() -> None:
    """Two rows agree in ``s``; only the bounds of the other one's row group include 1, as if ``s`` were a boolean."""
    numbers = [0, 1, 2, 3, 3, 4, 5, 6, 100, 101, 102, 103]
    values = [20, 10, 0, 30, 31, 21, 11, 1, 22, 12, 2, 32]
    table, disk = pa.table({"s": pa.array([{"x": x} for x in numbers], ONE), "v": values}), Disk()
    disk.write("in", table, 10)
    disk.write("out", table, 4)
    lost, written = Lost(disk.source("in"), np.array([4])), Written(disk.source("out"), np.zeros(0, np.int64))
    assert find([lost], [written], identity_of(table), {})["out"].tolist() == [4]


@pytest.mark.parametrize(
    "values, known",
    [
        (pa.array([3, 5]), True),
        (pa.array([{"x": 3}, {"x": 5}], ONE), False),
        (pa.array([{"x": {"y": 3}}, None], ONE_DEEP), False),
        (pa.array([[3], [5]], pa.list_(pa.int64())), False),
        (pa.array([[(3, 5)], []], pa.map_(pa.int64(), pa.int64())), False),
    ],
    ids=["flat", "struct", "struct of a struct", "list", "map"],
)
def test_only_a_flat_column_has_bounds(values: pa.Array, known: bool) -> None:
    disk = Disk()
    disk.write("in", pa.table({"v": values}), 10)
    file = ParquetFile(disk.source("in").open)
    for nested in (True, False):
        try:
            leaves = file.find(Column((("v", None),)), nested=nested)
        except Declined:  # a list or a map is not compared
            continue
        bounds = file.bounds(0, leaves)
        assert (bounds.lo, bounds.hi) == ((3, 5) if known and not nested else (None, None))


def test_a_field_of_a_struct_has_bounds() -> None:
    """A key in a struct limits the search by them."""
    disk = Disk()
    disk.write("in", pa.table({"s": pa.array([{"x": 3}, {"x": 5}], ONE)}), 10)
    file = ParquetFile(disk.source("in").open)
    assert file.bounds(0, file.find(Column((("s", None), ("x", None))))) == Bounds(3, 5, 0)


def sorted_table(count: int = 1000) -> pa.Table:
    numbers = np.arange(count, dtype=np.int64)
    return pa.table({"id": numbers * 7919 % count, "k": numbers, "v": [f"v{i % 3}" for i in range(count)]})


@dataclass
class Files:
    """One input in the order of ``id``, outputs in the order of ``k``, with row groups of ten rows."""

    disk: Disk
    table: pa.Table
    by_id: pa.Table

    @classmethod
    def of(cls, table: pa.Table) -> Files:
        disk, by_id = Disk(), table.sort_by("id")
        disk.write("in", by_id, 10)
        disk.write("out", table, 10)
        return cls(disk, table, by_id)

    def find(
        self, positions: Sequence[int], budget: Budget | None = None, **how: Any
    ) -> dict[str, list[int]]:
        lost = [Lost(self.disk.source("in"), np.array(positions, np.int64))]
        identity = identity_of(self.table, ["k"])
        found = find(
            lost, [Written(self.disk.source("out"), np.array([], np.int64))], identity, {}, budget, **how
        )
        return {name: at.tolist() for name, at in found.items()}

    def ids(self, found: dict[str, list[int]]) -> list[int]:
        """The column ``id`` at the positions found, ascending; in the input a row's ``id`` is its position."""
        return sorted(self.table["id"].take(pa.array(found.get("out", []), pa.int64())).to_pylist())


def test_lost_rows_of_one_input_do_not_exclude_row_groups_that_hold_those_of_another() -> None:
    """Lost rows of the first input are in 19 of 20 row groups; the one of the second is in the last.

    A row group that is read has a live row with the same key, which must not count as the lost row.
    """
    keys, ids = [*range(37), 38, 38, 39], [*range(37), 100, 200, 300]
    table, disk = pa.table({"k": keys, "id": ids}), Disk()
    disk.write("first", table.slice(0, 38), 10)
    disk.write("second", table.slice(38), 10)
    disk.write("out", table, 2)
    lost = [
        Lost(disk.source("first"), np.arange(0, 38, 2)),
        Lost(disk.source("second"), np.array([0])),
    ]
    written = Written(disk.source("out"), np.zeros(0, np.int64))
    found = find(lost, [written], identity_of(table, ["k"]), {})
    assert found["out"].tolist() == [*range(0, 38, 2), 38]


def test_only_row_groups_that_can_hold_a_lost_row_are_read() -> None:
    files = Files.of(sorted_table())
    budget = Budget(1 << 30)
    assert files.ids(files.find([5, 500, 905], budget)) == [5, 500, 905]
    assert budget.groups <= 9, "of a hundred each: three of the input, at most twice, and three of the output"


def test_what_is_read_does_not_grow_with_the_table() -> None:
    read = []
    for count in (1_000, 20_000):
        files, budget = Files.of(sorted_table(count)), Budget(1 << 30)
        assert files.ids(files.find([5, 500, 905], budget)) == [5, 500, 905]
        read.append(budget.groups)
    assert read[0] == read[1]


def test_a_budget_of_bytes_is_kept() -> None:
    with pytest.raises(Declined, match="bytes"):
        Files.of(sorted_table()).find([5], Budget(10))


@pytest.mark.parametrize("texts", [[letter * 2_000 for letter in "abcd"], ["a", "b", "c" * 8_000, "d"]])
def test_a_column_that_takes_too_much_memory_is_declined(texts: list[str]) -> None:
    """Texts of 2,000 bytes in a dictionary take a few bytes of the file each, and 2,000 in memory.

    The bounds of a column showed no long text between short ones.
    """
    rows = 5_000
    values = pa.DictionaryArray.from_arrays(pa.array(np.arange(rows) % 4, pa.int32()), texts)
    table, disk = pa.table({"v": np.arange(rows) // 4, "t": values}), Disk()
    for name in ("in", "out"):
        disk.write(name, table, rows, store_schema=False)
    assert len(disk.files["out"]) < 100_000
    lost, written = Lost(disk.source("in"), np.array([3])), Written(disk.source("out"), np.zeros(0, np.int64))
    with pytest.raises(Declined, match="memory"):
        find([lost], [written], identity_of(table), {}, Budget(1 << 30, most_decoded=4 << 20))
    budget = Budget(1 << 30, most_decoded=16 << 20)
    assert find([lost], [written], identity_of(table), {}, budget)["out"].tolist() == [3]


def test_columns_that_do_not_fit_together_are_read_one_by_one() -> None:
    rows = 1_000
    columns = {f"c{i}": np.full(rows, 1) for i in range(8)}
    table, disk = pa.table({**columns, "last": np.arange(rows) // 500}), Disk()
    for name in ("in", "out"):
        disk.write(name, table, rows)
    lost, written = (
        Lost(disk.source("in"), np.array([600])),
        Written(disk.source("out"), np.zeros(0, np.int64)),
    )
    budget = Budget(1 << 30, most_decoded=rows * 16)
    assert find([lost], [written], identity_of(table), {}, budget)["out"].tolist() == [500]


def test_threads_wait_until_what_others_decoded_is_released() -> None:
    table, disk = sorted_table(10_000), Disk()
    disk.write("in", table, 10_000)
    outputs = [f"out{i}" for i in range(8)]
    for number, name in enumerate(outputs):
        disk.write(name, table.slice(1_250 * number, 1_250), 1_250)
    written = [Written(disk.source(name), np.zeros(0, np.int64)) for name in outputs]
    lost = Lost(disk.source("in"), np.arange(0, 10_000, 500))
    budget = Budget(1 << 30, most_decoded=10_000 * 16)
    found = find([lost], written, identity_of(table), {}, budget)
    assert sum(map(len, found.values())) == 20


def calls_to_locate(columns: int) -> int:
    """Calls of functions that it takes to locate all columns of a file."""
    disk, names = Disk(), [f"c{i}" for i in range(columns)]
    disk.write("in", pa.table([[1]] * columns, names=names), 10)
    file, profile = ParquetFile(disk.source("in").open), cProfile.Profile()
    profile.runcall(lambda: [file.type_of(file.find(Column(((name, None),)))) for name in names])
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]  # of typeshed


def test_columns_are_located_in_a_schema_that_is_walked_once() -> None:
    assert calls_to_locate(400) <= 5 * calls_to_locate(100)


def test_footers_are_read_once() -> None:
    files = Files.of(sorted_table(100))
    lost, written = (
        Lost(files.disk.source("in"), np.array([3])),
        Written(files.disk.source("out"), np.zeros(0, np.int64)),
    )
    footers: dict[str, pq.FileMetaData] = {}
    for _ in range(2):
        find([lost], [written], identity_of(files.table, ["k"]), footers)
    assert set(footers) == {"in", "out"}


def test_a_position_beyond_the_end_is_declined() -> None:
    with pytest.raises(Declined, match="beyond the end"):
        Files.of(sorted_table(100)).find([100])


def test_a_row_that_the_outputs_do_not_hold_is_declined() -> None:
    """Outputs that lack a row are not the rewrite's outputs: the search must not claim a match."""
    files = Files.of(sorted_table(100))
    files.disk.write("out", files.table.filter(pc.not_equal(files.table["id"], 7)), 10)
    with pytest.raises(Declined, match="not among"):
        files.find([7])


def test_fewer_copies_than_lost_rows_are_declined() -> None:
    table = pa.table({"id": [0, 1, 2], "k": [1, 1, 2]})
    files = Files.of(table.select(["k"]).append_column("id", table["id"]))
    disk = files.disk
    disk.write("in", pa.table({"k": [1, 1, 2]}), 10)
    disk.write("out", pa.table({"k": [1, 2]}), 10)
    lost, written = (
        Lost(disk.source("in"), np.array([0, 1])),
        Written(disk.source("out"), np.zeros(0, np.int64)),
    )
    with pytest.raises(Declined, match="not among"):
        find([lost], [written], identity_of(pa.table({"k": [1]})), {})


DAY, TIMESTAMP = dt.date(1899, 12, 31), dt.datetime(1899, 1, 1, tzinfo=_UTC)
OTHERS: dict[str, tuple[pa.Array, dict[str, Any]]] = {
    "list": (pa.array([[1], [1]], pa.list_(pa.int64())), {}),
    "map": (pa.array([[("a", 1)], [("a", 1)]], pa.map_(pa.string(), pa.int64())), {}),
    "struct of a list": (pa.array([{"x": [1]}, {"x": [1]}]), {}),
    "unsigned": (pa.array([1, 1], pa.uint64()), {}),
    "nanoseconds": (pa.array([1, 1], pa.timestamp("ns")), {"version": "2.6"}),
    "int96 of another writer": (pa.array([TIMESTAMP, TIMESTAMP]), {"use_deprecated_int96_timestamps": True}),
    "time of day": (pa.array([dt.time(1), dt.time(1)]), {}),
    "half float": (pa.array([np.float16(1), np.float16(1)]), {}),
    "day before 1900": (pa.array([DAY, DAY]), {}),
    "timestamp before 1900": (pa.array([TIMESTAMP, TIMESTAMP], pa.timestamp("us", "UTC")), {}),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("alone", [True, False], ids=["alone", "beside a constant column"])
def test_types_that_cannot_be_compared_exactly_are_declined(
    other: tuple[pa.Array, dict[str, Any]], alone: bool
) -> None:
    """Two rows that differ in nothing else: only a scan can find out which one is lost."""
    values, how = other
    table = pa.table({"v": values} if alone else {"same": [1, 1], "v": values})
    disk = Disk()
    for name in ("in", "out"):
        disk.write(name, table, 10, **how)
    lost, written = Lost(disk.source("in"), np.array([0])), Written(disk.source("out"), np.zeros(0, np.int64))
    with pytest.raises(Declined):
        find([lost], [written], identity_of(table), {})


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_a_column_that_distinguishes_rows_replaces_one_that_cannot_be_compared(
    other: tuple[pa.Array, dict[str, Any]],
) -> None:
    values, how = other
    table, disk = pa.table({"v": values, "k": [1, 2]}), Disk()
    disk.write("in", table, 10, **how)
    disk.write("out", table.take([1, 0]), 10, **how)
    lost, written = Lost(disk.source("in"), np.array([0])), Written(disk.source("out"), np.zeros(0, np.int64))
    found = find([lost], [written], identity_of(table), {})
    assert {name: at.tolist() for name, at in found.items()} == {"out": [1]}


CHANGED: dict[str, tuple[pa.Table, pa.Table]] = {
    "a column was added": (pa.table({"k": [1, 1]}), pa.table({"k": [1, 1], "v": [5, 5]})),
    "a column has another name": (pa.table({"k": [1, 1], "u": [5, 6]}), pa.table({"k": [1, 1], "v": [5, 6]})),
    "a column was widened": (
        pa.table({"k": [1, 1], "v": pa.array([5, 6], pa.int32())}),
        pa.table({"k": [1, 1], "v": pa.array([5, 6], pa.int64())}),
    ),
    "a decimal has another scale": (
        pa.table({"k": [1, 1], "v": pa.array([Decimal("1.0")] * 2, pa.decimal128(9, 1))}),
        pa.table({"k": [1, 1], "v": pa.array([Decimal("1.00")] * 2, pa.decimal128(9, 2))}),
    ),
    "a timestamp lost its zone": (
        pa.table({"k": [1, 1], "v": pa.array([TIMESTAMPS[1]] * 2, pa.timestamp("us", "UTC"))}),
        pa.table({"k": [1, 1], "v": pa.array([TIMESTAMPS[1]] * 2, pa.timestamp("us"))}),
    ),
}


@pytest.mark.parametrize("files", CHANGED.values(), ids=CHANGED)
def test_a_column_that_files_store_differently_is_not_compared(files: tuple[pa.Table, pa.Table]) -> None:
    """A default, another type: the stored values cannot be compared, and no other column distinguishes the rows."""
    disk = Disk()
    for name, table in zip(("in", "out"), files, strict=True):
        disk.write(name, table, 10)
    lost, written = Lost(disk.source("in"), np.array([0])), Written(disk.source("out"), np.zeros(0, np.int64))
    with pytest.raises(Declined, match="cannot be distinguished"):
        find([lost], [written], identity_of(files[1]), {})


def test_columns_that_are_left_out_do_not_count_as_equal() -> None:
    """``whole=False``: rows that agree in the named columns may differ in the others."""
    table, disk = pa.table({"k": [1, 1]}), Disk()
    for name in ("in", "out"):
        disk.write(name, table, 10)
    lost, written = Lost(disk.source("in"), np.array([0])), Written(disk.source("out"), np.zeros(0, np.int64))
    assert find([lost], [written], identity_of(table), {})["out"].tolist() == [0]
    with pytest.raises(Declined, match="cannot be distinguished"):
        find([lost], [written], identity_of(table, whole=False), {})


def with_ids(ids: Sequence[int | None], values: Sequence[int]) -> pa.Table:
    return pa.table({"_id": pa.array(ids, pa.int64()), "v": values})


@pytest.mark.parametrize("stored, first", [([7, None, 9], 20), ([7, 21, 9], None)])
def test_row_ids_are_stored_or_follow_from_the_position(stored: list[int | None], first: int | None) -> None:
    disk = Disk()
    disk.write("in", with_ids(stored, [1, 1, 1]), 10)
    disk.write("out", with_ids([9, 21, 7], [1, 1, 1]), 10)
    identity = Identity((), whole=False, row_id=Column((("_id", None),)))
    lost = Lost(disk.source("in"), np.array([1, 2]), first)
    found = find([lost], [Written(disk.source("out"), np.zeros(0, np.int64))], identity, {})
    assert found["out"].tolist() == [0, 1]


@pytest.mark.parametrize("first", [30, None])
def test_row_ids_of_several_inputs(first: int | None) -> None:
    """One input stores every id, one stores some, and one has no such column: its ids follow from its first row."""
    disk = Disk()
    disk.write("all", with_ids([7, 8, 9], [1, 1, 1]), 2)
    disk.write("some", with_ids([None, 5, None], [1, 1, 1]), 2)
    disk.write("none", pa.table({"v": [1, 1, 1]}), 2)
    disk.write("out", with_ids([5, 7, 8, 9, 20, 22, 30, 31, 32], [1] * 9), 4)
    identity = Identity((), whole=False, row_id=Column((("_id", None),)))
    lost = [
        Lost(disk.source("none"), np.array([2, 0]), first),
        Lost(disk.source("all"), np.array([1])),
        Lost(disk.source("some"), np.array([2, 1]), 20),
    ]
    written = [Written(disk.source("out"), np.zeros(0, np.int64))]
    if first is None:
        with pytest.raises(Declined):
            find(lost, written, identity, {})
    else:
        assert find(lost, written, identity, {})["out"].tolist() == [0, 2, 5, 6, 8]


@pytest.mark.parametrize("ids", [[7, 7], [7, None]], ids=["twice", "unknown"])
def test_row_ids_that_identify_no_row_are_declined(ids: list[int | None]) -> None:
    disk = Disk()
    disk.write("in", with_ids(ids, [1, 1]), 10)
    disk.write("out", with_ids([7, 8], [1, 1]), 10)
    identity = Identity((), whole=False, row_id=Column((("_id", None),)))
    lost, written = (
        Lost(disk.source("in"), np.array([0, 1])),
        Written(disk.source("out"), np.zeros(0, np.int64)),
    )
    with pytest.raises(Declined):
        find([lost], [written], identity, {})
