"""Values of each kind of column, in the order of Spark."""

from __future__ import annotations

import datetime as dt
import math
import struct
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

NAN = float("nan")


def at(*parts: int) -> dt.datetime:
    """A local time, without a zone."""
    return dt.datetime(*parts)  # type: ignore[arg-type]  # noqa: DTZ001 - the zone is the column's


EPOCH = at(1970, 1, 1)
KINDS: dict[str, tuple[str, Sequence[Any]]] = {
    # kind of the column → kind of the key, values
    "boolean": ("boolean", [True, False]),
    "int8": ("int", [-128, 0, 127, 5]),
    "int32": ("int", [-(2**31), 0, 3, 2**31 - 1]),
    "int64": ("int", [-(2**63), -1, 0, 1, 2**63 - 1]),
    "float": ("float", [-math.inf, -1.5, -0.0, 0.0, 1.5, math.inf, NAN]),
    "double": ("float", [-math.inf, -1e300, -0.0, 0.0, 5e-324, math.inf, NAN]),
    "decimal(9,2)": ("decimal(9,2)", [Decimal("-1.20"), Decimal("0.00"), Decimal("9999999.99")]),
    "decimal(38,3)": ("decimal(38,3)", [Decimal("-1e34"), Decimal(0), Decimal(2**64), Decimal("0.001")]),
    "string": ("string", ["", "a", "a\0", "é", "\ufffd", "\U0001f600", "z" * 70]),
    "binary": ("binary", [b"", b"\x00", b"\x7f", b"\x80", b"\xff"]),
    "date": ("date", [dt.date(1, 1, 1), dt.date(1582, 10, 4), dt.date(1970, 1, 1), dt.date(9999, 12, 31)]),
    "timestamp": ("timestamp", [at(1, 1, 1), EPOCH, at(2024, 1, 1, 0, 0, 0, 999_999)]),
    "timestamp_ntz": ("timestamp_ntz", [at(1800, 1, 1), EPOCH, at(2024, 1, 1, 0, 0, 0, 1)]),
}


def order(value: Any) -> tuple[Any, ...]:
    """A value as Spark orders it."""
    if value is None:
        return (0,)
    if isinstance(value, float):
        return (2,) if math.isnan(value) else (1, value + 0.0)
    return (1, value.encode() if isinstance(value, str) else value)


def bits(value: Any) -> Any:
    """Equal for values that no reader can distinguish."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else struct.pack("<d", value)
    return value
