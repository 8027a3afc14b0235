"""Create, or take over, the Spark session that lakekeeper works in.

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
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakekeeper.errors import AdapterError, OptionError
from lakekeeper.redaction import HIDDEN, names_a_secret
from lakekeeper.spark import installation
from lakekeeper.spark.jar_cache import reserved
from lakekeeper.spark.java_runtime import INSTALL, SUPPORTED, effective_java, usable_java
from lakekeeper.spark.lines import line_of
from lakekeeper.spark.session_confs import EXTENSIONS, catalog_confs, session_confs
from lakekeeper.spark.startup_file import startup_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

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
    properties_file: Path | None = None,
    small_data: bool = False,
) -> SparkSession:
    """A quiet session with the jars and extensions of both formats; a running one is taken over.

    Args:
        app_name: the application's name in Spark.
        warehouse: directory of Delta's managed tables, and of Iceberg catalogs that name none; created if missing.
        catalogs: Iceberg catalogs as ``name -> type:uri``, see `catalog_conf`.
        conf: Spark confs; they take precedence over the user's own (see `lakekeeper.spark.installation`), and these
            over the ones set here. Packages and extensions are joined. With ``spark.jars`` nothing is downloaded.
        master: where Spark runs, unless the user's confs say so.
        properties_file: the file that ``conf`` was read from; it replaces ``spark-defaults.conf``.
        small_data: settings for tests, where starting a stage costs more than its rows.

    Raises:
        AdapterError: Java is missing or has an unsupported version, or the running session is a Spark Connect session.
        OptionError: an invalid catalog, or a static conf that differs from that of the running session.
    """
    installation.use_pyspark()
    named = catalog_confs(catalogs or {}, warehouse)
    running = _running()
    if warehouse is not None:
        # A catalog in a file of this directory does not create it.
        warehouse.mkdir(parents=True, exist_ok=True)
    if running:
        return _take_over(named | dict(conf or {}))
    given = {"spark.master": master} | user_confs(conf or {}, properties_file)
    prepare_environment(given.get("spark.master", master))
    settings = session_confs(
        named,
        given,
        spark=_spark_version(),
        warehouse=warehouse,
        small_data=small_data,
        present=installation.jars(),
        hive=installation.configures_hive(),
    )
    from lakekeeper.spark.shims import shim

    settings = {"spark.app.name": app_name} | settings
    with reserved(settings), _quiet_start(), _own_stdout(), _whole_start():
        spark = _started(settings, properties_file)
    shim().silence_errors()  # the exception says the same
    _warn_of_missing(spark)
    return spark


def _started(settings: Mapping[str, str], properties_file: Path | None) -> SparkSession:
    """The session with these confs, in a JVM that has read them from a file."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if not _submitted():
        with startup_file(settings, properties_file):
            SparkContext._ensure_initialized()  # otherwise the builder starts it, with all confs as arguments
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _warn_of_missing(spark: SparkSession) -> None:
    """Log what the session lacks. A user of one format does not miss the jar of the other."""
    there = tuple(name for name, kind in EXTENSIONS.items() if class_loadable(spark, kind))
    for problem in missing(spark, there or tuple(EXTENSIONS)):
        log.warning("%s", problem)


def user_confs(conf: Mapping[str, str], properties_file: Path | None) -> dict[str, str]:
    """The confs of the user with which a session would start. Under spark-submit, the JVM already has them all."""
    if _submitted():
        from pyspark import SparkConf

        submitted_jvm()
        return dict(SparkConf().getAll()) | dict(conf)
    return installation.user_confs(conf, properties_file)


def _spark_version() -> str:
    import pyspark

    return str(pyspark.__version__)


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
    for sieve in _sieves:  # each ends with the JVM whose messages it filters
        with contextlib.suppress(subprocess.TimeoutExpired):
            sieve.wait(_LEAVING_SECONDS)


def _signal_group(java: subprocess.Popen[Any], number: signal.Signals) -> None:
    """Signal Spark's launch scripts and the JVM, whichever of them are running."""
    if java.poll() is None:
        os.killpg(java.pid, number)


def missing(spark: SparkSession, formats: tuple[str, ...] = ("delta", "iceberg")) -> tuple[str, ...]:
    """What a running session lacks for these formats, one message each with the remedy; empty if nothing is missing.

    Static confs are read once, when the first session starts: `getOrCreate` silently ignores them later.
    """
    extensions = spark.conf.get("spark.sql.extensions", "") or ""
    line = line_of(spark.version)
    problems = []
    for name in formats:
        if not class_loadable(spark, EXTENSIONS[name]):
            jar = (
                f"--packages {line.jars[name]}"
                if line and name in line.jars
                else f"its jar for Spark {spark.version}"
            )
            problems.append(
                f"the running Spark session has no {name} jar; start it with {jar} "
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

    from lakekeeper.spark.jvm import CONNECT

    if is_remote():
        raise AdapterError(CONNECT)
    return SparkContext._active_spark_context is not None


def _submitted() -> bool:
    """Whether spark-submit started this program: the JVM then already runs, with its own master."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def submitted_jvm() -> Any:
    """The JVM of spark-submit, which runs already; only under spark-submit."""
    from pyspark import SparkContext

    SparkContext._ensure_initialized()
    return SparkContext._jvm


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
    _warn_of_missing(spark)
    return spark


def prepare_environment(master: str) -> None:
    """Set what a JVM reads when it starts: JAVA_HOME, and the address that Spark binds to.

    On a cluster, the executors connect to that address, which Spark finds by the host name.
    """
    # Otherwise Spark's Python workers run the `python3` of PATH, which lacks the packages of this environment.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master.startswith("local") or not _resolves(socket.gethostname()):
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


def _resolves(host: str) -> bool:
    try:
        socket.gethostbyname(host)
    except OSError:
        return False
    return True


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
def _restored(descriptor: int) -> Iterator[int]:
    """A copy of a file descriptor, which is what it was at the end of the block."""
    saved = os.dup(descriptor)
    try:
        yield saved
    finally:
        os.dup2(saved, descriptor)
        os.close(saved)


@contextlib.contextmanager
def _own_stdout() -> Iterator[None]:
    """What the starting JVM writes to stdout goes to stderr, for its lifetime: Ivy of Spark 3.5 greets there."""
    if _submitted() or sys.stdout is None or sys.stderr is None:  # closed by the shell
        yield
        return
    sys.stdout.flush()
    with _restored(1):
        os.dup2(2, 1)
        yield


@contextlib.contextmanager
def _quiet_start() -> Iterator[None]:
    """Filter the starting JVM's stderr through grep, which drops `_NOISE` and passes everything else on.

    A process, not a thread: the JVM keeps this stderr for its lifetime and must never wait for Python.
    """
    grep = shutil.which("grep")
    if grep is None or _submitted() or sys.stderr is None or os.environ.get("LAKEKEEPER_VERBOSE_START"):
        yield
        return
    sys.stderr.flush()
    command = [grep, "--line-buffered", "-v", "-E", "|".join(_NOISE)]
    with _restored(2) as stderr:
        sieve = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=stderr, start_new_session=True)
        _sieves.append(sieve)
        pipe = sieve.stdin
        if pipe is not None:
            os.dup2(pipe.fileno(), 2)
            pipe.close()
        yield
