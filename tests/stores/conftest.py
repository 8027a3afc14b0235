"""One S3, HDFS, Azure, Google Cloud Storage and session for all tests of this folder (``-m stores``, make stores)."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakekeeper.testing.golden import REWRITE
from tests.faults.processes import serving
from tests.oracles.rest_catalog import rest_catalog
from tests.stores import dynamodb
from tests.stores.azurite import BlobRelay, azurite, missing
from tests.stores.blobs import Container
from tests.stores.bucket import LAKE, Bucket, moto, pyiceberg_properties
from tests.stores.fake_gcs import fake_gcs
from tests.stores.faulty_s3 import FaultyS3
from tests.stores.gcs import Objects
from tests.stores.gcs_relay import GcsRelay
from tests.stores.hdfs import MiniHdfs, mini_hdfs
from tests.stores.kinds import KINDS, Kind, StoreTable
from tests.stores.outcomes import OUTCOMES, Outcomes, shown, write_into
from tests.stores.rows import filled
from tests.stores.session import Places, stores_session
from tests.stores.store import Store

PAGES = Path(__file__).parents[2] / "docs" / "how-to"


def pytest_configure(config: pytest.Config) -> None:
    config.stash.setdefault(OUTCOMES, {})


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker("stores")
    if "stores" in str(config.option.markexpr):
        return
    left = [item for item in items if item.get_closest_marker("stores") is not None]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in left]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    outcomes = config.stash.get(OUTCOMES, {})
    for store in ("s3", "hdfs", "azure", "gcs"):
        of_store = {at: what for at, what in outcomes.items() if Kind(at[0]).store == store}
        if not of_store:
            continue
        terminalreporter.section(f"stores: {store}")
        for line in shown(of_store):
            terminalreporter.write_line(line)
        if os.environ.get(REWRITE):
            write_into(PAGES / f"{store}.md", shown(of_store))


@pytest.fixture
def outcomes(request: pytest.FixtureRequest) -> Outcomes:
    """The outcome of each verb, by store and format."""
    return request.config.stash.setdefault(OUTCOMES, {})


@pytest.fixture(scope="session")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    """An empty bucket."""
    with moto(tmp_path_factory.mktemp("moto") / "moto.log") as made:
        yield made


@pytest.fixture(scope="session")
def s3(bucket: Bucket) -> Iterator[FaultyS3]:
    """The relay in front of it, which Spark uses."""
    with serving(FaultyS3(bucket.host)) as relay:
        yield relay


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniHdfs]:
    """An empty HDFS."""
    with mini_hdfs(tmp_path_factory.mktemp("hdfs")) as made:
        yield made


@pytest.fixture(scope="session")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Objects]:
    """An empty bucket of Google Cloud Storage."""
    with fake_gcs(tmp_path_factory.mktemp("gcs") / "gcs.log") as made:
        yield made


@pytest.fixture(scope="session")
def container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container | None]:
    """An empty container; None on a machine without Azurite."""
    if missing():
        yield None
        return
    with azurite(tmp_path_factory.mktemp("azurite") / "azurite.log") as made:
        yield made


@pytest.fixture(scope="session")
def gcs(objects: Objects) -> Iterator[GcsRelay]:
    """The relay in front of it, which Spark uses."""
    with serving(GcsRelay(objects.host)) as relay:
        yield relay


@pytest.fixture(scope="session")
def blobs(container: Container | None) -> Iterator[BlobRelay | None]:
    """The relay in front of it, which Spark uses."""
    if container is None:
        yield None
        return
    with serving(BlobRelay(container.host)) as relay:
        yield relay


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the catalogs' databases."""
    return tmp_path_factory.mktemp("catalogs")


@pytest.fixture(scope="session")
def rest(bucket: Bucket, home: Path) -> Iterator[str]:
    """The address of a REST catalog whose tables are in the bucket."""
    readable = pyiceberg_properties(bucket)
    with rest_catalog(home, warehouse=f"s3://{LAKE}/rest", properties=readable) as address:
        yield address


@pytest.fixture(scope="session")
def commits(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The file with the endpoint of an empty DynamoDB; empty on a machine without Delta's log store for it."""
    if dynamodb.missing():
        yield ""
        return
    with dynamodb.dynamodb(tmp_path_factory.mktemp("dynamodb")) as endpoints:
        yield str(endpoints)


@pytest.fixture(scope="session")
def places(
    s3: FaultyS3, hdfs: MiniHdfs, gcs: GcsRelay, blobs: BlobRelay | None, home: Path, rest: str, commits: str
) -> Places:
    """The addresses of the stores and catalogs for a driver."""
    azure = "" if blobs is None else blobs.endpoint
    return Places(
        s3=s3.address,
        hdfs=hdfs.store.root,
        rest=rest,
        home=str(home),
        gcs=gcs.address,
        azure=azure,
        dynamodb=commits,
    )


@pytest.fixture(scope="session")
def spark(places: Places) -> Iterator[SparkSession]:
    session = stores_session(places)
    session.conf.set("spark.lakekeeper.commit.quiet-window-ms", "0")
    session.conf.set("spark.lakekeeper.queries-per-hour", "100000000")
    for name in places.catalogs:
        session.sql(f"CREATE NAMESPACE IF NOT EXISTS {name}.db")
    yield session
    session.stop()


@pytest.fixture(params=list(KINDS), ids=list(KINDS))
def kind(request: pytest.FixtureRequest) -> Kind:
    """A format on a store, by a client of the store and a catalog."""
    return KINDS[request.param]


@pytest.fixture
def store(kind: Kind, bucket: Bucket, hdfs: MiniHdfs, objects: Objects, container: Container | None) -> Store:
    """The store of a kind, without the relay."""
    if kind.store == "azure":
        return container or pytest.skip(missing())
    found: dict[str, Store] = {"s3": bucket, "hdfs": hdfs.store, "gcs": objects}
    return found[kind.store]


@pytest.fixture
def relay(kind: Kind, s3: FaultyS3, gcs: GcsRelay) -> FaultyS3:
    """The relay in front of the store of a kind."""
    return gcs if kind.store == "gcs" else s3


@pytest.fixture
def name() -> str:
    """A name that no other test uses."""
    return f"t{uuid.uuid4().hex[:10]}"


@pytest.fixture
def alone(spark: SparkSession, kind: Kind) -> Iterator[None]:
    """The operator declares that no other driver writes Delta tables on S3; elsewhere this is not needed."""
    if kind.store == "s3":
        spark.conf.set("spark.lakekeeper.single-driver", "true")
    yield
    spark.conf.unset("spark.lakekeeper.single-driver")


@pytest.fixture
def table(spark: SparkSession, store: Store, kind: Kind, name: str, alone: None) -> StoreTable:
    """A table of each kind, with `filled` rows."""
    return filled(kind.table(spark, store, name))
