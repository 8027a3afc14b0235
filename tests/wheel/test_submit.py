"""spark-submit to a standalone cluster of the environment's own PySpark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lakekeeper.spark.lines import NEWEST
from tests.cluster.standalone import Cluster, cluster
from tests.wheel.user import User, fallback, reclustered

pytestmark = pytest.mark.wheel
HEADING = "## spark-submit"
_CATALOG = "spark.sql.catalog.ice"


@dataclass(frozen=True)
class Site:
    """A cluster, and the two commands of the page: by spark-submit, and without it."""

    cluster: Cluster
    submit: str
    alone: str


@pytest.fixture
def site(user: User, tmp_path: Path) -> Iterator[Site]:
    """The cluster's processes run as the user does, with the Spark of the user's environment."""
    (spark,) = user.place.glob("lib/python*/site-packages/pyspark")
    env = {**user.env, "SPARK_HOME": str(spark), "SPARK_DAEMON_MEMORY": "256m"}
    with cluster(tmp_path / "cluster", spark=spark, env=env) as found:
        here = {"spark://master:7077": found.master} | {
            NEWEST.jars[form]: user.line.jars[form] for form in ("delta", "iceberg")
        }
        submit, alone = user.follow(HEADING, here)
        (user.folder / "conf").mkdir()
        confs = {
            _CATALOG: "org.apache.iceberg.spark.SparkCatalog",
            f"{_CATALOG}.type": "hadoop",
            f"{_CATALOG}.warehouse": str(user.folder / "ice"),
            "spark.sql.warehouse.dir": str(user.folder / "warehouse"),
            "spark.executor.memory": "512m",
        }
        defaults = user.folder / "conf" / "spark-defaults.conf"
        defaults.write_text("".join(f"{key} {value}\n" for key, value in confs.items()))
        exported = 'export SPARK_CONF_DIR="$PWD/conf"\n'
        yield Site(found, exported + submit, exported + alone)


def _delta(command: str, user: User) -> str:
    """The command of the page for the Delta table, by its path."""
    return command.replace("ice.db.e", str(user.folder / "warehouse" / "db.db" / "t"))


def test_client_mode(user: User, site: Site) -> None:
    before = user.fill("db.t delta", "ice.db.e iceberg", "ice.db.f iceberg")
    ran = [_delta(site.submit, user), site.submit, site.alone.replace("ice.db.e", "ice.db.f")]
    for command in ran:
        done = user.run(command)
        reclustered(done)
        assert fallback(done) == ""
    assert len(site.cluster.applications("completedapps")) == len(ran), "each ran on the cluster"
    assert user.rows("db.t", "ice.db.e", "ice.db.f") == before


def test_executors_need_no_package(user: User, site: Site) -> None:
    """Neither lakekeeper nor numpy: the rows are merged in Spark, and the report says why."""
    before = user.fill("ice.db.e iceberg")
    made = user.run("python -m venv --without-pip bare")
    assert made.code == 0, made.err
    bare = user.folder / "bare" / "bin" / "python"
    pythons = f"--conf spark.pyspark.python={bare} --conf spark.pyspark.driver.python=python"
    done = user.run(site.submit.replace("--packages", f"{pythons} --packages"))
    reclustered(done)
    assert "by rows in Spark: PythonException: ModuleNotFoundError: No module named " in fallback(done)
    assert user.rows("ice.db.e") == before


def test_spark_refuses_cluster_mode(user: User, site: Site) -> None:
    """The page says so; if a release of Spark admits it, the page is to change."""
    done = user.run(site.submit.replace("--packages", "--deploy-mode cluster --packages"))
    assert done.code != 0
    assert "Cluster deploy mode is currently not supported for python applications on standalone" in done.err
