"""``where``: a Spark SQL predicate over a table's columns, parsed and resolved by Spark, then checked.

Only references to the table's columns and deterministic built-in functions may be in it: the same
text must select the same files when it is asked twice, and must run nobody's code.
"""

from __future__ import annotations

from typing import Any

from lakekeeper.spark.jvm import Jvm
from lakekeeper.spark.predicates import check
from lakekeeper.spi import TableName


def check_where(spark: Any, table: TableName, where: str, *, steady: bool = False) -> None:
    """Raise OptionError naming what in ``where`` can not be taken; reads no data.

    ``steady``: nor may it depend on the present moment or on the session.
    """
    frame = spark.read.format(table.provider).load(table.path) if table.path else spark.table(table.sql)
    check(Jvm(spark), frame, where, steady=steady)
