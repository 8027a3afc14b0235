"""The kind of a file that only an earlier vacuum's list names."""

from __future__ import annotations

import pytest

from lakekeeper_iceberg.garbage import kind_of

UUID = "0c6d8a4e-3f51-4a83-9f0e-5a7f6a3c2b1d"


@pytest.mark.parametrize(
    "name, kind",
    [
        (f"data/00000-1-{UUID}-00001.parquet", "data"),
        (f"data/00000-1-{UUID}-0-00001-deletes.puffin", "deletes"),
        (f"metadata/{UUID}-m0.avro", "manifest"),
        (f"metadata/optimized-m-{UUID}.avro", "manifest"),
        (f"metadata/snap-8230-1-{UUID}.avro", "manifest list"),
        (f"metadata/8230-{UUID}.stats", "statistics"),
        (f"metadata/partition-stats-8230-{UUID}.parquet", "statistics"),
        (f"metadata/00001-{UUID}.metadata.json", ""),
        ("metadata/version-hint.text", ""),
    ],
)
def test_a_kind_by_the_name_alone(name: str, kind: str) -> None:
    """Manifests that ``compact_metadata`` had written counted as data, which is deleted from no metadata folder."""
    assert kind_of(f"s3://bucket/t/{name}") == kind
