from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lakekeeper.spark.parquet_codec import codec_of


class _JavaList(list[Any]):
    def size(self) -> int:
        return len(self)

    def get(self, at: int) -> Any:
        return self[at]


def _group(codecs: str) -> Any:
    chunks = [
        SimpleNamespace(getCodec=lambda name=name: SimpleNamespace(name=lambda: name))
        for name in codecs.split()
    ]
    return SimpleNamespace(getColumns=lambda: _JavaList(chunks))


@pytest.mark.parametrize(
    "groups, expected",
    [
        ([], None),
        (["SNAPPY SNAPPY"], "snappy"),
        (["UNCOMPRESSED ZSTD GZIP"], "zstd"),
        (["UNCOMPRESSED UNCOMPRESSED", "SNAPPY"], "uncompressed"),
        (["UNCOMPRESSED BROTLI"], None),
        (["LZ4_RAW"], None),
    ],
)
def test_codec_of_a_footer(groups: list[str], expected: str | None) -> None:
    footer = SimpleNamespace(getBlocks=lambda: _JavaList(map(_group, groups)))
    assert codec_of(footer) == expected
