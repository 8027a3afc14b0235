"""A Spark session with tables on S3, HDFS, Azure and Google Cloud Storage, in several Iceberg catalogs and at paths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.stores import dynamodb, gcs
from tests.stores.blobs import ACCOUNT, DOMAIN, KEY
from tests.stores.bucket import IMPATIENT, KEYS, LAKE, REGION
from tests.stores.fake_gcs import connector

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HADOOP_AWS = "org.apache.hadoop:hadoop-aws:3.4.2"
"""S3A of the Hadoop that PySpark 4.1.1 brings."""
SDK = "2.54.17"
"""The AWS SDK of Iceberg 1.12's bundle. S3A 3.4.2 was built with 2.29 and works with this one."""
_MODULES = (
    "apache-client", "apache5-client", "dynamodb", "glue", "kms", "s3", "s3-transfer-manager", "sts",
    "url-connection-client",
)  # fmt: skip
AZURE = ("org.apache.hadoop:hadoop-azure:3.4.2", "com.azure:azure-storage-file-datalake:12.23.0")
"""ABFS of the same Hadoop, and the SDK of Iceberg's ADLSFileIO."""
PACKAGES = (HADOOP_AWS, *(f"software.amazon.awssdk:{module}:{SDK}" for module in _MODULES))
EXCLUDED = (
    "software.amazon.awssdk:bundle",  # 640 MB of all services
    "software.amazon.awssdk.crt:aws-crt",
    "org.slf4j:slf4j-api",
    "com.microsoft.azure:azure-storage",  # of WASB alone
)


@dataclass(frozen=True)
class Places:
    """The addresses of the stores and the REST catalog, and the folder of the other catalogs' databases.

    ``azure``: name and port of the Blob service; ``dynamodb``: the file with its endpoint. Empty where there is none.
    """

    s3: str
    hdfs: str
    rest: str
    home: str
    gcs: str
    azure: str = ""
    dynamodb: str = ""

    @property
    def catalogs(self) -> tuple[str, ...]:
        """The names of all catalogs."""
        return (*_CATALOGS, "az", "azh", "azf") if self.azure else _CATALOGS


_CATALOGS = ("ice", "hio", "hdp", "hdpp", "rest", "glue", "quick", "nn", "nnh", "nnp", "gc", "gch")

_CREDENTIALS = "software.amazon.awssdk.auth.credentials.SystemPropertyCredentialsProvider"
_KEYS = f"-Daws.accessKeyId={KEYS['access']} -Daws.secretAccessKey={KEYS['secret']}"
"""Glue's client takes no keys from a catalog's confs."""

_TRY_ONCE = {
    "attempts.maximum": "0",
    "retry.limit": "0",
    "retry.throttle.limit": "0",
    "retry.interval": "1ms",
    "retry.throttle.interval": "1ms",
}
"""Without the retries of S3A and its SDK, so that each fault reaches lakekeeper."""
_SOON = {"retry.interval": "20ms", "retry.throttle.interval": "20ms"}
"""As often as by default, but after shorter pauses: some hundred faults of one run would wait half a second each."""


def s3_confs(address: str) -> dict[str, str]:
    """What a user sets to reach an S3 at an address; nothing is tried twice in the bucket `IMPATIENT`."""
    return {
        "spark.driver.extraJavaOptions": _KEYS,
        "spark.hadoop.fs.s3a.endpoint": address,
        "spark.hadoop.fs.s3a.endpoint.region": REGION,
        "spark.hadoop.fs.s3a.access.key": KEYS["access"],
        "spark.hadoop.fs.s3a.secret.key": KEYS["secret"],
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
        **{f"spark.hadoop.fs.s3a.{key}": value for key, value in _SOON.items()},
        **{f"spark.hadoop.fs.s3a.bucket.{IMPATIENT}.{key}": value for key, value in _TRY_ONCE.items()},
    }


def hdfs_confs(root: str, home: Path) -> dict[str, str]:
    """What a user sets where the HDFS at ``root`` is the default file system, and catalogs on it.

    nn   SQLite, by the default NameNode      nnh   a Hadoop catalog      nnp   one by a plain path
    """
    return {
        "spark.hadoop.fs.defaultFS": root.rstrip("/"),
        "spark.hadoop.dfs.replication": "1",
        **_catalog("nn", "hdfs:///nn", home),
        **_catalog("nnh", f"{root}nnh"),
        **_catalog("nnp", "/nnp"),
    }


def gcs_confs(address: str, home: Path) -> dict[str, str]:
    """What a user sets to reach a Google Cloud Storage at an address without credentials, and catalogs on it.

    gc   SQLite      gch   a Hadoop catalog; renames copy, as with a connector older than 3.1
    """
    return {
        "spark.driver.extraClassPath": str(connector()),
        "spark.hadoop.fs.gs.storage.root.url": f"{address}/",
        "spark.hadoop.fs.gs.auth.type": "UNAUTHENTICATED",
        **_catalog("gc", f"gs://{gcs.LAKE}/gc", home),
        **_catalog("gch", f"gs://{gcs.LAKE}/gch"),
        "spark.sql.catalog.gch.hadoop.fs.gs.operation.move.enable": "false",
        "spark.sql.catalog.gch.hadoop.fs.gs.impl.disable.cache": "true",
    }


def azure_confs(endpoint: str, home: Path) -> dict[str, str]:
    """What a user sets to reach an emulator of the Blob service at an endpoint, and catalogs on it.

    az   SQLite      azh   a Hadoop catalog      azf   SQLite, ADLSFileIO
    """
    if not endpoint:
        return {}
    root = f"abfs://{LAKE}@{DOMAIN}"
    return {
        f"spark.hadoop.fs.azure.account.key.{DOMAIN}": KEY,
        f"spark.hadoop.fs.azure.account.hns.enabled.{DOMAIN}": "false",
        "spark.hadoop.fs.azure.fns.account.service.type": "BLOB",
        "spark.hadoop.fs.azure.abfs.endpoint": endpoint,
        "spark.hadoop.fs.azure.always.use.https": "false",
        **_catalog("az", f"{root}/az", home),
        **_catalog("azh", f"{root}/azh"),
        **_catalog("azf", f"{root}/azf", home),
        "spark.sql.catalog.azf.io-impl": "org.apache.iceberg.azure.adlsv2.ADLSFileIO",
        "spark.sql.catalog.azf.adls.auth.shared-key.account.name": ACCOUNT,
        "spark.sql.catalog.azf.adls.auth.shared-key.account.key": KEY,
        f"spark.sql.catalog.azf.adls.connection-string.{DOMAIN}": f"http://{endpoint}/{ACCOUNT}",
    }


def dynamodb_confs(endpoints: str) -> dict[str, str]:
    """What a user sets to have Delta's log store use a DynamoDB whose endpoint is in a file."""
    if not endpoints:
        return {}
    return {
        **dynamodb.confs(),
        "spark.driver.extraJavaOptions": f"{_KEYS} {dynamodb.java_options(endpoints)}",
    }


def iceberg_catalogs(home: Path, address: str, rest: str) -> dict[str, str]:
    """The catalogs on S3 by name.

    ice    SQLite, S3FileIO         hio    SQLite, S3A          quick   as ``ice``, and tries nothing twice
    hdp    a Hadoop catalog, S3A    hdpp   one by a plain path
    rest   at an address, ResolvingFileIO
    glue   Glue, S3FileIO
    """
    confs = {
        **_catalog("ice", f"s3://{LAKE}/ice", home, address),
        **_catalog("hio", f"s3a://{LAKE}/hio", home),
        **_catalog("quick", f"s3://{IMPATIENT}/quick", home, address),
        "spark.sql.catalog.quick.s3.retry.num-retries": "0",
        **_catalog("hdp", f"s3a://{LAKE}/hdp"),
        **_catalog("hdpp", "/hdpp"),
        "spark.sql.catalog.hdpp.hadoop.fs.defaultFS": f"s3a://{LAKE}",
        **_catalog("glue", f"s3://{LAKE}/glue", address=address),
        "spark.sql.catalog.glue.type": "glue",
        "spark.sql.catalog.glue.glue.endpoint": address,
        "spark.sql.catalog.glue.client.credentials-provider": _CREDENTIALS,
    }
    return confs | rest_catalog_confs("rest", rest, address) if rest else confs


def rest_catalog_confs(name: str, rest: str, address: str) -> dict[str, str]:
    """The confs of a REST catalog at ``rest``, of tables on the S3 at an address."""
    prefix = f"spark.sql.catalog.{name}"
    confs = _catalog(name, f"s3://{LAKE}/{name}", address=address)
    del confs[f"{prefix}.io-impl"]  # the default of a REST catalog is ResolvingFileIO
    return confs | {f"{prefix}.type": "rest", f"{prefix}.uri": rest}


def _catalog(name: str, warehouse: str, home: Path | None = None, address: str = "") -> dict[str, str]:
    """A catalog in a SQLite file below ``home``, else in folders; by S3FileIO at an address, else by S3A."""
    prefix = f"spark.sql.catalog.{name}"
    confs = {prefix: "org.apache.iceberg.spark.SparkCatalog", f"{prefix}.warehouse": warehouse}
    if home is None:
        confs[f"{prefix}.type"] = "hadoop"
    else:
        confs |= {
            f"{prefix}.type": "jdbc",
            f"{prefix}.uri": f"jdbc:sqlite:{home}/{name}.db",
            f"{prefix}.jdbc.schema-version": "V1",
        }
    if address:
        confs |= {
            f"{prefix}.io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            f"{prefix}.client.region": REGION,
            f"{prefix}.s3.endpoint": address,
            f"{prefix}.s3.access-key-id": KEYS["access"],
            f"{prefix}.s3.secret-access-key": KEYS["secret"],
            f"{prefix}.s3.path-style-access": "true",
        }
    return confs


def stores_session(places: Places, *, more: Mapping[str, str] | None = None) -> SparkSession:
    """A session on these stores, with the catalogs of `iceberg_catalogs` and the confs of each store."""
    from lakekeeper.spark.session import local_session

    home = Path(places.home)
    packages = (*PACKAGES, *AZURE) if places.azure else PACKAGES
    return local_session(
        app_name="lakekeeper-stores",
        warehouse=home,
        conf={"spark.jars.packages": ",".join(packages), "spark.jars.excludes": ",".join(EXCLUDED)}
        | s3_confs(places.s3)
        | iceberg_catalogs(home, places.s3, places.rest)
        | hdfs_confs(places.hdfs, home)
        | gcs_confs(places.gcs, home)
        | azure_confs(places.azure, home)
        | dynamodb_confs(places.dynamodb)
        | dict(more or {}),
        master="local[2,4]",  # a task is tried four times, as on a cluster
        small_data=True,
    )


@contextmanager
def configured(spark: SparkSession, name: str, given: Mapping[str, str]) -> Iterator[str]:
    """A catalog of the session."""
    for key, value in given.items():
        spark.conf.set(key, value)
    try:
        yield name
    finally:
        for key in given:
            spark.conf.unset(key)
