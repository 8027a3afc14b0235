"""The target is a size in bytes: outputs have it for each codec of the inputs, which is kept, on both paths."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq
import pytest

from lakekeeper.core.model import plan
from tests.formats.lakes import Lake

CODECS = ("snappy", "zstd", "uncompressed")
_PROPERTY = "write.parquet.compression-codec"


def _of_codec(lake: Lake, codec: str, files: int, rows: int) -> str:
    """A table with overlapping files of this codec, which names none."""
    name = lake.create("id bigint, k int, v string, x double")
    _append(lake, name, codec, files, rows)
    lake.spark.sql(f"ALTER TABLE {name} UNSET TBLPROPERTIES IF EXISTS ('{_PROPERTY}')")
    return name


def _append(lake: Lake, name: str, codec: str, files: int, rows: int) -> None:
    made = ("id", "cast(pmod(hash(id), 100000) as int) k", "md5(cast(id as string)) v", "rand(1) x")
    frame = lake.spark.range(0, files * rows, 1, numPartitions=files).selectExpr(*made)
    writer: Any = frame.writeTo(name)
    writer.option("compression-codec" if lake.iceberg else "compression", codec).append()


def _codecs(lake: Lake, name: str) -> set[str]:
    """The codecs of the columns of the table's files."""
    found = set()
    for row in lake.table(name).blocks().collect():
        path = unquote(row.path.removeprefix("file:"))
        footer = pq.read_metadata(Path(path) if path.startswith("/") else lake.home(name) / path)
        group = footer.row_group(0)
        found |= {group.column(n).compression.lower() for n in range(group.num_columns)}
    return found


@pytest.mark.parametrize("codec", CODECS)
def test_outputs_have_the_target_size_and_the_codec_of_the_inputs(
    lake: Lake, merged_by: str, codec: str
) -> None:
    """Iceberg's writer cuts by bytes as it goes, so that the last file of the row path has what is left.

    It counts the bytes of unfinished pages as they are before compression: pages are small here, as they are in files
    of the default target.
    """
    name = _of_codec(lake, codec, 5, 30_000)
    rowwise = merged_by == "by rows"
    if lake.iceberg and rowwise:
        lake.spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('write.parquet.page-size-bytes'='8192')")
    rows, table = lake.fingerprint(name), lake.table(name)
    target = table.clustering_information(columns=["k"]).total_bytes // 5
    options = {"target-file-size-bytes": target}
    report = table.recluster("k", policy="full", options=options)
    assert [group.detail is not None for group in report.groups] == [rowwise]
    assert lake.fingerprint(name) == rows
    assert _codecs(lake, name) == {codec}
    sizes = sorted(row.bytes for row in table.blocks().collect())
    full = sizes[1:] if lake.iceberg and rowwise else sizes
    assert all(0.85 * target <= size <= 1.15 * target for size in full), (sizes, target)
    assert not table.compact(options=options).changed, "files of half the target are packed each time"
    assert not table.recluster("k", options=options, final=True).changed


def test_ranges_of_a_skewed_key_have_the_target_size(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut by the bounds of the files, as if rows were spread evenly between them, one range had nearly all rows."""
    monkeypatch.setattr(plan, "SORTED_BYTES", 1)
    name = lake.create("id bigint, k bigint, v string")
    made = ("id", "cast(exp(30 * rand(1)) as bigint) k", "md5(cast(id as string)) v")
    lake.spark.range(0, 100_000, 1, numPartitions=5).selectExpr(*made).writeTo(name).append()
    rows, table = lake.fingerprint(name), lake.table(name)
    target = table.clustering_information(columns=["k"]).total_bytes // 5
    options = {"target-file-size-bytes": target, "merge-engine": "spark"}
    table.recluster("k", policy="full", options=options)
    assert lake.fingerprint(name) == rows
    info, sizes = table.clustering_information(columns=["k"]), [row.bytes for row in table.blocks().collect()]
    assert (len(sizes), info.average_depth) == (5, 1)
    mean = sum(sizes) / 5  # the first merge of an Iceberg v3 table adds the ids of rows
    assert all(0.85 * mean <= size <= 1.15 * mean for size in sizes), sizes


def test_rows_of_a_little_more_than_the_target_make_one_file(lake: Lake, merged_by: str) -> None:
    """Of inputs that a merge has written: on Iceberg v3, the first one adds the ids of rows, a tenth of the bytes."""
    name = _of_codec(lake, "zstd", 4, 5_000)
    table = lake.table(name)

    def total() -> int:
        return table.clustering_information(columns=["k"]).total_bytes

    for targets in (3, 1.05):
        target = int(total() / targets)
        assert table.recluster("k", policy="full", options={"target-file-size-bytes": target}).changed
    assert len(table.blocks().collect()) == 1


def test_the_codec_of_the_largest_input_is_kept_unless_the_table_or_the_session_names_one(
    lake: Lake, merged_by: str
) -> None:
    name = _of_codec(lake, "snappy", 1, 50)
    _append(lake, name, "gzip", 1, 5_000)
    table = lake.table(name)
    assert table.recluster("k", policy="full").changed
    assert _codecs(lake, name) == {"gzip"}
    conf = f"spark.sql.{'iceberg.compression-codec' if lake.iceberg else 'parquet.compression.codec'}"
    lake.spark.conf.set(conf, "snappy")
    try:
        assert table.recluster("k", policy="full").changed
    finally:
        lake.spark.conf.unset(conf)
    assert _codecs(lake, name) == {"snappy"}
    if lake.iceberg:
        lake.spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('{_PROPERTY}'='zstd')")
        assert table.recluster("k", policy="full").changed
        assert _codecs(lake, name) == {"zstd"}
