"""Arrow rows as a DataFrame of a session, on each release line of Spark.

The shims of ``lakekeeper.spark`` make DataFrames of Arrow tables too, but the core must not import them.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

_NAMES = {
    pa.string(): "string",
    pa.int64(): "bigint",
    pa.float64(): "double",
    pa.timestamp("ms", "UTC"): "timestamp",
}


def frame(spark: Any, rows: pa.Table) -> Any:
    """The rows as a DataFrame of the session ``spark``: PySpark reads Arrow tables from 4.0 on, only lists before."""
    if not str(spark.version).startswith("3."):
        return spark.createDataFrame(rows)
    columns = ", ".join(f"`{field.name}` {_name(field.type)}" for field in rows.schema)
    return spark.createDataFrame(rows.to_pylist(maps_as_pydicts="strict"), columns)


def _name(kind: pa.DataType) -> str:
    """Spark's name of a type that results have."""
    if pa.types.is_map(kind):
        return f"map<{_name(kind.key_type)}, {_name(kind.item_type)}>"
    if pa.types.is_list(kind):
        return f"array<{_name(kind.value_type)}>"
    return _NAMES[kind]
