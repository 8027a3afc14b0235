"""The table of tested versions: what is chosen for a Spark version, and that the adapters accept exactly that."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lakekeeper.errors import AdapterError
from lakekeeper.spark.library_versions import require_tested, versions_in_session
from lakekeeper.spark.lines import LINES, line_of, nearest_line, required_line
from lakekeeper.spark.shims.hashed_numbers import hashed_to, murmur3
from lakekeeper_delta.shims import TESTED

ROOT = Path(__file__).parents[2]


def test_a_version_belongs_to_the_line_of_its_first_two_numbers() -> None:
    assert [line.name for each in ("4.1.4", "4.0.0", "3.5.9") if (line := line_of(each))] == [
        "4.1",
        "4.0",
        "3.5",
    ]
    assert line_of("4.2.0") is None
    assert line_of("3.4.1") is None


def test_packages_for_a_version_of_no_line_are_refused() -> None:
    with pytest.raises(AdapterError, match=r"Spark 4\.2\.0, and .* Spark 4\.1, 4\.0, 3\.5: .*spark\.jars"):
        required_line("4.2.0")


def test_the_nearest_line_is_not_newer() -> None:
    assert [nearest_line(each).name for each in ("5.0.0", "4.2.1", "4.0.9", "3.9.0", "3.3.0")] == [
        "4.1", "4.1", "4.0", "3.5", "3.5",
    ]  # fmt: skip


def test_each_jar_is_built_for_the_scala_of_its_line() -> None:
    for line in LINES:
        assert all(f"_{line.scala}:" in line.jars[name] for name in ("delta", "iceberg"))
        assert f"-{line.name}_" in line.jars["iceberg"]


def test_delta_has_a_shim_for_each_line() -> None:
    assert tuple(line.version("delta") for line in LINES) == TESTED


def test_the_page_names_the_versions_of_the_table() -> None:
    page = (ROOT / "docs" / "how-to" / "your-spark.md").read_text()
    rows = {
        row[0]: row[1:]
        for row in re.findall(r"^\| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([^|]+) \|", page, re.MULTILINE)
    }
    assert tuple(rows) == tuple(line.spark for line in LINES)
    for line in LINES:
        scala, delta, iceberg = rows[line.spark]
        assert (scala, delta) == (line.scala, line.version("delta"))
        assert iceberg == line.version("iceberg")


def test_spark_s_hash_is_ours() -> None:
    assert murmur3(np.array([0, 1], np.uint32)).tolist() == [933211791, -559580957]  # SELECT hash(0), hash(1)


@pytest.mark.parametrize("count", [1, 2, 7, 200, 3001])
def test_a_number_for_each_partition(count: int) -> None:
    numbers = np.array(hashed_to(count), np.uint32)
    assert (murmur3(numbers).astype(np.int64) % count).tolist() == list(range(count))


def test_another_release_line_of_spark_is_refused_with_the_tested_ones() -> None:
    session = SimpleNamespace(conf=SimpleNamespace(get=lambda _key, _default: None), version="3.4.4")
    jvm: Any = SimpleNamespace(spark=session)
    versions = versions_in_session(jvm, "Iceberg", "1.12.0", "iceberg")
    with pytest.raises(
        AdapterError,
        match=r"db\.t: the session has Spark 3\.4\.4, .* tested with 4\.1\.1 or 4\.0\.1 or 3\.5\.7\. ",
    ):
        require_tested(jvm, "db.t", versions, dict)


def test_a_library_of_another_line_is_refused() -> None:
    session = SimpleNamespace(conf=SimpleNamespace(get=lambda _key, _default: None), version="4.0.1")
    jvm: Any = SimpleNamespace(spark=session)
    require_tested(jvm, "t", versions_in_session(jvm, "Delta Lake", "4.0.1", "delta"), dict)
    with pytest.raises(
        AdapterError, match=r"Delta Lake 4\.3\.1, and the table's format is tested with 4\.0\.1"
    ):
        require_tested(jvm, "t", versions_in_session(jvm, "Delta Lake", "4.3.1", "delta"), dict)
