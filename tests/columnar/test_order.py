"""What a search reads, and in which order: no more columns and row groups than needed."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakekeeper.columnar.find import Identity, Lost, Source, Written, find
from lakekeeper.columnar.parquet import Column, Leaves, ParquetFile

ROWS, INPUTS, GROUP = 2_000, 4, 250
NONE = np.zeros(0, np.int64)


def file_of(table: pa.Table, group: int = GROUP, *, plain: bool = True) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=group, use_dictionary=not plain)
    return sink.getvalue()


def columns() -> pa.Table:
    """``twin``: two rows for each value. ``far``: values far apart, some of them twice. ``id``: numbers the rows."""
    rng = np.random.default_rng(3)
    far = rng.integers(0, 100 * ROWS, ROWS)
    far[1::100] = far[::100]
    return pa.table({"twin": np.arange(ROWS) // 2, "far": far, "id": rng.permutation(ROWS)})


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """(column, row group) of each read."""
    seen: list[tuple[str, int]] = []
    real = ParquetFile.read

    def read(
        self: ParquetFile, group: int, wanted: Sequence[Leaves], upto: int | None = None
    ) -> list[pa.Array]:
        seen.extend((leaves.path[0], group) for leaves in wanted)
        return real(self, group, wanted, upto)

    monkeypatch.setattr(ParquetFile, "read", read)
    return seen


def search(table: pa.Table, lost: Sequence[int]) -> list[int]:
    """The ``id`` of the rows found for these lost rows, which are spread randomly over the inputs."""
    order = np.random.default_rng(5).permutation(table.num_rows)
    inputs = np.array_split(order, INPUTS)
    by_far = table.sort_by("far")
    out = file_of(by_far)
    gone = [
        Lost(
            Source(f"in{i}", lambda rows=rows: io.BytesIO(file_of(table.take(pa.array(rows))))),  # type: ignore[misc]
            np.flatnonzero(np.isin(rows, lost)),
        )
        for i, rows in enumerate(inputs)
    ]
    names = tuple(Column(((name, None),)) for name in table.column_names)
    identity = Identity(names, whole=True, key=(Column((("far", None),)),))
    found = find(gone, [Written(Source("out", lambda: io.BytesIO(out)), NONE)], identity, {})
    return sorted(by_far["id"].take(pa.array(found["out"])).to_pylist())


def test_rows_lost_everywhere_are_found_by_one_column_that_distinguishes_them(
    reads: list[tuple[str, int]],
) -> None:
    table = columns()
    lost = list(range(0, ROWS, 10))
    assert search(table, lost) == sorted(table["id"].take(pa.array(lost)).to_pylist())
    read = Counter(column for column, _ in reads)
    groups = ROWS // GROUP
    assert read["far"] <= groups // INPUTS + 1, "the key of one input shows that no row group can be left out"
    assert read["id"] == 2 * groups, "each row group of inputs and outputs once"
    assert read["twin"] == 0, "a column with fewer values than rows cannot distinguish them"


def test_rows_lost_in_one_range_of_the_key_are_searched_only_there(reads: list[tuple[str, int]]) -> None:
    table = columns()
    lost = np.flatnonzero(table["far"].to_numpy() < 5 * ROWS).tolist()
    assert len(lost) > 50
    assert search(table, lost) == sorted(table["id"].take(pa.array(lost)).to_pylist())
    inputs = 2 * INPUTS  # two row groups in each
    assert len(reads) <= 2 * inputs + 2 * 2 + ROWS // GROUP // INPUTS, (
        "the key and the id, and the key of one input"
    )


@pytest.mark.parametrize("upto", [1, 65_536, 65_537, 100_000, 199_999, 200_000])
def test_reading_the_first_rows_equals_the_start_of_the_whole_row_group(upto: int) -> None:
    values = np.random.default_rng(upto).integers(0, 10**9, 200_000)
    nested = pa.StructArray.from_arrays([pa.array(values), pa.array(values % 7)], names=["x", "y"])
    data = file_of(pa.table({"k": values, "s": nested}), group=200_000, plain=False)
    file = ParquetFile(lambda: io.BytesIO(data))
    leaves = [file.find(Column((("k", None),))), file.find(Column((("s", None), ("y", None))))]
    k, y = file.read(0, leaves, upto)
    assert upto <= len(k) <= min(200_000, upto + 65_536)
    assert k.to_numpy()[:upto].tolist() == values[:upto].tolist()
    assert y.to_numpy()[:upto].tolist() == (values[:upto] % 7).tolist()
