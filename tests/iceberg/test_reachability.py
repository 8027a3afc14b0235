"""The key of a path is one for all spellings of a location."""

from __future__ import annotations

import pytest

from lakekeeper_iceberg.reachability import path_key, store_of


@pytest.mark.parametrize(
    "path, store",
    [
        ("s3a://bucket/t/data/f.parquet", "s3a://bucket/"),
        ("file:/t/data/f.parquet", "file:/"),
        ("file:///t/data/f.parquet", "file:///"),
        ("/t/data/f.parquet", "/"),
        ("s3://bucket//t/data//f.parquet", "s3://bucket//"),
        ("hdfs://nn:8020/t/./data/././f.parquet", "hdfs://nn:8020/"),
        ("/x/../t/a/b/../../data/f.parquet", "/"),
    ],
)
def test_all_spellings_of_a_location_have_one_key(path: str, store: str) -> None:
    assert path_key(path) == "t/data/f.parquet"
    assert store_of(path) == store


@pytest.mark.parametrize("path", ["/t/data/..f.parquet", "/t/data./f.parquet", "/t/.data/f.parquet"])
def test_dots_in_names_are_kept(path: str) -> None:
    assert path_key(path) == path[1:]
