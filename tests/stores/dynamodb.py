"""Delta's log store with DynamoDB, and a DynamoDB (moto) that holds its table.

``python -m tests.stores.dynamodb`` downloads the log store, where it is available. It has no conf for an address: its
SDK (version 1) takes the endpoint of a region from a file, and speaks HTTPS.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.faults.processes import free_port, running
from tests.stores.bucket import KEYS, REGION, server_of_moto
from tests.stores.ivy import retrieve

LOG_STORE = "io.delta.storage.S3DynamoDBLogStore"
PACKAGES = ("io.delta:delta-storage-s3-dynamodb:4.3.1", "com.amazonaws:aws-java-sdk-dynamodb:1.12.782")
_FOLDER = Path(__file__).parents[2] / "build" / "stores" / "dynamodb"
_NEEDED = (
    "delta-storage-s3-dynamodb",
    "aws-java-sdk-dynamodb",
    "aws-java-sdk-core",
    "jmespath-java",
    "jackson-dataformat-cbor",
)
"""Jars that a session with S3A and Delta does not have yet."""
_CONF = "spark.io.delta.storage.S3DynamoDBLogStore.ddb"
_ENDPOINTS = """<Regions>
  <Region>
    <Name>{region}</Name>
    <Endpoint>
      <ServiceName>dynamodb</ServiceName><Http>false</Http><Https>true</Https><Hostname>{host}</Hostname>
    </Endpoint>
  </Region>
</Regions>"""


def jars() -> list[Path]:
    """The jars of the log store; none where its registry does not have it."""
    found = sorted(_FOLDER.glob("*.jar"))
    return found if any(jar.name.startswith(_NEEDED[0]) for jar in found) else []


def missing() -> str:
    """Why the log store cannot be used; empty if it can."""
    return (
        "" if jars() else f"no {PACKAGES[0]} in {_FOLDER}: `make stores` downloads it, where it is available"
    )


@contextmanager
def dynamodb(folder: Path) -> Iterator[Path]:
    """An empty DynamoDB that lives as long as the context; the file with its endpoint."""
    port = free_port()
    command = [server_of_moto(), "-H", "127.0.0.1", "-p", str(port), "--ssl"]
    with running(command, port, folder / "dynamodb.log"):
        endpoints = folder / "regions.xml"
        endpoints.write_text(_ENDPOINTS.format(region=REGION, host=f"127.0.0.1:{port}"))
        yield endpoints


def java_options(endpoints: str) -> str:
    """Java options for the SDK of the log store; the emulator's certificate is its own."""
    sdk = "com.amazonaws"
    return (
        f"-D{sdk}.regions.RegionUtils.fileOverride={endpoints} -D{sdk}.sdk.disableCertChecking=true "
        f"-Daws.secretKey={KEYS['secret']}"
    )


def confs() -> dict[str, str]:
    """What a user sets beside the log store itself."""
    return {
        "spark.jars": ",".join(map(str, jars())),
        f"{_CONF}.tableName": "delta_log",
        f"{_CONF}.region": REGION,
        "spark.io.delta.storage.S3DynamoDBLogStore.credentials.provider": (
            "com.amazonaws.auth.SystemPropertiesCredentialsProvider"
        ),
    }


def install() -> None:
    """Download the jars if they are missing; say so if they are not available."""
    if jars():
        return
    _FOLDER.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder:
        try:
            for package in PACKAGES:
                retrieve(package, f"{folder}/[artifact]-[revision].[ext]")
        except OSError:
            print(f"{package} is not available: its tests are skipped", file=sys.stderr)
            return
        for jar in Path(folder).glob("*.jar"):
            if jar.name.startswith(_NEEDED):
                shutil.move(jar, _FOLDER / jar.name)


if __name__ == "__main__":
    install()
