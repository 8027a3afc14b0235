"""The user's Spark configuration is found where spark-submit looks, and takes precedence over ours."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakekeeper.errors import AdapterError
from lakekeeper.spark import installation, properties
from lakekeeper.spark.lines import LINES
from lakekeeper.spark.session_confs import session_confs

NEWEST = LINES[0].spark


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No configuration except what a test sets."""
    for name in ("SPARK_HOME", "PYSPARK_SUBMIT_ARGS", "SPARK_DRIVER_MEMORY", "MASTER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "conf"))
    (tmp_path / "conf").mkdir()
    return tmp_path / "conf"


def test_a_properties_file_is_read_as_java_reads_it() -> None:
    lines = (
        "# a", "! b", "", "spark.a 1 2", "spark.b=x=y", "spark.c : z  ", "spark.d\\", "   ext \\", "  long",
        r"spark.e=C\:\\t\u00e9", "spark.f",
    )  # fmt: skip
    text = "\n".join(lines)
    assert [(key, value) for _, key, value in properties.entries(text)] == [
        ("spark.a", "1 2"),
        ("spark.b", "x=y"),
        ("spark.c", "z"),
        ("spark.dext", "long"),
        ("spark.e", "C:\\té"),
        ("spark.f", ""),
    ]


# A line and its value: what Java and Spark take for white space and for the end of a line.
VALUES = {
    r"spark.a=\n": "\n",
    r"spark.a \r": "\r",
    r"spark.a=\r\n": "\r\n",
    r"spark.a: \n \t": "\n",
    r"spark.a=\t\f\u0000x\u0001\u0020": "x",
    r"spark.a=\t": "",
    "spark.a=\xa0x\xa0": "\xa0x\xa0",
    "spark.a=\u2003x": "\u2003x",
    "spark.a=x\x0by": "x\x0by",
    "spark.a=x\fy": "x\fy",
    "spark.a=x\x1cy": "x\x1cy",
    "spark.a=x\x85y": "x\x85y",
    "spark.a=x\u2028y": "x\u2028y",
    "spark.a=x\ry": "x",
    "spark.a=x\r\n": "x",
    "\fspark.a\f=\fx\f": "x",
    "spark.a\tx y": "x y",
    "spark.a=x\\\r\n\f\ty": "xy",
    "spark.a=x\\\ry": "xy",
}


@pytest.mark.parametrize("text", VALUES, ids=ascii)
def test_white_space_and_line_ends_are_those_of_java(text: str) -> None:
    found = {key: value for _, key, value in properties.entries(text)}
    assert found["spark.a"] == VALUES[text]
    assert next(line for line, _, _ in properties.entries(f"#\r\n{text}")) == 2


@pytest.mark.spark
@pytest.mark.parametrize("text", VALUES, ids=ascii)
def test_spark_reads_the_same(spark: SparkSession, tmp_path: Path, text: str) -> None:
    file = tmp_path / "spark.conf"
    file.write_bytes(text.encode())
    jvm: Any = spark.sparkContext._jvm
    assert jvm.org.apache.spark.util.Utils.getPropertiesFromFile(str(file)).apply("spark.a") == VALUES[text]
    assert properties.read(file)["spark.a"] == VALUES[text]


def test_later_sources_win(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (bare / "spark-defaults.conf").write_text(
        "spark.driver.memory 5g\nspark.a file\nspark.b file\nspark.c file\nother x\n"
    )
    monkeypatch.setenv("SPARK_DRIVER_MEMORY", "2g")
    monkeypatch.setenv("MASTER", "yarn")
    monkeypatch.setenv(
        "PYSPARK_SUBMIT_ARGS", "--name 'a b' --conf spark.b=args -c spark.c=args --jars x.jar pyspark-shell"
    )
    assert installation.user_confs({"spark.c": "call"}) == {
        "spark.master": "yarn",
        "spark.driver.memory": "5g",
        "spark.a": "file",
        "spark.b": "args",
        "spark.c": "call",
        "spark.jars": "x.jar",
    }


def test_a_properties_file_replaces_spark_defaults(bare: Path) -> None:
    (bare / "spark-defaults.conf").write_text("spark.a 1\n")
    assert installation.user_confs({"spark.b": "2"}, Path("other.conf")) == {"spark.b": "2"}


@pytest.mark.parametrize("option", ["--properties-file {}", "--properties-file={}"])
def test_a_properties_file_of_the_environment_replaces_spark_defaults(
    bare: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, option: str
) -> None:
    (bare / "spark-defaults.conf").write_text("spark.a defaults\nspark.defaults 1\n")
    file = tmp_path / "their own.conf"
    file.write_text("spark.a file\nspark.b file\nspark.master yarn\nother x\n")
    arguments = f"--conf spark.b=args {option.format(repr(str(file)))} pyspark-shell"
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", arguments)
    read = {"spark.a": "file", "spark.b": "args", "spark.master": "yarn"}
    assert installation.user_confs({}) == read
    assert installation.user_confs({"spark.b": "call"}) == {**read, "spark.b": "call"}
    assert installation.user_confs({}, Path("other.conf")) == {"spark.b": "args"}
    file.unlink()
    with pytest.raises(AdapterError, match=r"their own\.conf cannot be read"):
        installation.user_confs({})


def test_the_configuration_of_spark_home_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SPARK_CONF_DIR")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    (tmp_path / "spark" / "conf").mkdir(parents=True)
    (tmp_path / "spark" / "conf" / "spark-defaults.conf").write_text("spark.a 1\n")
    assert installation.defaults() == {"spark.a": "1"}


def test_unreadable_defaults_are_reported(bare: Path) -> None:
    (bare / "spark-defaults.conf").write_bytes(b"spark.a \xff\n")
    with pytest.raises(AdapterError, match=r"spark-defaults\.conf cannot be read"):
        installation.defaults()


def test_without_pyspark_the_error_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyspark"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setattr(sys, "meta_path", [each for each in sys.meta_path if "editable" not in repr(each)])
    with pytest.raises(
        AdapterError, match=r"PySpark is not installed: run .*lakekeeper-spark\[spark\].*SPARK_HOME"
    ):
        installation.use_pyspark()


def test_pyspark_of_spark_home_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "python" / "pyspark").mkdir(parents=True)
    (tmp_path / "python" / "pyspark" / "__init__.py").write_text("__version__ = 'mine'\n")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyspark"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", list(sys.path))
    installation.use_pyspark()
    assert sys.modules["pyspark"].__version__ == "mine"


def test_our_confs_fill_only_unset_ones() -> None:
    given = {
        "spark.master": "local[4]",
        "spark.driver.memory": "5g",
        "spark.sql.shuffle.partitions": "200",
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.catalog.spark_catalog": "org.apache.iceberg.spark.SparkSessionCatalog",
        "spark.sql.extensions": "org.example.Mine",
    }
    confs = session_confs({}, given, spark=NEWEST)
    assert {key: confs[key] for key in given if key != "spark.sql.extensions"} == {
        key: value for key, value in given.items() if key != "spark.sql.extensions"
    }
    assert confs["spark.sql.extensions"].endswith(",org.example.Mine")
    assert confs["spark.ui.enabled"] == "false"


def test_a_cluster_keeps_its_own_defaults() -> None:
    confs = session_confs({}, {"spark.master": "yarn"}, spark=NEWEST)
    assert not {"spark.driver.memory", "spark.sql.shuffle.partitions", "spark.ui.enabled"} & set(confs)


@pytest.mark.parametrize(
    "given",
    [
        {"spark.hadoop.hive.metastore.uris": "thrift://h:9083"},
        {"spark.hive.metastore.uris": "thrift://h:9083"},
    ],
)
def test_a_configured_metastore_is_used(given: dict[str, str]) -> None:
    assert session_confs({}, given, spark=NEWEST)["spark.sql.catalogImplementation"] == "hive"
    assert session_confs({}, {}, spark=NEWEST, hive=True)["spark.sql.catalogImplementation"] == "hive"
    assert session_confs({}, {}, spark=NEWEST)["spark.sql.catalogImplementation"] == "in-memory"


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.name)
def test_packages_of_the_line(line: object) -> None:
    assert session_confs({}, {}, spark=line.spark)["spark.jars.packages"] == ",".join(line.jars.values())  # type: ignore[attr-defined]  # a Line


def test_a_package_that_the_user_brings_is_not_added_in_another_version() -> None:
    theirs = "io.delta:delta-spark_2.13:4.0.0"
    packages = session_confs({}, {"spark.jars.packages": theirs}, spark=NEWEST)["spark.jars.packages"].split(
        ","
    )
    assert theirs in packages
    assert sum("delta-spark" in package for package in packages) == 1
    assert any("iceberg-spark-runtime" in package for package in packages)
    there = (
        "iceberg-spark-runtime-4.1_2.13-1.11.0.jar",
        "delta-spark_4.1_2.13-4.3.1.jar",
        "sqlite-jdbc-3.50.3.0.jar",
    )
    assert "spark.jars.packages" not in session_confs({}, {}, spark=NEWEST, present=there)


def test_an_unknown_spark_needs_no_packages_where_the_user_brings_the_jars() -> None:
    assert session_confs({}, {"spark.jars": "delta.jar"}, spark="9.9.9")["spark.jars"] == "delta.jar"
    with pytest.raises(AdapterError, match=r"Spark 9\.9\.9"):
        session_confs({}, {}, spark="9.9.9")
