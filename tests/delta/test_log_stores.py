"""Delta on S3 with two drivers: what an exists-then-put store loses, and that nothing is committed there undeclared.

    ours (s3a://)   ── is 3.json there? no ──┐            ┌── put 3.json          the later put replaces the earlier
    users (s3://)   ── is 3.json there? no ──┴─ barrier ──┴── put 3.json

Two schemes of one folder simulate two drivers: Delta's store has one lock for each path, within one JVM.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import lakekeeper as lk
from lakekeeper.cli import main
from lakekeeper.errors import Rejected, Unsupported
from lakekeeper.opening import open_adapter
from lakekeeper.spark.jvm import Jvm
from lakekeeper_delta import FORMAT
from lakekeeper_delta.log_stores import loses_commits, refuse_second_driver
from tests.delta.scene import Scene
from tests.mounts import java_with_mounts
from tests.object_store import object_store
from tests.opening import adapter_of
from tests.oracles.java_source import define
from tests.rewrites import rewritten, tasks_of

pytestmark = pytest.mark.delta

_JAVA = Path(__file__).parent / "java"
ONE = {"single-driver": True}


@pytest.fixture
def bucket(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    """A folder that s3:// and s3a:// present as an object store does."""
    with object_store(spark):
        yield tmp_path


@pytest.fixture
def table(spark: SparkSession, bucket: Path) -> str:
    """A table of three overlapping files on s3a."""
    path = f"s3a://bucket{bucket}/t"
    for start in (0, 20, 40):
        rows(spark, start).write.format("delta").mode("append").save(path)
    return path


def rows(spark: SparkSession, start: int) -> DataFrame:
    return spark.range(start, start + 20).selectExpr("id", "cast(id % 10 AS int) AS k").coalesce(1)


def ids(spark: SparkSession, path: str) -> list[int]:
    Jvm(spark).view.org.apache.spark.sql.delta.DeltaLog.clearCache()
    return sorted(row.id for row in spark.read.format("delta").load(path).collect())


def on_disk(folder: Path) -> dict[str, int]:
    return {str(p): p.stat().st_mtime_ns for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("last,lost", [("s3a", "the batch of the users"), ("s3", "the rewrite")])
def test_two_drivers_lose_a_commit(spark: SparkSession, table: str, last: str, lost: str) -> None:
    """Why lakekeeper refuses: both commits succeed, and one of them is lost."""
    fs: Any = Jvm(spark).view.org.apache.hadoop.fs
    opened = lk.table(spark, table)
    opened.options()
    fs.ObjectFs.arm(f"{3:020d}.json", last)
    users_path = table.replace("s3a:", "s3:")
    try:
        with ThreadPoolExecutor(2) as pool:
            ours = pool.submit(lambda: opened.recluster("k", options={**ONE, "policy": "full"}))
            users = pool.submit(lambda: rows(spark, 60).write.format("delta").mode("append").save(users_path))
            report, _ = ours.result(), users.result()
    finally:
        fs.ObjectFs.disarm()
    assert report.version_after == 3
    files = [b.path for b in adapter_of(spark, table).snapshot().blocks]
    if last == "s3a":
        assert ids(spark, table) == list(range(60)), lost
    else:
        assert (ids(spark, table), len(files)) == (list(range(80)), 4), lost


VERBS: dict[str, Callable[[lk.Table], Any]] = {
    "recluster": lambda t: t.recluster("k"),
    "compact": lambda t: t.compact(),
    "merge_deletes": lambda t: t.merge_deletes(),
    "delete": lambda t: t.delete("id = 3"),
    "drop_partition": lambda t: t.drop_partition("id = 3"),
    "cluster_by": lambda t: t.cluster_by("k"),
    "cluster_by(None)": lambda t: t.cluster_by(None),
    "compact_metadata": lambda t: t.compact_metadata(),
}


@pytest.mark.parametrize("verb", VERBS)
def test_nothing_is_written_without_the_operators_declaration(
    spark: SparkSession, table: str, bucket: Path, verb: str
) -> None:
    before = on_disk(bucket)
    with pytest.raises(Unsupported, match=r"S3SingleDriverLogStore.*spark\.lakekeeper\.single-driver"):
        VERBS[verb](lk.table(spark, table))
    assert on_disk(bucket) == before


def test_reads_are_not_refused(spark: SparkSession, table: str, bucket: Path) -> None:
    before = on_disk(bucket)
    opened = lk.table(spark, table)
    assert opened.clustering_information("k").total_partition_count == 3
    opened.plan(options={"cluster-by": "k"})
    for verb in (opened.compact, opened.merge_deletes, opened.vacuum, opened.compact_metadata):
        verb(dry_run=True)
    opened.recluster("k", dry_run=True)
    opened.cluster_by("k", dry_run=True)
    assert on_disk(bucket) == before


def test_the_operators_declaration_permits_commits(spark: SparkSession, table: str) -> None:
    before = ids(spark, table)
    assert lk.table(spark, table).recluster("k", options={**ONE, "policy": "full"}).commits == 1
    spark.conf.set("spark.lakekeeper.single-driver", "true")
    try:
        opened = lk.table(spark, table)
        opened.cluster_by("k")
        assert opened.delete("id = 3").deleted_rows_count == 1
        entry = opened.drop_partition("id = 4")
        assert entry.deleted_rows_count == 1
        opened.restore(opened.trash()[0].name)
        opened.compact_metadata()
    finally:
        spark.conf.unset("spark.lakekeeper.single-driver")
    assert ids(spark, table) == [i for i in before if i != 3]
    with pytest.raises(Unsupported, match="single-driver"):
        opened.delete("id = 5")


def test_a_table_does_not_say_how_many_drivers_there_are(spark: SparkSession, table: str) -> None:
    spark.sql(f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES ('lakekeeper.single-driver'='true')")
    with pytest.raises(Unsupported, match="single-driver"):
        lk.table(spark, table).delete("id = 3")


def test_a_commit_without_the_check_before_it_is_rejected(spark: SparkSession, table: str) -> None:
    """The last check: for code that calls an adapter directly."""
    scene = Scene(spark, Path(table))
    adapter = FORMAT.open(spark, open_adapter(spark, table).name)
    snapshot = adapter.snapshot(["k"])
    made = [rewritten(adapter, task) for task in tasks_of(snapshot)]
    with pytest.raises(Rejected, match="single-driver"):
        adapter.commit(made, snapshot, "run")
    assert adapter.version().version == snapshot.version
    assert scene.spark is spark


@pytest.mark.parametrize(
    "store,refused",
    [
        ("io.delta.storage.S3SingleDriverLogStore", True),
        ("io.delta.storage.HDFSLogStore", True),  # on S3 its rename copies
        ("acme.AcmeStore", False),
    ],
)
def test_the_store_that_is_configured_counts(
    spark: SparkSession, table: str, store: str, refused: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    define(spark, _JAVA / "AcmeStore.java", beside="io.delta.storage.LogStore")
    conf = spark.sparkContext._jsc.sc().conf()
    conf.set("spark.delta.logStore.s3a.impl", store)
    try:
        Jvm(spark).view.org.apache.spark.sql.delta.DeltaLog.clearCache()
        opened = lk.table(spark, table)
        if refused:
            with pytest.raises(Unsupported, match=store):
                opened.delete("id = 3")
        else:
            assert opened.delete("id = 3").deleted_rows_count == 1
        main(["doctor", "--session"])
    finally:
        conf.remove("spark.delta.logStore.s3a.impl")
        Jvm(spark).view.org.apache.spark.sql.delta.DeltaLog.clearCache()
    [line] = [line for line in capsys.readouterr().out.splitlines() if "log store, s3a:" in line]
    assert store in line
    assert ("commits are refused" in line) == refused
    assert ("not one of Delta's" in line) != refused


def test_doctor_reports_the_log_store_of_each_scheme(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["doctor", "--session"])
    lines = [line for line in capsys.readouterr().out.splitlines() if "delta log store" in line]
    assert [line.split(", ")[1].split(":")[0] for line in lines] == [
        "s3",
        "s3a",
        "s3n",
        "abfss",
        "gs",
        "hdfs",
        "file",
    ]
    assert all(line.startswith("ok") for line in lines)
    assert ["commits are refused" in line for line in lines] == [True] * 3 + [False] * 4


@pytest.mark.parametrize(
    "scheme,store,lost",
    [
        ("s3a", "org.apache.spark.sql.delta.storage.S3SingleDriverLogStore", True),
        ("S3A", "io.delta.storage.S3SingleDriverLogStore", True),
        ("s3n", "io.delta.storage.LocalLogStore", True),
        ("s3a", "io.delta.storage.GCSLogStore", True),  # S3A's create is no conditional put
        ("s3", "io.delta.storage.S3DynamoDBLogStore", False),
        ("s3a", "com.acme.Store", False),
        ("abfss", "io.delta.storage.AzureLogStore", False),
        ("gs", "io.delta.storage.GCSLogStore", False),
        ("hdfs", "io.delta.storage.HDFSLogStore", False),
        ("file", "io.delta.storage.HDFSLogStore", False),
        ("oss", "io.delta.storage.HDFSLogStore", True),
        ("cosn", "org.apache.spark.sql.delta.storage.HDFSLogStore", True),
        ("obs", "io.delta.storage.LocalLogStore", True),
        ("cos", "io.delta.storage.IBMCOSLogStore", False),
        ("oci", "io.delta.storage.OracleCloudLogStore", False),
        ("oss", "com.acme.Store", False),
    ],
)
def test_which_stores_lose_commits(scheme: str, store: str, lost: bool) -> None:
    assert loses_commits(scheme, store) == lost


def local_log(mount: str, store: str) -> Any:
    """The log of a table on a mount of a type, which a log store of this class writes."""
    uri = SimpleNamespace(getScheme=lambda: "file", getPath=lambda: "/mnt/t/_delta_log")
    path = SimpleNamespace(toUri=lambda: uri)
    written_by = SimpleNamespace(getClass=lambda: SimpleNamespace(getName=lambda: store))
    log = SimpleNamespace(logPath=lambda: path, store=lambda: written_by)
    return SimpleNamespace(name="t", log=log, jvm=java_with_mounts({"/mnt/t/_delta_log": mount}))


@pytest.mark.parametrize(
    "mount,store,refused",
    [
        ("nfs4", "io.delta.storage.HDFSLogStore", True),
        ("fuse.blobfuse2", "io.delta.storage.LocalLogStore", True),
        ("nfs4", "com.acme.Store", False),
        ("ext4", "io.delta.storage.HDFSLogStore", False),
    ],
)
def test_a_mount_that_machines_share(mount: str, store: str, refused: bool) -> None:
    log = local_log(mount, store)
    if not refused:
        refuse_second_driver(log, single_driver=False)
        return
    with pytest.raises(
        Unsupported, match=rf"a mount of type {mount}, .*{store}.*spark\.lakekeeper\.single-driver"
    ):
        refuse_second_driver(log, single_driver=False)
    refuse_second_driver(log, single_driver=True)
