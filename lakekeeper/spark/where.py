"""``where``: a predicate over a table's columns, as Spark SQL or a Spark ``Column``, resolved by Spark, then checked.

It may only contain references to the table's columns and deterministic built-in functions: the same text must select
the same files when it is evaluated twice, and must run no user code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakekeeper.errors import OptionError
from lakekeeper.spark.jvm import Jvm
from lakekeeper.spark.predicates import check, refuse_qualified, text_of_column
from lakekeeper.spi import TableName

if TYPE_CHECKING:
    from pyspark.sql import Column


def checked_where(spark: Any, table: TableName, where: str | Column, *, steady: bool = False) -> str:
    """``where`` as Spark SQL. Raises OptionError naming what in it is not allowed; reads no data.

    ``steady``: also reject what depends on the current time or on the session. A ``Column`` whose text would mean
    something else is rejected.
    """
    if not isinstance(where, str) and not hasattr(where, "_jc"):
        raise OptionError("where", where, "Spark SQL or a Column of this session")
    jvm = Jvm(spark)
    frame = spark.read.format(table.provider).load(table.path) if table.path else spark.table(table.sql)
    text = where if isinstance(where, str) else text_of_column(jvm, frame, where)
    check(jvm, frame, text, steady=steady)
    if not table.path and "." in text:
        refuse_qualified(jvm, frame, text)
    return text
