"""Create, or take over, the Spark session that lakekeeper works in; versions and jars are pinned here.

``import lakekeeper`` does not import this module: a program with its own session does not need it. The command line,
the demo and the tests do.

    spark = local_session(warehouse=Path("wh"), catalogs={"ice": "jdbc:sqlite:/data/catalog.db"})

PySpark is imported inside the functions, so that ``doctor`` can check a machine without a working Spark.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from lakekeeper.errors import AdapterError, OptionError, nearest
from lakekeeper.redaction import HIDDEN, names_a_secret
from lakekeeper.spark.jar_cache import reserved
from lakekeeper.spark.java_runtime import INSTALL, SUPPORTED, effective_java, usable_java

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

VERSIONS: Mapping[str, str] = MappingProxyType(
    {"spark": "4.1.1", "scala": "2.13", "delta": "4.3.1", "iceberg": "1.12.0", "sqlite-jdbc": "3.50.3.0"}
)
"""The versions this release is built for and tested with. pyproject.toml pins the same pyspark and delta-spark."""

# Jars of both formats carry the minor version of Spark and the Scala version in their names.
_BUILD = f"{VERSIONS['spark'].rpartition('.')[0]}_{VERSIONS['scala']}"

JARS: Mapping[str, str] = MappingProxyType(
    {
        "delta": f"io.delta:delta-spark_{_BUILD}:{VERSIONS['delta']}",
        "iceberg": f"org.apache.iceberg:iceberg-spark-runtime-{_BUILD}:{VERSIONS['iceberg']}",
        "sqlite": f"org.xerial:sqlite-jdbc:{VERSIONS['sqlite-jdbc']}",
    }
)
"""Maven coordinates by purpose."""

EXTENSIONS: Mapping[str, str] = MappingProxyType(
    {
        "delta": "io.delta.sql.DeltaSparkSessionExtension",
        "iceberg": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    }
)
"""Session extension by format; the class also proves that the format's jar is present."""

_DELTA_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
_ICEBERG_CATALOG = "org.apache.iceberg.spark.SparkCatalog"

# Spark includes these in the same versions; a second copy costs 60 MB of downloads and duplicates log4j.
_EXCLUDES = (
    "org.apache.hadoop:hadoop-client-api",
    "org.apache.hadoop:hadoop-client-runtime",
    "org.apache.logging.log4j:log4j-slf4j2-impl",
    "org.apache.logging.log4j:log4j-core",
    "org.apache.logging.log4j:log4j-api",
    "org.slf4j:slf4j-api",
)

# Startup lines without information for a user. Downloads, warnings and errors of the dependency resolution pass.
_NOISE = (
    "^:: (loading settings|resolving dependencies|resolution report|retrieving) ",
    "^(Ivy Default Cache set to|The jars for the packages stored in): ",
    "^[^ ]+#[^ ]+ added as a dependency$",
    "^[[:blank:]]+(confs: |found [^ ]+#|:: (modules in use|evicted modules):)",
    "^[[:blank:]]+[^ ]+#[^ ]+;[^ ]+ (from|by) ",
    "^[[:blank:]]+([|]|-----)",
    "^[[:blank:]]+[0-9]+ artifacts copied",
    "Using incubator modules: jdk.incubator.vector",
    "Using Spark's default log4j profile",
    "^Setting (default|Spark) log level to",
    "^To adjust logging level use ",
    "WARN NativeCodeLoader",
)


# The filters end with their JVMs; kept here, since an unreferenced Popen warns about a process that still runs.
_sieves: list[subprocess.Popen[Any]] = []
_javas: list[subprocess.Popen[Any]] = []
_LEAVING_SECONDS = 3.0


def local_session(
    *,
    app_name: str = "lakekeeper",
    warehouse: Path | None = None,
    catalogs: Mapping[str, str] | None = None,
    conf: Mapping[str, str] | None = None,
    master: str = "local[*]",
    small_data: bool = False,
) -> SparkSession:
    """A quiet session with the jars and extensions of both formats; a running one is taken over.

    Args:
        app_name: the application's name in Spark.
        warehouse: directory of Delta's managed tables, and of Iceberg catalogs that name none.
        catalogs: Iceberg catalogs as ``name -> type:uri``, see `catalog_conf`.
        conf: Spark confs; they take precedence over the ones set here, but packages and extensions are added to ours.
            With ``spark.jars`` nothing is downloaded.
        master: where Spark runs; spark-submit's own ``--master`` takes precedence.
        small_data: settings for tests, where starting a stage costs more than its rows.

    Raises:
        AdapterError: Java is missing or has an unsupported version, or the running session is a Spark Connect session.
        OptionError: an invalid catalog, or a static conf that differs from that of the running session.
    """
    named = _catalog_confs(catalogs or {}, warehouse)
    given = dict(conf or {})
    if _running():
        return _take_over(named | given)
    prepare_environment()
    settings = session_confs(named, given, warehouse=warehouse, small_data=small_data)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app_name)
    if not _submitted():
        builder = builder.master(given.get("spark.master", master))
    for key, value in settings.items():
        builder = builder.config(key, value)
    with reserved(settings), _quiet_start(), _whole_start():
        spark = builder.getOrCreate()
    for problem in missing(spark):
        log.warning("%s", problem)
    return spark


def mute() -> None:
    """Discard further output of the JVM on stderr; only works for a JVM that `local_session` started."""
    for sieve in _sieves:
        sieve.kill()


def end_java() -> None:
    """End the JVM that `local_session` started, if any, and wait for its exit."""
    for java in _javas:
        _signal_group(java, signal.SIGTERM)
    for java in _javas:
        with contextlib.suppress(subprocess.TimeoutExpired):
            java.wait(_LEAVING_SECONDS)
        _signal_group(java, signal.SIGKILL)
        java.wait()
    _javas.clear()


def _signal_group(java: subprocess.Popen[Any], number: signal.Signals) -> None:
    """Signal Spark's launch scripts and the JVM, whichever of them are running."""
    if java.poll() is None:
        os.killpg(java.pid, number)


def catalog_conf(name: str, spec: str, warehouse: Path | None = None) -> dict[str, str]:
    """The confs of one Iceberg catalog from ``type:uri``.

    ========================  ==========================================================================
    ``jdbc:sqlite:/a/c.db``   a catalog in one SQLite file; tables in ``warehouse/name``, else next to it
    ``rest:http://host:1``    a REST catalog, which has its own warehouse
    ``hadoop:/a/dir``         a directory; only for experiments, two writers can lose a commit
    ========================  ==========================================================================

    Raises:
        OptionError: an unknown type, or no uri.
    """
    kind, _, uri = spec.partition(":")
    expected = "type:uri with a type of jdbc, rest or hadoop, as in jdbc:sqlite:/data/catalog.db"
    if kind not in {"jdbc", "rest", "hadoop"}:
        raise OptionError(f"catalog {name}", spec, expected + nearest(kind, ("jdbc", "rest", "hadoop")))
    if not uri:
        raise OptionError(f"catalog {name}", spec, expected)
    prefix = f"spark.sql.catalog.{name}"
    confs = {prefix: _ICEBERG_CATALOG, f"{prefix}.type": kind}
    if kind == "rest":
        return confs | {f"{prefix}.uri": uri}
    if kind == "hadoop":
        return confs | {f"{prefix}.warehouse": str(Path(uri).absolute()) if "://" not in uri else uri}
    database = uri if ":" in uri else f"sqlite:{uri}"
    confs |= {f"{prefix}.uri": f"jdbc:{database}", f"{prefix}.jdbc.schema-version": "V1"}
    if database.startswith("sqlite:"):
        beside = Path(database.removeprefix("sqlite:")).absolute().parent
        confs[f"{prefix}.warehouse"] = str((warehouse.absolute() if warehouse else beside) / name)
    elif warehouse is not None:
        confs[f"{prefix}.warehouse"] = str(warehouse)
    return confs


def missing(spark: SparkSession, formats: tuple[str, ...] = ("delta", "iceberg")) -> tuple[str, ...]:
    """What a running session lacks for these formats, one message each with the remedy; empty if nothing is missing.

    Static confs are read once, when the first session starts: `getOrCreate` silently ignores them later.
    """
    extensions = spark.conf.get("spark.sql.extensions", "") or ""
    problems = []
    for name in formats:
        if not class_loadable(spark, EXTENSIONS[name]):
            problems.append(
                f"the running Spark session has no {name} jar; start it with --packages {JARS[name]} "
                f"and --conf spark.sql.extensions={EXTENSIONS[name]}"
            )
        elif EXTENSIONS[name] not in extensions:
            problems.append(
                f"the running Spark session has the {name} jar but not its extension; "
                f"start it with --conf spark.sql.extensions={','.join(EXTENSIONS[n] for n in formats)}"
            )
    return tuple(problems)


def class_loadable(spark: SparkSession, name: str) -> bool:
    """Whether the session's JVM can load a class; Spark's own check also sees the jars of ``--packages``."""
    jvm = spark.sparkContext._jvm
    return jvm is not None and bool(jvm.org.apache.spark.util.Utils.classIsLoadable(name))


def _running() -> bool:
    from pyspark import SparkContext
    from pyspark.sql.utils import is_remote

    if is_remote():
        raise AdapterError(
            "this is a Spark Connect session; lakekeeper reads tables through the driver's JVM and needs a "
            "classic session: run it on the cluster's driver with spark-submit, or unset SPARK_REMOTE"
        )
    return SparkContext._active_spark_context is not None


def _submitted() -> bool:
    """Whether spark-submit started this program: the JVM then already runs, with its own master."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _take_over(wanted: Mapping[str, str]) -> SparkSession:
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate()
    for key, value in wanted.items():
        if spark.conf.get(key, None) == value:
            continue
        try:
            spark.conf.set(key, value)
        except PySparkException as error:
            now = HIDDEN if names_a_secret(key) else spark.conf.get(key, None)
            expected = f"a conf that can be set while Spark runs; the session has {now!r}"
            raise OptionError(key, value, expected) from error
    for problem in missing(spark):
        log.warning("%s", problem)
    return spark


def prepare_environment() -> None:
    """Set what a JVM reads when it starts: JAVA_HOME, and the address that Spark binds to."""
    # Otherwise Spark's Python workers run the `python3` of PATH, which lacks the packages of this environment.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Containers often have a host name that does not resolve.
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if _submitted():
        return
    java = usable_java()
    if java is None:
        found = effective_java()
        what = f"Java {found.major} at {found.program}" if found else "no Java"
        versions = " or ".join(map(str, SUPPORTED))
        raise AdapterError(f"Spark needs Java {versions}, found {what}; on Debian and Ubuntu: {INSTALL}")
    if java != effective_java():
        os.environ["JAVA_HOME"] = java.home


def _catalog_confs(catalogs: Mapping[str, str], warehouse: Path | None) -> dict[str, str]:
    confs: dict[str, str] = {}
    for name, spec in catalogs.items():
        confs |= catalog_conf(name, spec, warehouse)
    return confs


def session_confs(
    catalogs: Mapping[str, str], given: Mapping[str, str], *, warehouse: Path | None, small_data: bool
) -> dict[str, str]:
    """All confs of a new session: ours, then the catalogs, then the given ones."""
    settings = {
        "spark.jars.packages": ",".join(JARS.values()),
        "spark.jars.excludes": ",".join(_EXCLUDES),
        "spark.sql.extensions": ",".join(EXTENSIONS.values()),
        "spark.sql.catalog.spark_catalog": _DELTA_CATALOG,
        # Write nothing to the current directory: no derby.log, no metastore_db.
        "spark.sql.catalogImplementation": "in-memory",
        "spark.driver.memory": "3g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        # By default, Delta rebuilds its state in 50 partitions, which takes seconds for a table of five files.
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.sql.shuffle.partitions": "4",
    }
    if warehouse is not None:
        settings["spark.sql.warehouse.dir"] = str(warehouse.absolute())
    if small_data:
        settings |= _small_data()
    settings |= catalogs
    for key in ("spark.jars.packages", "spark.sql.extensions", "spark.jars.excludes"):
        if key in given:
            settings[key] = _joined(settings[key], given[key])
    if "spark.jars" in given and "spark.jars.packages" not in given:
        del settings["spark.jars.packages"]
    options = "spark.driver.extraJavaOptions"
    if options in given and options in settings:
        settings[options] += " " + given[options]
    merged = {"spark.jars.packages", "spark.sql.extensions", "spark.jars.excludes", options, "spark.master"}
    return settings | {key: value for key, value in given.items() if key not in merged or key not in settings}


def _small_data() -> dict[str, str]:
    return {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        # Otherwise each task generates the source of its projections again, only to find them compiled already.
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        # Delta's VACUUM lists folders with this many tasks, 10,000 by default.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
        # With one compiler, Java reserves 48 MB for code. A test suite fills that, and Java then drops code in use.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC",
    }


def _joined(ours: str, theirs: str) -> str:
    return ",".join(dict.fromkeys(part for part in f"{ours},{theirs}".split(",") if part))


@contextlib.contextmanager
def _whole_start() -> Iterator[None]:
    """Guard the start of Spark: an interrupted start leaves neither a JVM nor a partial context behind.

    PySpark does not expose the JVM's process until Java has responded, so it is recorded where PySpark creates it.
    """
    from pyspark import SparkContext, java_gateway

    made: Any = java_gateway

    def noted(*args: Any, **given: Any) -> subprocess.Popen[Any]:
        _javas.append(subprocess.Popen(*args, **given, start_new_session=True))
        return _javas[-1]

    made.Popen = noted
    try:
        yield
    except Exception:
        raise  # for example an invalid conf: PySpark uses the same JVM for the next attempt
    except BaseException:
        end_java()
        SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
        raise
    finally:
        made.Popen = subprocess.Popen


@contextlib.contextmanager
def _quiet_start() -> Iterator[None]:
    """Filter the starting JVM's stderr through grep, which drops `_NOISE` and passes everything else on.

    A process, not a thread: the JVM keeps this stderr for its lifetime and must never wait for Python.
    """
    grep = shutil.which("grep")
    if grep is None or _submitted() or os.environ.get("LAKEKEEPER_VERBOSE_START"):
        yield
        return
    sys.stderr.flush()
    saved = os.dup(2)
    command = [grep, "--line-buffered", "-v", "-E", "|".join(_NOISE)]
    sieve = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=saved, start_new_session=True)
    _sieves.append(sieve)
    pipe = sieve.stdin
    if pipe is not None:
        os.dup2(pipe.fileno(), 2)
        pipe.close()
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
