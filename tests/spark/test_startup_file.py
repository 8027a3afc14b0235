"""A JVM reads its confs from a file of its owner: the arguments of a process are visible to every user."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakekeeper.errors import AdapterError
from lakekeeper.spark import properties
from lakekeeper.spark.startup_file import startup_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SUBMIT = """#!{python}
import json, os, sys
file = sys.argv[sys.argv.index("--properties-file") + 1] if "--properties-file" in sys.argv else None
said = {{"argv": sys.argv[1:], "file": file, "mode": os.stat(file).st_mode if file else None}}
said["prepared"] = os.environ.get("PREPARED_FOR")
said["text"] = open(file).read() if file else ""
json.dump(said, open({out!r}, "w"))
sys.exit(1)
"""
_START = """
import os, pathlib, sys
import lakekeeper.spark.session as session
session.prepare_environment = lambda master: os.environ.update(PREPARED_FOR=master)
try:
    session.local_session(conf={"spark.hadoop.call.key": "SECRET-call", "spark.both": "call", "spark.jars": "a.jar"},
                          properties_file=pathlib.Path(sys.argv[1]) if sys.argv[1:] else None)
except Exception:
    pass
"""
VALUES = {
    "spark.equals": "a=b:c",
    "spark.comment": "# no ! comment",
    "spark.path": r"C:\temp\new\\",
    "spark.delimiter": "\n",
    "spark.lines": "one\ntwo\r\n\tthree\f",
    "spark.letters": "né € 😀 \u2028 \x85 \x00",
    "spark.blank": "",
    "spark.inner": "a  b",
    "spark.k ey=x:#!\\é": "1",
}


@pytest.fixture
def started(tmp_path: Path) -> Any:
    """Starts a session in a process of its own, with a spark-submit that records how it was called."""
    submit, out, conf = tmp_path / "spark/bin/spark-submit", tmp_path / "out.json", tmp_path / "conf"
    submit.parent.mkdir(parents=True)
    (tmp_path / "spark/jars").mkdir()
    submit.write_text(_SUBMIT.format(python=sys.executable, out=str(out)))
    submit.chmod(0o755)
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text(
        "spark.hadoop.fs.s3a.secret.key SECRET-file\nspark.both file\nspark.driver.memory 5g\n"
    )

    def start(*files: Path, arguments: str | None = None) -> dict[str, Any]:
        given = {"SPARK_HOME": str(tmp_path / "spark"), "SPARK_CONF_DIR": str(conf)}
        gone = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET", "PYSPARK_SUBMIT_ARGS")
        environment = {k: v for k, v in os.environ.items() if k not in gone} | given
        environment["PYTHONPATH"] = os.pathsep.join(sys.path)
        if arguments is not None:
            environment["PYSPARK_SUBMIT_ARGS"] = arguments
        subprocess.run([sys.executable, "-c", _START, *map(str, files)], env=environment, check=True)
        found: dict[str, Any] = json.loads(out.read_text())
        found["confs"] = {key: value for _, key, value in properties.entries(found["text"])}
        return found

    return start


def test_no_conf_is_an_argument_of_spark_submit(started: Any) -> None:
    said = started()
    assert said["argv"] == ["--properties-file", said["file"], "pyspark-shell"]
    assert said["confs"]["spark.hadoop.fs.s3a.secret.key"] == "SECRET-file"
    assert said["confs"]["spark.hadoop.call.key"] == "SECRET-call"
    assert (said["confs"]["spark.both"], said["confs"]["spark.driver.memory"]) == ("call", "5g")
    assert said["confs"]["spark.app.name"] == "lakekeeper"
    assert said["confs"]["spark.master"] == "local[*]"
    assert said["mode"] & 0o777 == 0o600
    assert not Path(said["file"]).exists()


def test_a_properties_file_is_read_in_place_of_the_defaults(started: Any, tmp_path: Path) -> None:
    file = tmp_path / "other.conf"
    file.write_text("spark.both file\nspark.hadoop.other.key SECRET-other\n")
    for said in (started(file), started(arguments=f"--properties-file '{file}' --name x pyspark-shell")):
        assert "SECRET" not in " ".join(said["argv"])
        assert str(file) not in said["argv"]
        assert said["confs"]["spark.hadoop.other.key"] == "SECRET-other"
        assert said["confs"]["spark.both"] == "call"
    assert said["argv"][2:] == ["--name", "x", "pyspark-shell"]


def test_a_properties_file_of_the_environment_wins_over_our_own_confs(started: Any, tmp_path: Path) -> None:
    """But not over a given one."""
    theirs, given = tmp_path / "theirs.conf", tmp_path / "given.conf"
    theirs.write_text("spark.driver.memory 6g\nspark.master yarn\nspark.ui.enabled true\nspark.theirs 1\n")
    given.write_text("spark.given 1\n")
    arguments = f"--properties-file {theirs} pyspark-shell"
    confs = started(arguments=arguments)["confs"]
    assert (confs["spark.driver.memory"], confs["spark.master"]) == ("6g", "yarn")
    assert (confs["spark.ui.enabled"], confs["spark.theirs"]) == ("true", "1")
    assert "spark.hadoop.fs.s3a.secret.key" not in confs
    confs = started(given, arguments=arguments)["confs"]
    assert confs["spark.given"] == "1"
    assert "spark.theirs" not in confs


@pytest.mark.parametrize(
    "arguments, master",
    [
        ("pyspark-shell", "local[*]"),
        ("--master yarn pyspark-shell", "yarn"),
        ("--conf spark.master=spark://a:7077 pyspark-shell", "spark://a:7077"),
    ],
)
def test_the_environment_is_prepared_for_the_master_of_the_users_confs(
    started: Any, arguments: str, master: str
) -> None:
    assert started(arguments=arguments)["prepared"] == master


def test_arguments_of_the_environment_come_last_as_before(started: Any) -> None:
    said = started(arguments="--driver-memory 7g --conf 'spark.x=a b' pyspark-shell")
    assert said["argv"][2:] == ["--driver-memory", "7g", "--conf", "spark.x=a b", "pyspark-shell"]


def test_the_environment_is_restored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for before in (None, "--name x pyspark-shell"):
        monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
        if before:
            monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", before)
        with pytest.raises(KeyboardInterrupt), startup_file({"spark.a": "1"}):
            raise KeyboardInterrupt
        assert os.environ.get("PYSPARK_SUBMIT_ARGS") == before
    with (
        pytest.raises(AdapterError, match=r"gone\.conf cannot be read"),
        startup_file({}, tmp_path / "gone.conf"),
    ):
        pass


def test_every_value_survives_the_file() -> None:
    text = properties.text_of(VALUES)
    assert text.isascii()
    assert {key: value for _, key, value in properties.entries(text)} == {
        key: value.strip(" \t\f\x00") for key, value in VALUES.items()
    }


@pytest.mark.spark
def test_java_reads_every_value(spark: SparkSession) -> None:
    jvm: Any = spark.sparkContext._jvm
    read = jvm.java.util.Properties()
    read.load(jvm.java.io.StringReader(properties.text_of({**VALUES, "spark.leading": "  a "})))
    assert {key: read.getProperty(key) for key in VALUES} == VALUES
    assert read.getProperty("spark.leading") == "  a "
