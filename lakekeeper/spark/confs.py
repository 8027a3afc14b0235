"""The confs of a session that are lakekeeper's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekeeper.core.options import CONF_PREFIX

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def lakekeeper_confs(spark: SparkSession) -> dict[str, str]:
    """Confs under ``spark.lakekeeper.``, as text."""
    return {str(k): str(v) for k, v in dict(spark.conf.getAll).items() if str(k).startswith(CONF_PREFIX)}
