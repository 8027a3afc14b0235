"""The lakekeeper confs of a session, and the options resolved from them and from a table's properties."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from lakekeeper.core.config.options import CONF_PREFIX, Options, resolve
from lakekeeper.redaction import without_user
from lakekeeper.spark.jvm import Jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = logging.getLogger("lakekeeper")


def lakekeeper_confs(spark: SparkSession) -> dict[str, str]:
    """All confs under ``spark.lakekeeper.``, as text."""
    jvm = Jvm(spark)
    # Only these cross to Python: `spark.conf.getAll` makes some calls for each conf of the session.
    found = jvm.view.java.util.TreeMap(jvm.shim.java_confs(jvm))
    return jvm.text_map(found.subMap(CONF_PREFIX, CONF_PREFIX + "\uffff"))


def all_confs(spark: SparkSession) -> dict[str, str]:
    """All confs of a session, as ``spark.conf.getAll``, in one call to the JVM."""
    jvm = Jvm(spark)
    return jvm.text_map(jvm.shim.java_confs(jvm))


def table_options(
    spark: SparkSession,
    table: str,
    properties: Mapping[str, str],
    call: Mapping[str, Any] | None = None,
    *,
    lenient: bool = False,
) -> Options:
    """The options in force for a table; for the parameters see :func:`lakekeeper.core.config.options.resolve`.

    Logs a warning for each ignored table property, once per process.
    """
    options = resolve(call, lakekeeper_confs(spark), properties, lenient=lenient)
    for key, why in options.ignored.items():
        _warn(f"{without_user(table)}: table property {key} is ignored: {why}")
    return options


@lru_cache(maxsize=1024)
def _warn(text: str) -> None:
    _LOG.warning("%s", text)
