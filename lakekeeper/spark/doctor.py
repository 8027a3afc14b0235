"""Check this machine and this session, and advise how to fix problems. Starts and changes nothing.

    for finding in examine(spark): print(finding)

Without a session, checks Java, the installed distributions and the environment; with one, also its jars, extensions,
catalogs and warehouse. Checks never raise: a failure is a finding.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlparse

from lakekeeper.core.model.finding import Finding
from lakekeeper.core.text.formatting import counted
from lakekeeper.errors import message
from lakekeeper.spark.catalogs import catalogs
from lakekeeper.spark.identifiers import namespaces
from lakekeeper.spark.java_runtime import INSTALL, SUPPORTED, effective_java, usable_java
from lakekeeper.spark.lines import LINES, NEWEST, line_of
from lakekeeper.spark.session import missing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PYTHON = (3, 10)
"""The oldest Python that lakekeeper runs on."""

__all__ = ["PYTHON", "Finding", "examine", "writable"]


def examine(spark: SparkSession | None = None, *, warehouse: Path | None = None) -> tuple[Finding, ...]:
    """All findings, good and bad, in the order in which to fix them.

    Args:
        spark: a session to check too; classic or Connect.
        warehouse: a directory that must be writable; by default the session's warehouse if it is local.
    """
    findings = [_python(), _java(), *_distributions(), _worker_python(spark), _spark_home()]
    if spark is None:
        return tuple(findings if warehouse is None else [*findings, writable(warehouse)])
    if not hasattr(spark, "_jsparkSession"):
        advice = "use a classic session: unset SPARK_REMOTE, or run on the cluster's driver with spark-submit"
        return (
            *findings,
            Finding("session", ok=False, found="Spark Connect", expected="classic", advice=advice),
        )
    findings.append(Finding("session", ok=True, found=f"classic, Spark {spark.version}", expected="classic"))
    findings.extend(_lacks(spark))
    findings.extend(_catalog(spark, name) for name in catalogs(spark))
    where = warehouse or _local_path(spark.conf.get("spark.sql.warehouse.dir", "") or "")
    if where is not None:
        findings.append(writable(where))
    return tuple(findings)


def writable(directory: Path) -> Finding:
    """Whether a file can be created in ``directory`` or its nearest existing parent; the file is removed again."""
    name, expected = "write access", "a directory that this user may write to"
    place = directory.absolute()
    while not place.exists() and place != place.parent:
        place = place.parent
    try:
        with tempfile.NamedTemporaryFile(dir=place, prefix=".lakekeeper-doctor-"):
            return Finding(name, ok=True, found=str(directory), expected=expected)
    except OSError as error:
        advice = f"give this user write access to {place}, or choose another warehouse"
        return Finding(
            name, ok=False, found=f"{directory}: {error.strerror}", expected=expected, advice=advice
        )


def _python() -> Finding:
    found = ".".join(map(str, sys.version_info[:3]))
    expected = ".".join(map(str, PYTHON)) + " or newer"
    ok = sys.version_info[:2] >= PYTHON
    return Finding("python", ok, found, expected, "" if ok else "create the environment with a newer Python")


def _java() -> Finding:
    expected = "Java " + " or ".join(map(str, SUPPORTED))
    effective = effective_java()
    if effective is not None and effective.supported:
        return Finding(
            "java", ok=True, found=f"Java {effective.major} at {effective.program}", expected=expected
        )
    found = "none" if effective is None else f"Java {effective.major} at {effective.program}"
    if effective is None and os.environ.get("JAVA_HOME"):
        found = f"none that runs in JAVA_HOME={os.environ['JAVA_HOME']}"
    other = usable_java()
    advice = f"export JAVA_HOME={other.home}" if other else f"on Debian and Ubuntu: {INSTALL}"
    return Finding("java", ok=False, found=found, expected=expected, advice=advice)


def _distributions() -> list[Finding]:
    """The installed distributions that must match, each checked against the pins of this release."""
    line = line_of(_installed("pyspark") or "") or NEWEST
    return [
        _distribution("pyspark", line.spark, needed=True),
        _distribution("delta-spark", line.version("delta"), needed=False),
        _distribution("pyiceberg", "0.12", needed=False),
        _distribution("pyarrow", "20 to 26", needed=True),
    ]


def _distribution(name: str, expected: str, *, needed: bool) -> Finding:
    found = _installed(name)
    if found is None:
        if not needed:
            return Finding(name, ok=True, found="not installed (optional)", expected=expected)
        advice = f'python -m pip install "{_requirement(name, expected)}"'
        return Finding(name, ok=False, found="not installed", expected=expected, advice=advice)
    ok = _agrees(found, expected)
    advice = "" if ok else f'python -m pip install "{_requirement(name, expected)}"'
    return Finding(name, ok, found, expected, advice)


def _installed(name: str) -> str | None:
    """The version of an installed distribution."""
    with suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(name)
    return None


def _agrees(found: str, expected: str) -> bool:
    """``4.1.1`` matches only itself, ``0.12`` any version with that prefix, ``20 to 26`` a major version in between."""
    low, _, high = expected.partition(" to ")
    if high:
        major = found.partition(".")[0]
        return major.isdigit() and int(low) <= int(major) <= int(high)
    return found == expected or found.startswith(expected + ".")


def _requirement(name: str, expected: str) -> str:
    low, _, high = expected.partition(" to ")
    if high:
        return f"{name}>={low},<{int(high) + 1}"
    return f"{name}=={expected}" if expected.count(".") > 1 else f"{name}=={expected}.*"


def _worker_python(spark: SparkSession | None) -> Finding:
    """Spark's workers must run the Python of this environment, or they lack its packages.

    A running session knows its workers' Python; otherwise it is PYSPARK_PYTHON, which `local_session` sets if unset.
    """
    name, expected = "PYSPARK_PYTHON", sys.executable
    running = getattr(getattr(spark, "sparkContext", None), "pythonExec", None)
    value = running or os.environ.get("PYSPARK_PYTHON")
    if value is None:
        return Finding(name, ok=True, found="unset: a session made by lakekeeper sets it", expected=expected)
    program = shutil.which(value)
    # Links are not followed: a virtual environment's python is a link to a Python without its packages.
    ok = program is not None and os.path.abspath(program) in _own_programs()  # noqa: PTH100 - keeps the link
    found = value if program in (value, None) else f"{value}, which is {program}"
    return Finding(name, ok, found, expected, "" if ok else f"export PYSPARK_PYTHON={sys.executable}")


def _own_programs() -> set[str]:
    """The paths of this interpreter under each name in its environment (python, python3, python3.11)."""
    here = Path(os.path.abspath(sys.executable))  # noqa: PTH100 - keeps the link
    major, minor = sys.version_info[:2]
    names = (here.name, "python", f"python{major}", f"python{major}.{minor}")
    target = here.resolve()
    return {
        str(path) for name in names if (path := here.with_name(name)).exists() and path.resolve() == target
    }


def _spark_home() -> Finding:
    """A SPARK_HOME of another Spark takes precedence over the Spark that pip installed."""
    versions = " or ".join(line.spark for line in LINES)
    name, expected = "SPARK_HOME", f"unset, or a Spark {versions}"
    home = os.environ.get("SPARK_HOME")
    if not home:
        return Finding(name, ok=True, found="unset", expected=expected)
    jars = [jar for line in LINES for jar in Path(home, "jars").glob(f"spark-core_*-{line.spark}.jar")]
    advice = "" if jars else "unset SPARK_HOME, so that the Spark of this environment is used"
    return Finding(name, bool(jars), home, expected, advice)


def _lacks(spark: SparkSession) -> list[Finding]:
    lines = ", ".join(line.name for line in LINES)
    expected = f"a session of Spark {lines} with the jars and extensions of the formats in use"
    version = spark.version
    findings = []
    if line_of(version) is None:
        advice = f"run with one of the tested versions, such as Spark {NEWEST.spark}"
        findings.append(Finding("spark version", ok=False, found=version, expected=expected, advice=advice))
    for form in ("delta", "iceberg"):
        problems = missing(spark, (form,))
        found, _, remedy = problems[0].partition("; ") if problems else ("jar and extension", "", "")
        findings.append(Finding(f"{form} in session", not problems, found, expected, remedy))
    return findings


def _catalog(spark: SparkSession, name: str) -> Finding:
    """Whether a catalog responds."""
    title, expected = f"catalog {name}", "a catalog that responds"
    try:
        found = namespaces(spark, name)
    except Exception as error:
        advice = f"check spark.sql.catalog.{name}.* (uri, warehouse, credentials), and that this machine can reach it"
        return Finding(title, ok=False, found=message(error), expected=expected, advice=advice)
    return Finding(title, ok=True, found=counted(len(found), "namespace"), expected=expected)


def _local_path(location: str) -> Path | None:
    url = urlparse(location)
    if url.scheme not in {"", "file"} or not url.path:
        return None
    return Path(unquote(url.path))
