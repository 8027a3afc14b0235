"""What the doctor reports. Versions, Java and most sessions are simulated."""

from __future__ import annotations

import importlib.metadata
import os
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.conf import RuntimeConfig

from lakekeeper.spark import doctor, java_runtime, session, session_confs
from lakekeeper.spark.lines import NEWEST


def _by_name(findings: tuple[doctor.Finding, ...]) -> dict[str, doctor.Finding]:
    return {finding.name: finding for finding in findings}


def _java_that_prints(place: Path, banner: str) -> Path:
    program = place / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{banner}' >&2\n")
    program.chmod(0o755)
    return place


@pytest.mark.parametrize(
    "banner, expected",
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "11.0.2"', 11),
        ("command not found", None),
    ],
)
def test_reads_the_major_version_of_java(banner: str, expected: int | None) -> None:
    assert java_runtime.major_version(banner) == expected


def test_an_old_java_is_reported_with_a_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = _java_that_prints(tmp_path / "jdk11", 'openjdk version "11.0.2" 2019-01-15')
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setattr(java_runtime, "JAVA_HOMES", ())
    finding = _by_name(doctor.examine())["java"]
    assert not finding.ok
    assert "Java 11" in finding.found
    assert finding.expected == "Java 17 or 21"
    assert "openjdk-17-jre-headless" in finding.advice


def test_no_java_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(java_runtime, "JAVA_HOMES", ())
    finding = _by_name(doctor.examine())["java"]
    assert (finding.ok, finding.found) == (False, "none")


def test_an_empty_java_home_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(java_runtime, "JAVA_HOMES", ())
    assert f"JAVA_HOME={tmp_path}" in _by_name(doctor.examine())["java"].found


def test_a_supported_java_elsewhere_is_advised_and_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = _java_that_prints(tmp_path / "old", 'openjdk version "1.8.0_392"')
    good = _java_that_prints(tmp_path / "jvm" / "java-21", 'openjdk version "21.0.3" 2024-04-16')
    monkeypatch.setenv("JAVA_HOME", str(old))
    monkeypatch.setattr(java_runtime, "JAVA_HOMES", (str(tmp_path / "jvm"),))
    assert _by_name(doctor.examine())["java"].advice == f"export JAVA_HOME={good}"
    session.prepare_environment("local[*]")
    assert os.environ["JAVA_HOME"] == str(good)


@pytest.mark.parametrize(
    "name, version, ok",
    [
        ("pyspark", "4.1.1", True),
        ("pyspark", "4.3.0", False),
        ("delta-spark", "4.4.1", False),
        ("pyiceberg", "0.12.3", True),
        ("pyiceberg", "0.120.0", False),
        ("pyarrow", "26.0.1", True),
        ("pyarrow", "27.0.0", False),
        ("pyarrow", None, False),
        ("pyspark", None, False),
        ("pyiceberg", None, True),
    ],
)
def test_incompatible_versions(
    name: str, version: str | None, ok: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.metadata.version

    def played(distribution: str) -> str:
        if distribution != name:
            return real(distribution)
        if version is None:
            raise importlib.metadata.PackageNotFoundError(distribution)
        return version

    monkeypatch.setattr(importlib.metadata, "version", played)
    finding = _by_name(doctor.examine())[name]
    assert finding.ok is ok
    assert bool(finding.advice) is not ok


def test_the_pins_of_the_project_and_of_the_session_agree() -> None:
    pins = importlib.metadata.requires("lakekeeper-spark") or []
    assert any(pin.startswith(f"pyspark=={NEWEST.spark}") for pin in pins)
    assert any(pin.startswith(f"delta-spark=={NEWEST.version('delta')}") for pin in pins)


def test_the_wheel_brings_what_a_columnar_merge_needs() -> None:
    """Where one is missing, each merge runs by rows instead."""
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    required = text.partition("\ndependencies = [\n")[2].partition("\n]\n")[0]
    assert {"numpy", "pyarrow"} <= set(re.findall(r'^ +"(\w+)', required, re.MULTILINE))


def test_a_foreign_worker_python_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    assert _by_name(doctor.examine())["PYSPARK_PYTHON"].ok
    foreign = tmp_path / "python3"
    foreign.write_text("#!/bin/sh\n")
    foreign.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(foreign))
    finding = _by_name(doctor.examine())["PYSPARK_PYTHON"]
    assert not finding.ok
    assert finding.advice == f"export PYSPARK_PYTHON={sys.executable}"


def test_an_unset_worker_python_is_fine_unless_a_session_runs_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    assert _by_name(doctor.examine())["PYSPARK_PYTHON"].ok
    running: Any = SimpleNamespace(
        version="4.1.1", sparkContext=SimpleNamespace(pythonExec="nowhere/python3")
    )
    finding = _by_name(doctor.examine(running))["PYSPARK_PYTHON"]
    assert (finding.ok, finding.found) == (False, "nowhere/python3")


def test_a_foreign_spark_home_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert not _by_name(doctor.examine())["SPARK_HOME"].ok


def test_a_connect_session_is_named() -> None:
    connect: Any = SimpleNamespace(version="4.1.1")
    finding = doctor.examine(connect)[-1]
    assert (finding.name, finding.ok, finding.found) == ("session", False, "Spark Connect")
    assert "classic" in finding.advice


def _played_session(loadable: set[str], extensions: str, warehouse: str) -> Any:
    classes = SimpleNamespace(classIsLoadable=lambda name: name in loadable)
    jvm = SimpleNamespace()
    jvm.org = SimpleNamespace(
        apache=SimpleNamespace(spark=SimpleNamespace(util=SimpleNamespace(Utils=classes)))
    )
    confs = {"spark.sql.extensions": extensions, "spark.sql.warehouse.dir": warehouse}
    return SimpleNamespace(
        version="4.1.1",
        _jsparkSession=object(),
        sparkContext=SimpleNamespace(_jvm=jvm),
        conf=SimpleNamespace(get=lambda key, default=None: confs.get(key, default), getAll=confs),
    )


def test_missing_jars_and_extensions_are_distinguished(tmp_path: Path) -> None:
    spark = _played_session({session_confs.EXTENSIONS["delta"]}, "", f"file:{tmp_path}")
    findings = _by_name(doctor.examine(spark))
    assert "not its extension" in findings["delta in session"].found
    assert "no iceberg jar" in findings["iceberg in session"].found
    assert NEWEST.jars["iceberg"] in findings["iceberg in session"].advice
    assert findings["write access"].ok


def test_a_complete_session_is_fine(tmp_path: Path) -> None:
    extensions = ",".join(session_confs.EXTENSIONS.values())
    spark = _played_session(set(session_confs.EXTENSIONS.values()), extensions, str(tmp_path / "not yet"))
    findings = _by_name(doctor.examine(spark))
    assert all(
        findings[name].ok for name in ("delta in session", "iceberg in session", "write access", "session")
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.spark
def test_each_catalog_of_a_session_is_checked(spark: SparkSession, confs: RuntimeConfig) -> None:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS ice.doctor")
    for key, value in session_confs.catalog_conf("away", "rest:http://127.0.0.1:9").items():
        confs.set(key, value)
    findings = _by_name(doctor.examine(spark))
    assert findings["catalog ice"].ok
    assert "namespace" in findings["catalog ice"].found
    assert findings["catalog spark_catalog"].ok
    assert findings["catalog hdp"].ok
    away = findings["catalog away"]
    assert not away.ok
    assert "catalog 'away' does not respond: HttpHostConnectException: Connect to" in away.found
    assert "spark.sql.catalog.away.*" in away.advice


def test_a_warehouse_that_cannot_be_written(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    finding = doctor.writable(file)
    assert not finding.ok
    assert str(file) in finding.advice


def test_a_finding_prints_itself() -> None:
    good = doctor.Finding("java", ok=True, found="Java 17", expected="Java 17 or 21")
    bad = doctor.Finding("java", ok=False, found="none", expected="Java 17 or 21", advice="install it")
    assert str(good) == "ok   java: Java 17"
    assert str(bad) == "FAIL java: none, expected Java 17 or 21\n     install it"
    assert bad.to_dict()["advice"] == "install it"
