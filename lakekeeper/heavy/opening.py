"""The lane of a session: which process it starts, with which confs."""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING

from lakekeeper.core.config.heavy_confs import heavy_confs
from lakekeeper.core.config.run_options import HeavyOptions
from lakekeeper.errors import OptionError
from lakekeeper.heavy.lane import Lane
from lakekeeper.heavy.process import HeavyProcess
from lakekeeper.spark.confs import all_confs, lakekeeper_confs
from lakekeeper.spark.installation import SUBMIT_ARGS
from lakekeeper.spark.session_confs import inherited_confs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OF_THIS_JVM = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET", "SPARK_REMOTE", SUBMIT_ARGS)


def open_lane(spark: SparkSession, options: HeavyOptions) -> Lane:
    """The lane that the options describe; no application is started yet. Raises OptionError for a bad conf."""
    if options.own_master is None:
        raise OptionError("heavy.master", options.master, "a master, such as spark://host:7077")
    own = heavy_confs(lakekeeper_confs(spark))
    confs = inherited_confs(all_confs(spark)) | own | {"spark.master": options.own_master}
    first = {
        "confs": confs,
        "log_level": logging.getLogger("lakekeeper.events").getEffectiveLevel(),
    }
    environment = {key: value for key, value in os.environ.items() if key not in _OF_THIS_JVM}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    command = [sys.executable, "-m", "lakekeeper.heavy.application"]
    start_seconds = options.start_timeout_ms / 1000

    def start() -> HeavyProcess:
        return HeavyProcess(command, environment, first, start_seconds)

    return Lane(options.own_master, start, options.idle_ms / 1000)
