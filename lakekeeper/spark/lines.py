"""The release lines of Spark that lakekeeper is tested on, and the packages that belong to each.

The jars of both formats are built for one release line of Spark (4.1, 4.0, 3.5) and one version of Scala. Versions are
listed only here: sessions that lakekeeper starts, ``lakekeeper doctor`` and ``make compat`` read this table, and a test
compares it with the versions that the adapters accept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from lakekeeper.errors import AdapterError


@dataclass(frozen=True, slots=True)
class Line:
    """A release line of Spark: the tested release, its Scala, and the jars of both formats as Maven coordinates."""

    name: str
    spark: str
    scala: str
    jars: Mapping[str, str]

    def version(self, jar: str) -> str:
        """The version of one of its jars."""
        return self.jars[jar].rpartition(":")[2]


def _line(name: str, spark: str, scala: str, *, delta: str, iceberg: str) -> Line:
    jars = {
        "delta": f"io.delta:{delta}",
        "iceberg": f"org.apache.iceberg:iceberg-spark-runtime-{name}_{scala}:{iceberg}",
        "sqlite": "org.xerial:sqlite-jdbc:3.50.3.0",
    }
    return Line(name, spark, scala, MappingProxyType(jars))


LINES: tuple[Line, ...] = (
    _line("4.1", "4.1.1", "2.13", delta="delta-spark_4.1_2.13:4.3.1", iceberg="1.12.0"),
    # The artifacts of Delta 4.0 and 3.3 do not name Spark's release line. Iceberg 1.11 is the last one for Spark 4.0.
    _line("4.0", "4.0.1", "2.13", delta="delta-spark_2.13:4.0.1", iceberg="1.11.0"),
    _line("3.5", "3.5.7", "2.12", delta="delta-spark_2.12:3.3.2", iceberg="1.12.0"),
)
"""Newest first."""

NEWEST = LINES[0]


def line_of(version: str) -> Line | None:
    """The release line of a version of Spark such as ``4.0.1``; None if it is not one of `LINES`."""
    name = ".".join(version.split(".")[:2])
    return next((line for line in LINES if line.name == name), None)


def required_line(version: str) -> Line:
    """The release line of a version of Spark. Raises AdapterError if no jars are known for it."""
    found = line_of(version)
    if found is None:
        known = ", ".join(line.name for line in LINES)
        raise AdapterError(
            f"this is Spark {version}, and lakekeeper has packages for Spark {known}: install one of these "
            f"(pip install pyspark=={NEWEST.spark}), or set spark.jars to the jars of your table formats"
        )
    return found


def nearest_line(version: str) -> Line:
    """The release line of a version of Spark; if it is unknown, the nearest older one, else the oldest."""
    wanted = _number(version)
    return next((line for line in LINES if _number(line.name) <= wanted), LINES[-1])


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
