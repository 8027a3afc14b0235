"""Catalog specifications and confs, without a JVM; then the real session of the test run."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakekeeper.errors import OptionError
from lakekeeper.spark import session, session_confs
from lakekeeper.spark.lines import NEWEST

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_sqlite_catalog_keeps_its_tables_beside_its_file_or_in_the_warehouse(tmp_path: Path) -> None:
    spec = f"jdbc:sqlite:{tmp_path}/c.db"
    confs = session_confs.catalog_conf("ice", spec)
    assert confs["spark.sql.catalog.ice.uri"] == spec
    assert confs["spark.sql.catalog.ice.warehouse"] == str(tmp_path / "ice")
    confs = session_confs.catalog_conf("ice", spec, tmp_path / "wh")
    assert confs["spark.sql.catalog.ice.warehouse"] == str(tmp_path / "wh" / "ice")


def test_a_bare_path_is_a_sqlite_file(tmp_path: Path) -> None:
    confs = session_confs.catalog_conf("ice", f"jdbc:{tmp_path}/c.db")
    assert confs["spark.sql.catalog.ice.uri"] == f"jdbc:sqlite:{tmp_path}/c.db"


def test_rest_and_hadoop_catalogs() -> None:
    assert (
        session_confs.catalog_conf("r", "rest:http://localhost:8181")["spark.sql.catalog.r.uri"]
        == "http://localhost:8181"
    )
    hadoop = session_confs.catalog_conf("h", "hadoop:s3a://bucket/wh")
    assert hadoop["spark.sql.catalog.h.warehouse"] == "s3a://bucket/wh"


@pytest.mark.parametrize("spec", ["hadop:/x", "jdbc:", "jdbc", ""])
def test_a_bad_catalog_is_an_option_error(spec: str) -> None:
    with pytest.raises(OptionError, match="catalog ice"):
        session_confs.catalog_conf("ice", spec)


def test_given_packages_are_added_to_ours_and_other_confs_win() -> None:
    given = {
        "spark.jars.packages": "org.example:thing_2.13:1.0",
        "spark.driver.memory": "5g",
        "spark.driver.extraJavaOptions": "-Dx=1",
    }
    confs = session_confs.session_confs({}, given, spark=NEWEST.spark, small_data=True)
    assert confs["spark.jars.packages"] == ",".join([*NEWEST.jars.values(), "org.example:thing_2.13:1.0"])
    assert confs["spark.driver.memory"] == "5g"
    assert confs["spark.driver.extraJavaOptions"].endswith("-XX:+UseSerialGC -Dx=1")


def test_given_jars_replace_the_download() -> None:
    confs = session_confs.session_confs({}, {"spark.jars": "a.jar"}, spark=NEWEST.spark)
    assert "spark.jars.packages" not in confs
    assert confs["spark.jars"] == "a.jar"


@pytest.mark.parametrize(
    "master, resolves, expected",
    [
        ("local", True, "127.0.0.1"),
        ("local[*]", True, "127.0.0.1"),
        ("local-cluster[2,1,1024]", True, "127.0.0.1"),
        ("spark://10.0.0.1:7077", True, None),
        ("yarn", True, None),
        ("k8s://https://cluster", True, None),
        ("yarn", False, "127.0.0.1"),
    ],
)
def test_the_driver_of_a_cluster_is_not_bound_to_the_loopback_address(
    monkeypatch: pytest.MonkeyPatch, master: str, resolves: bool, expected: str | None
) -> None:
    def address(host: str) -> str:
        if not resolves:
            raise socket.gaierror(-2, "Name or service not known")
        return "10.0.0.2"

    monkeypatch.setattr(socket, "gethostbyname", address)
    for name in ("usable_java", "effective_java"):
        monkeypatch.setattr(session, name, lambda: "java")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    for before in (None, "10.0.0.3"):
        monkeypatch.setenv("SPARK_LOCAL_IP", "")
        del os.environ["SPARK_LOCAL_IP"]
        if before:
            os.environ["SPARK_LOCAL_IP"] = before
        session.prepare_environment(master)
        assert os.environ.get("SPARK_LOCAL_IP") == (before or expected)


@pytest.mark.spark
def test_the_session_of_the_tests_is_complete(spark: SparkSession) -> None:
    assert session.missing(spark) == ()
    assert not session.class_loadable(spark, "org.example.Nothing")


@pytest.mark.spark
def test_a_running_session_is_taken_over(spark: SparkSession, tmp_path: Path) -> None:
    taken = session.local_session(
        catalogs={"late": f"hadoop:{tmp_path}"}, conf={"spark.lakekeeper.session-test": "1"}
    )
    assert taken.conf.get("spark.lakekeeper.session-test") == "1"
    # Not a lakekeeper option: every later call would refuse it.
    taken.conf.unset("spark.lakekeeper.session-test")
    taken.sql("CREATE TABLE late.db.t (id BIGINT) USING iceberg")
    assert (tmp_path / "db" / "t" / "metadata").is_dir()
    with pytest.raises(OptionError, match=r"spark\.driver\.memory"):
        session.local_session(conf={"spark.driver.memory": "9g"})
