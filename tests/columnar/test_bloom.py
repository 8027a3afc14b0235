"""Footers show which files lack a Bloom filter."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakekeeper.columnar.bloom import lacking
from lakekeeper.errors import AdapterError, Unsupported

ROWS = pa.table({"k": list(range(9_000)), "v": [f"v{i}" for i in range(9_000)]})
reports_filters = pytest.mark.skipif(
    not hasattr(pq.ColumnChunkMetaData, "bloom_filter_offset"), reason="this pyarrow reports no filters"
)


@reports_filters
def test_each_row_group_needs_its_filter(tmp_path: Path) -> None:
    plain, filtered, text = (str(tmp_path / name) for name in ("plain", "filtered", "text"))
    pq.write_table(ROWS, plain, row_group_size=3_000)
    pq.write_table(ROWS, filtered, row_group_size=3_000, bloom_filter_options={"v": {"ndv": 3_000}})
    Path(text).write_text("not Parquet, but long enough to have a footer")
    files = [(place, partial(str, place)) for place in (plain, filtered, text)]
    assert lacking("t", files, lambda _: ["v"]) == {plain}
    assert lacking("t", files, lambda schema: schema.names) == {plain, filtered}
    assert lacking("t", files, lambda _: ["dropped"]) == set()


@reports_filters
def test_a_file_that_cannot_be_read_is_an_error_that_names_the_table(tmp_path: Path) -> None:
    with pytest.raises(AdapterError, match=r"db\.t: footers .* could not be read"):
        lacking("db.t", [("gone", lambda: str(tmp_path / "gone"))], lambda _: ["v"])


def test_a_pyarrow_that_reports_no_filters_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakekeeper.columnar.bloom.pq.ColumnChunkMetaData", object)
    with pytest.raises(Unsupported, match=r"db\.t: unsupported: 'Bloom filters': .* newer one"):
        lacking("db.t", [], lambda _: ["v"])
