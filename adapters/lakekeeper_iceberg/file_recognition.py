"""Names that only Iceberg writers give to files, by folder, name and kind. A pure function of the name.

data, below a data root
    Spark, Flink, Kafka      00000-1-<uuid>-00001.parquet    00000-1-<uuid>-0-00001-deletes.puffin
    pyiceberg                00000-0-<uuid>.parquet
    Trino                    20260102_030405_00006_abcde-<uuid>.parquet
metadata, directly in the metadata folder
    tables                   00001-<uuid>.metadata.json      <uuid>.metadata.json
    manifests and lists      <uuid>-m0.avro    optimized-m-<uuid>.avro    snap-<snapshot>-1-<uuid>.avro
    statistics               <snapshot>-<uuid>.stats         partition-stats-<snapshot>-<uuid>.parquet

A Flink job lists data files that it has not committed yet in manifests of its own in the metadata folder, as long as
it may recover: ``<job>-<operator>-00000-0-1-00001.avro``. No pattern here matches them; ``flink.py`` reads them.
"""

from __future__ import annotations

import re

_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_QUERY = r"\d{8}_\d{6}_\d{5}_[a-z0-9]{5}"
_DATA = re.compile(
    rf"\d{{5,}}-\d+-{_UUID}(?:-\d+)?-\d{{5,}}(?:-deletes)?\.(?:parquet|orc|avro|puffin)"
    rf"|\d{{5,}}-\d+-{_UUID}\.(?:parquet|orc|avro)"
    rf"|{_QUERY}-{_UUID}\.(?:parquet|orc|avro|puffin)"
)
_METADATA = re.compile(
    rf"(?:\d{{5,}}-)?{_UUID}(?:\.gz)?\.metadata\.json(?:\.gz)?"
    rf"|{_UUID}-m\d+\.avro|optimized-m-{_UUID}\.avro"
    rf"|snap-\d+-\d+-{_UUID}\.avro"
    rf"|(?:\d+|{_QUERY})-{_UUID}\.stats"
    rf"|partition-stats-\d+-{_UUID}\.(?:parquet|orc|avro)"
)


def is_data(name: str) -> bool:
    """Whether this is the name of a data file or delete file."""
    return _DATA.fullmatch(name) is not None


def is_metadata(name: str) -> bool:
    """Whether this is the name of a metadata file."""
    return _METADATA.fullmatch(name) is not None
