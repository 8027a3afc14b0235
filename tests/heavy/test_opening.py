"""Which confs the application of heavy tasks inherits, and that without its conf nothing of it is loaded."""

from __future__ import annotations

import subprocess
import sys

from lakekeeper.spark.session_confs import inherited_confs

JAR = "file:/home/u/.ivy2/jars/io.delta_delta-spark.jar"


def test_catalogs_jars_and_files_are_inherited_but_confs_of_the_session_are_not() -> None:
    kept = {
        "spark.sql.catalog.ice.uri": "jdbc:sqlite:/data/c.db",
        "spark.hadoop.fs.s3a.secret.key": "canary",
        "spark.sql.shuffle.partitions": "64",
        "spark.jars": JAR,
        "spark.files": "file:/etc/truststore.jks",
        "spark.submit.pyFiles": "file:/opt/lakekeeper.zip",
    }
    of_the_session = {
        "spark.app.id": "app-1",
        "spark.app.initial.jar.urls": "spark://host:1/jars/a.jar",
        "spark.master": "local[1]",
        "spark.driver.host": "10.0.0.1",
        "spark.driver.port": "4040",
        "spark.executor.id": "driver",
        "spark.jars.packages": "io.delta:delta-spark",
        "spark.repl.local.jars": JAR,
        "spark.submit.deployMode": "client",
    }
    on_one_machine = {"spark.ui.enabled": "false", "spark.driver.memory": "3g"}
    confs = {**kept, **of_the_session, **on_one_machine}
    confs["spark.files"] = f"{JAR},{kept['spark.files']}"
    confs["spark.submit.pyFiles"] = (
        f"/home/u/.ivy2/jars/io.delta_delta-spark.jar,{kept['spark.submit.pyFiles']}"
    )
    assert inherited_confs(confs) == kept


def test_a_small_number_of_partitions_that_is_not_the_default_is_inherited() -> None:
    assert inherited_confs({"spark.sql.shuffle.partitions": "4"}) == {}
    assert inherited_confs({"spark.sql.shuffle.partitions": "3"}) == {"spark.sql.shuffle.partitions": "3"}


def test_nothing_of_it_is_loaded_without_its_conf() -> None:
    program = """
import sys
from lakekeeper import application, fleet
from lakekeeper.cli import app, service
from lakekeeper.core.config.options import resolve
from lakekeeper.engine.auto_settings import settings_from
settings = settings_from(resolve({"auto.tables": "ice.db.*"}, {"spark.lakekeeper.heavy.master": "none"}))
with fleet.heavy_lane(None, settings) as lane:
    assert lane is None
print([name for name in sys.modules if name.startswith("lakekeeper.heavy")])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
