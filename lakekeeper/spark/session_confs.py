"""The confs of a session that lakekeeper starts: those of the user, and defaults for what the user did not set.

    defaults  <  catalogs of the call  <  the user's: spark-defaults.conf, --properties-file, --conf

Packages and extensions are combined. A package that the user provides, in ``spark.jars.packages``, in ``spark.jars`` or
in Spark's own folder, is not added again in another version.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType

from lakekeeper.errors import OptionError, nearest
from lakekeeper.spark.lines import required_line

EXTENSIONS: Mapping[str, str] = MappingProxyType(
    {
        "delta": "io.delta.sql.DeltaSparkSessionExtension",
        "iceberg": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    }
)
"""Format → session extension; if this class can be loaded, the format's jar is present."""

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

_ARTIFACTS: Mapping[str, str] = MappingProxyType(
    {"delta": "delta-spark_", "iceberg": "iceberg-spark-runtime-", "sqlite": "sqlite-jdbc"}
)
"""Jar → prefix of its artifact and file names."""

_OPTIONS = "spark.driver.extraJavaOptions"
_PACKAGES, _JARS = "spark.jars.packages", "spark.jars"
_HIVE = ("spark.hadoop.hive.metastore.uris", "spark.hive.metastore.uris", "spark.sql.hive.metastore.jars")

# For a small machine; clusters keep Spark's defaults.
_ON_ONE_MACHINE = {
    "spark.driver.memory": "3g",
    "spark.ui.enabled": "false",
    # By default, Delta rebuilds its state in 50 partitions, which takes seconds for a table of five files.
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.shuffle.partitions": "4",
}


def catalog_conf(name: str, spec: str, warehouse: Path | None = None) -> dict[str, str]:
    """The confs of one Iceberg catalog from ``type:uri``.

    ========================  ==========================================================================
    ``jdbc:sqlite:/a/c.db``   a catalog in one SQLite file; tables in ``warehouse/name``, else next to it
    ``rest:http://host:1``    a REST catalog, which has its own warehouse
    ``hadoop:/a/dir``         a directory; for experiments only, since two writers can lose a commit
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


def catalog_confs(catalogs: Mapping[str, str], warehouse: Path | None) -> dict[str, str]:
    """The confs of Iceberg catalogs, ``name -> type:uri``. Raises OptionError as `catalog_conf` does."""
    confs: dict[str, str] = {}
    for name, spec in catalogs.items():
        confs |= catalog_conf(name, spec, warehouse)
    return confs


def session_confs(
    catalogs: Mapping[str, str],
    given: Mapping[str, str],
    *,
    spark: str,
    warehouse: Path | None = None,
    small_data: bool = False,
    present: Collection[str] = (),
    hive: bool = False,
) -> dict[str, str]:
    """All confs of a new session.

    Args:
        catalogs: confs of the Iceberg catalogs that the call names.
        given: the user's confs, which override all others.
        spark: the version of Spark.
        warehouse: directory of managed tables.
        small_data: settings for tests.
        present: file names of the jars in Spark's own folder.
        hive: whether a ``hive-site.xml`` configures a Hive metastore.

    Raises:
        AdapterError: packages are needed, but no release line is known for this version of Spark.
    """
    ours = {
        "spark.jars.excludes": ",".join(_EXCLUDES),
        "spark.sql.extensions": ",".join(EXTENSIONS.values()),
        "spark.sql.catalog.spark_catalog": _DELTA_CATALOG,
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        # In memory, Spark writes no derby.log and no metastore_db to the current directory.
        "spark.sql.catalogImplementation": "hive"
        if hive or any(key in given for key in _HIVE)
        else "in-memory",
    }
    if given.get("spark.master", "local").startswith("local"):
        ours |= _ON_ONE_MACHINE
    if warehouse is not None:
        ours["spark.sql.warehouse.dir"] = str(warehouse.absolute())
    if small_data:
        ours |= _small_data()
    packages = _packages(given, spark, present)
    if packages:
        ours[_PACKAGES] = packages
    merged = ours | dict(catalogs) | dict(given)
    for key in ("spark.sql.extensions", "spark.jars.excludes"):
        merged[key] = _joined(ours[key], given.get(key, ""))
    if packages:
        merged[_PACKAGES] = _joined(packages, given.get(_PACKAGES, ""))
    if _OPTIONS in ours and _OPTIONS in given:
        merged[_OPTIONS] = f"{ours[_OPTIONS]} {given[_OPTIONS]}"
    return merged


_OF_ONE_APPLICATION = (
    "spark.app.", "spark.master", "spark.submit.deployMode", "spark.driver.host", "spark.driver.port",
    "spark.driver.bindAddress", "spark.executor.id", "spark.repl.", "spark.jars.packages", "spark.ui.port",
)  # fmt: skip
"""Keys, and prefixes of keys, that hold for the running application alone."""


def inherited_confs(confs: Mapping[str, str]) -> dict[str, str]:
    """The confs of a running session with which another application finds the same tables, jars and files.

    Packages are downloaded already, and are passed on as jars. What was set because the session runs on this machine
    alone is left out.
    """
    kept = {
        key: value
        for key, value in confs.items()
        if not key.startswith(_OF_ONE_APPLICATION) and _ON_ONE_MACHINE.get(key) != value
    }
    jars = {_file_name(jar) for jar in kept.get(_JARS, "").split(",")}
    for key in ("spark.files", "spark.submit.pyFiles"):  # Spark adds the jars of packages to both
        files = [file for file in kept.pop(key, "").split(",") if file and _file_name(file) not in jars]
        if files:
            kept[key] = ",".join(files)
    return kept


def _file_name(path: str) -> str:
    return path.rpartition("/")[2]


def _packages(given: Mapping[str, str], spark: str, present: Collection[str]) -> str:
    """The packages to download; empty if the user names all jars (``spark.jars`` without packages)."""
    if _JARS in given and _PACKAGES not in given:
        return ""
    named = [_file_name(text) for text in given.get(_JARS, "").split(",")]
    artifacts = [text.split(":")[1] for text in given.get(_PACKAGES, "").split(",") if text.count(":") >= 2]
    brought = (*named, *artifacts, *present)
    needed = [jar for jar, start in _ARTIFACTS.items() if not any(each.startswith(start) for each in brought)]
    if not needed:
        return ""
    jars = required_line(spark).jars
    return ",".join(jars[name] for name in needed if name in jars)


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
