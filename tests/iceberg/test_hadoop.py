"""A Hadoop catalog on S3 or Google Cloud Storage loses commits of concurrent drivers: none is made undeclared."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lakekeeper.core.config.options import resolve
from lakekeeper.errors import Unsupported
from lakekeeper.spi import TableName
from lakekeeper_iceberg.table import IcebergTable


def table(operations: str, location: str) -> IcebergTable:
    """The adapter of a table of which only the catalog and the location are read."""
    kind = SimpleNamespace(getName=lambda: f"org.apache.iceberg.{operations}")
    java: Any = SimpleNamespace(
        operations=lambda: SimpleNamespace(getClass=lambda: kind, io=lambda: None), location=lambda: location
    )
    jvm: Any = SimpleNamespace()
    return IcebergTable(jvm, TableName("db.t", "iceberg", "db.t"), java)


@pytest.mark.parametrize(
    "scheme, store", [("s3", "S3"), ("s3a", "S3"), ("S3N", "S3"), ("gs", "Google Cloud Storage")]
)
def test_a_hadoop_catalog_on_s3_is_refused(scheme: str, store: str) -> None:
    adapter = table("hadoop.HadoopTableOperations", f"{scheme}://bucket/t")
    refused = rf"Hadoop catalog on {store}.*spark\.lakekeeper\.single-driver=true"
    with pytest.raises(Unsupported, match=refused):
        adapter.require_writable(resolve({}))
    with pytest.raises(Unsupported):
        adapter.require_writable(resolve({}, properties={"lakekeeper.single-driver": "true"}))
    adapter.require_writable(resolve({"single-driver": True}))
    adapter.require_writable(resolve({}, {"spark.lakekeeper.single-driver": "true"}))


@pytest.mark.parametrize(
    "operations, location",
    [
        ("hadoop.HadoopTableOperations", "hdfs://name/t"),
        ("hadoop.HadoopTableOperations", "file:/t"),
        ("jdbc.JdbcTableOperations", "s3://bucket/t"),
        ("jdbc.JdbcTableOperations", "gs://bucket/t"),
        ("rest.RESTTableOperations", "s3://bucket/t"),
        ("aws.glue.GlueTableOperations", "s3://bucket/t"),
    ],
)
def test_catalogs_that_swap_atomically_are_not(operations: str, location: str) -> None:
    table(operations, location).require_writable(resolve({}))
