"""A Hadoop catalog loses commits of concurrent drivers where a rename may replace a file: none is made undeclared."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lakekeeper.core.config.options import resolve
from lakekeeper.errors import Unsupported
from lakekeeper.spi import TableName
from lakekeeper_iceberg.table import IcebergTable
from tests.mounts import java_with_mounts

NO_MOUNTS = java_with_mounts({})


def table(operations: str, location: str, jvm: Any = NO_MOUNTS) -> IcebergTable:
    """The adapter of a table of which only the catalog and the location are read."""
    kind = SimpleNamespace(getName=lambda: f"org.apache.iceberg.{operations}")
    java = SimpleNamespace(
        operations=lambda: SimpleNamespace(getClass=lambda: kind, io=lambda: None), location=lambda: location
    )
    return IcebergTable(jvm, TableName("db.t", "iceberg", "db.t"), java)


@pytest.mark.parametrize(
    "scheme, store",
    [
        ("s3", "S3"),
        ("s3a", "S3"),
        ("S3N", "S3"),
        ("gs", "Google Cloud Storage"),
        ("oss", "oss://"),
        ("cosn", "cosn://"),
    ],
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
        ("hadoop.HadoopTableOperations", "abfss://c@account/t"),
        ("hadoop.HadoopTableOperations", "file:/t"),
        ("jdbc.JdbcTableOperations", "s3://bucket/t"),
        ("jdbc.JdbcTableOperations", "gs://bucket/t"),
        ("rest.RESTTableOperations", "s3://bucket/t"),
        ("aws.glue.GlueTableOperations", "s3://bucket/t"),
    ],
)
def test_catalogs_that_swap_atomically_are_not(operations: str, location: str) -> None:
    table(operations, location).require_writable(resolve({}))


@pytest.mark.parametrize("location", ["file:/mnt/t", "file:///mnt/t"])
def test_a_mount_that_machines_share(location: str) -> None:
    mounts = java_with_mounts({"/mnt/t": "nfs4"})
    adapter = table("hadoop.HadoopTableOperations", location, mounts)
    with pytest.raises(
        Unsupported, match=r"Hadoop catalog on a mount of type nfs4, which machines may share"
    ):
        adapter.require_writable(resolve({}))
    adapter.require_writable(resolve({"single-driver": True}))
    table("jdbc.JdbcTableOperations", location, mounts).require_writable(resolve({}))
