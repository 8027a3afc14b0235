"""Finds the Spark installation that a session starts from, and the user's confs, as spark-submit does.

    SPARK_HOME          the installation; else that of the installed PySpark
    SPARK_CONF_DIR      its configuration; else SPARK_HOME/conf
    PYSPARK_SUBMIT_ARGS options of spark-submit

``spark-defaults.conf`` is read unless another properties file is given.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from lakekeeper.errors import AdapterError
from lakekeeper.spark import properties
from lakekeeper.spark.lines import NEWEST

SUBMIT_ARGS = "PYSPARK_SUBMIT_ARGS"
PROPERTIES_FILE = "--properties-file"
_DEFAULTS = "spark-defaults.conf"
# Options of spark-submit that set a conf; all other options only affect how Spark starts.
_OPTIONS = {
    "--packages": "spark.jars.packages",
    "--jars": "spark.jars",
    "--master": "spark.master",
    "--exclude-packages": "spark.jars.excludes",
    "--repositories": "spark.jars.repositories",
    "--driver-memory": "spark.driver.memory",
    "--executor-memory": "spark.executor.memory",
    "--driver-java-options": "spark.driver.extraJavaOptions",
}


def use_pyspark() -> None:
    """Make PySpark importable: that of SPARK_HOME if it is set, as spark-submit does; else the installed one.

    Does nothing once PySpark is imported. Raises AdapterError if there is no PySpark.
    """
    if "pyspark" in sys.modules:
        return
    home = os.environ.get("SPARK_HOME")
    python = Path(home or "", "python")
    if home and (python / "pyspark" / "__init__.py").is_file():
        libraries = sorted(map(str, (python / "lib").glob("py4j-*.zip")))
        sys.path[:0] = [str(python), *libraries]
    try:
        import pyspark  # noqa: F401 - checks that it is there
    except ModuleNotFoundError as error:
        if error.name != "pyspark":
            raise
        where = f", and SPARK_HOME={home} has no python/pyspark" if home else ""
        raise AdapterError(
            f"PySpark is not installed{where}: run python -m pip install 'lakekeeper-spark[spark]' "
            f"(Spark {NEWEST.spark}), install the PySpark version of your cluster, or set SPARK_HOME to its Spark"
        ) from error


def home() -> Path:
    """The directory of the Spark that a session starts from; imports nothing. Raises AdapterError if there is none."""
    given = os.environ.get("SPARK_HOME")
    if given:
        return Path(given)
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        use_pyspark()  # says what to do
        raise AdapterError("PySpark is not installed")
    return Path(found.origin).parent


def conf_dir() -> Path:
    """The directory of Spark's configuration; it need not exist."""
    given = os.environ.get("SPARK_CONF_DIR")
    return Path(given) if given else home() / "conf"


def jars() -> tuple[str, ...]:
    """File names of the jars that come with the installation."""
    with suppress(OSError):
        return tuple(sorted(os.listdir(home() / "jars")))  # noqa: PTH208 - names, not paths
    return ()


def configures_hive() -> bool:
    """Whether the configuration has a ``hive-site.xml`` and this Spark has the Hive classes."""
    return (conf_dir() / "hive-site.xml").is_file() and any(jar.startswith("spark-hive_") for jar in jars())


def defaults() -> dict[str, str]:
    """The confs of ``spark-defaults.conf``; empty without one, or without Spark.

    Raises AdapterError if the file cannot be read.
    """
    try:
        return confs_of(conf_dir() / _DEFAULTS)
    except AdapterError as error:
        if isinstance(error.__cause__, FileNotFoundError | ModuleNotFoundError):
            return {}
        raise


def confs_of(path: Path) -> dict[str, str]:
    """The confs of a properties file. Raises AdapterError if it cannot be read."""
    try:
        return properties.spark_only(properties.read(path))
    except (OSError, UnicodeDecodeError) as error:
        raise AdapterError(f"{path} cannot be read: {error}") from error


def split_arguments(arguments: str) -> tuple[list[str], Path | None]:
    """Arguments of spark-submit without ``--properties-file``, and the file that it names."""
    words, kept, named = iter(shlex.split(arguments)), [], None
    for word in words:
        option, equals, text = word.partition("=")
        if option == PROPERTIES_FILE:
            named = text if equals else next(words, "")
        else:
            kept.append(word)
    return kept, Path(named) if named else None


def submitted_options() -> dict[str, str]:
    """The confs in PYSPARK_SUBMIT_ARGS; an option such as ``--master`` overrides ``--conf``."""
    words = iter(shlex.split(os.environ.get(SUBMIT_ARGS, "")))
    confs, own = {}, {}
    for word in words:
        name, equals, text = word.partition("=")
        takes_value = name in _OPTIONS or name in ("--conf", "-c", PROPERTIES_FILE)
        value = text if equals and takes_value else next(words, "") if takes_value else ""
        if name in _OPTIONS:
            own[_OPTIONS[name]] = value
        elif name in ("--conf", "-c"):
            key, _, setting = value.partition("=")
            confs[key] = setting
    return confs | own


def environment_confs() -> dict[str, str]:
    """Confs that spark-submit reads from environment variables."""
    names = {"SPARK_DRIVER_MEMORY": "spark.driver.memory", "MASTER": "spark.master"}
    return {conf: os.environ[name] for name, conf in names.items() if os.environ.get(name)}


def user_confs(given: Mapping[str, str], properties_file: Path | None = None) -> dict[str, str]:
    """All confs of the user: ``given`` overrides PYSPARK_SUBMIT_ARGS, then the file, then the environment.

    ``given`` contains the confs of ``properties_file``. Without one, a file that PYSPARK_SUBMIT_ARGS names is read in
    place of the defaults. Raises AdapterError if a file cannot be read.
    """
    _, named = split_arguments(os.environ.get(SUBMIT_ARGS, ""))
    file = {} if properties_file else confs_of(named) if named else defaults()
    return environment_confs() | file | submitted_options() | dict(given)
