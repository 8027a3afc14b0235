"""``where``: a Spark SQL predicate over a table's columns, parsed and resolved by Spark, then checked.

It may only contain references to the table's columns and deterministic built-in functions: the same text must select
the same files when it is evaluated twice, and must run no user code.
"""

from __future__ import annotations

from typing import Any

from lakekeeper.spark.jvm import Jvm
from lakekeeper.spark.predicates import check
from lakekeeper.spi import TableName


def check_where(spark: Any, table: TableName, where: str, *, steady: bool = False) -> None:
    """Raise OptionError naming what in ``where`` is not allowed; reads no data.

    ``steady``: also reject what depends on the current time or on the session.
    """
    frame = spark.read.format(table.provider).load(table.path) if table.path else spark.table(table.sql)
    check(Jvm(spark), frame, where, steady=steady)
