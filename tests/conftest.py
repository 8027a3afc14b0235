"""One Spark session for each process of a run, and the order of tests: those that need no JVM run first."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from lakekeeper.spark import jvm
from lakekeeper.spark.confs import all_confs
from lakekeeper.spark.jvm import Package
from lakekeeper.spark.session import end_java
from tests.sampling import VARIABLE, chosen_day, expensive, fewer, take_slice

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.conf import RuntimeConfig

pytest.register_assert_rewrite("lakekeeper.testing")  # before a test imports a part of a contract by itself
_numbers = itertools.count()
_OFTEN = (
    "BytesToString", "Encoders", "PythonErrorUtils", "PythonSQLUtils", "PythonUtils", "functions",
    "org.apache.spark.sql.catalyst.trees.PySparkCurrentOrigin", "org.apache.spark.sql.classic.SparkSession",
    "org.apache.spark.sql.functions",
)  # fmt: skip
"""Classes that PySpark looks up in Java at every step; Java searches all jars for the short names each time."""


def pytest_configure(config: pytest.Config) -> None:
    settings.register_profile("daily", max_examples=fewer(settings().max_examples))
    settings.load_profile("daily")
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False  # `_longest_first` orders the modules


def pytest_report_header() -> str:
    return f"sampled tests: {chosen_day()} (run this slice again, or all: {VARIABLE}={chosen_day()}, {VARIABLE}=all)"


def pytest_sessionfinish() -> None:
    """End the JVM: Python would warn, below the last line of pytest, of a process that still runs."""
    end_java()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """No-JVM tests first, slow ones last, deep ones only on request; within a tier the order stays.

    A worker process takes whole modules instead, the longest first.
    """
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")
        if _part(item) in getattr(getattr(item, "cls", None), "deep_parts", ()):
            item.add_marker("deep")
    if "deep" not in str(config.option.markexpr):
        left = [item for item in items if item.get_closest_marker("deep") is not None]
        if left:
            config.hook.pytest_deselected(items=left)
            items[:] = [item for item in items if item not in left]
    take_slice(config, items)
    items.sort(key=_tier)
    if hasattr(config, "workerinput"):
        _longest_first(items)


def _part(item: pytest.Item) -> str:
    """The class that defines a test, which may be a base of the class for which it runs."""
    return str(getattr(getattr(item, "function", None), "__qualname__", "")).partition(".")[0]


def _tier(item: pytest.Item) -> tuple[bool, bool]:
    return expensive(item), item.get_closest_marker("slow") is not None


def _longest_first(items: list[pytest.Item]) -> None:
    """Sort modules by a rough guess of their time: short ones at the end keep all processes busy until then."""
    guess: Counter[Path] = Counter()
    for item in items:
        slow = item.get_closest_marker("slow") is not None
        guess[item.path] += 2_000 if slow else 50 if expensive(item) else 1
    items.sort(key=lambda item: (-guess[item.path], str(item.path)))


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory to which the session's catalogs write."""
    return tmp_path_factory.mktemp("warehouse")


@pytest.fixture(scope="session")
def spark(warehouse: Path) -> Iterator[SparkSession]:
    """The session: Delta as ``spark_catalog``, Iceberg as ``ice`` (SQLite) and ``hdp`` (a directory)."""
    import pyspark

    from lakekeeper.spark.lines import required_line
    from lakekeeper.spark.session import local_session

    catalogs = {"ice": f"jdbc:sqlite:{warehouse}/ice.db", "hdp": f"hadoop:{warehouse}/hdp"}
    if "iceberg" not in required_line(pyspark.__version__).jars:
        catalogs = {}
    session = local_session(
        app_name="lakekeeper-tests",
        warehouse=warehouse,
        catalogs=catalogs,
        master="local[2]",
        small_data=True,
    )
    # Concurrent writers of the tests are done when they return: no commit has to wait for their next statement.
    session.conf.set("spark.lakekeeper.commit.quiet-window-ms", "0")
    # Tables of tests are seconds old: at this query rate, overlap has already cost readers enough for a merge.
    session.conf.set("spark.lakekeeper.queries-per-hour", "100000000")
    view: Any = session._jvm
    for name in _OFTEN:
        setattr(view, name, getattr(view, name))
    for root in ("java", "org", "py4j", "scala"):
        setattr(view, root, getattr(Package(view), root))
    _run_no_process_for_each_file(session)
    for name in catalogs:
        session.sql(f"CREATE NAMESPACE IF NOT EXISTS {name}.db")
    with pytest.MonkeyPatch.context() as patch:
        # It replaces the local file system, and counts as it does: columnar workers open tables by path.
        patch.setattr(jvm, "LOCAL_FILESYSTEMS", jvm.LOCAL_FILESYSTEMS | {"org.apache.hadoop.fs.DirectFs"})
        yield session
    session.stop()


@pytest.fixture(params=["by columns", "by rows"])
def merged_by(request: pytest.FixtureRequest, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> str:
    """The path that merges tables which both paths can merge; tests without it merge by columns."""
    if request.param == "by rows":
        monkeypatch.setattr(jvm, "LOCAL_FILESYSTEMS", frozenset())
    return str(request.param)


@pytest.fixture(params=[True, False], ids=["by path", "through the JVM"])
def files_by_path(
    request: pytest.FixtureRequest, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """The driver opens data files by path, or through the JVM as on an object store; the other way is an error."""
    opened: list[jvm.JavaFile] = []
    real = jvm.JavaFile.__init__

    def noted(self: jvm.JavaFile, stream: Any, size: int) -> None:
        opened.append(self)
        real(self, stream, size)

    if not request.param:
        monkeypatch.setattr(jvm, "LOCAL_FILESYSTEMS", frozenset())
    monkeypatch.setattr(jvm.JavaFile, "__init__", noted)
    yield
    assert bool(opened) != request.param


def _run_no_process_for_each_file(spark: SparkSession) -> None:
    from tests.oracles.java_source import define

    for name in ("DirectFs", "DirectContext"):
        define(
            spark, Path(__file__).parent / "java" / f"{name}.java", beside="org.apache.hadoop.fs.FileSystem"
        )
    jvm: Any = spark._jvm
    jvm.org.apache.hadoop.fs.DirectFs.install(spark.sparkContext._jsc.hadoopConfiguration())


@pytest.fixture
def confs(spark: SparkSession) -> Iterator[RuntimeConfig]:
    """The session's confs, which are restored after the test."""
    before = all_confs(spark)
    yield spark.conf
    after = all_confs(spark)
    for key in after.keys() - before.keys():
        spark.conf.unset(key)
    for key, value in before.items():
        if after.get(key) != value:
            spark.conf.set(key, value)


@pytest.fixture
def quick_confs(spark: SparkSession) -> dict[str, str]:
    """Confs of the session that keep startup and code generation of a Spark in another process as small as here."""
    names = (
        "spark.driver.extraJavaOptions",
        "spark.sql.shuffle.partitions",
        "spark.sql.codegen.factoryMode",
        "spark.sql.codegen.wholeStage",
        "spark.databricks.delta.snapshotPartitions",
    )
    return {name: str(spark.conf.get(name)) for name in names}


@pytest.fixture
def tmp_table_path(tmp_path: Path) -> Path:
    """A path for a table; it does not exist yet."""
    return tmp_path / "table"


@pytest.fixture
def table_name() -> str:
    """A name that no other test of this run uses, without a catalog or namespace."""
    return f"t{next(_numbers)}"
