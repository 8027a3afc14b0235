"""Confs of the Spark application of heavy tasks: ``spark.lakekeeper.heavy.conf.spark.executor.memory=8g``."""

from __future__ import annotations

from collections.abc import Mapping

from lakekeeper.errors import OptionError

HEAVY_CONF = "spark.lakekeeper.heavy.conf."
_OURS = "spark.lakekeeper."


def checked_heavy_conf(key: str, value: str) -> str:
    """The conf that ``key`` sets in the application of heavy tasks. Raises OptionError where it must not."""
    name = key.removeprefix(HEAVY_CONF)
    if name == "spark.master":
        raise OptionError(
            key, value, "a conf other than spark.master, which spark.lakekeeper.heavy.master sets"
        )
    if name.startswith(_OURS) or not name.startswith("spark."):
        raise OptionError(key, value, f"a conf of Spark, as in {HEAVY_CONF}spark.executor.memory")
    return name


def heavy_confs(confs: Mapping[str, str]) -> dict[str, str]:
    """What these confs set in the application of heavy tasks. Raises OptionError for one that must not be set there."""
    return {
        checked_heavy_conf(key, value): value for key, value in confs.items() if key.startswith(HEAVY_CONF)
    }
