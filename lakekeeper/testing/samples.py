"""Values of every orderable kind, edges included, for the contract suite and for strategies."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

UTC = dt.timezone.utc
NAN = float("nan")

SAMPLES: dict[str, Sequence[Any]] = {
    "int": (-(2**63), -7, -1, 0, 1, 42, 2**53 + 1, 2**63 - 1),
    "float": (float("-inf"), -1.5, -0.0, 0.0, 5e-324, 1.5, 1e308, float("inf"), NAN),
    "decimal(9,2)": tuple(map(Decimal, ("-9999999.99", "-0.01", "0.00", "0.01", "12.30", "9999999.99"))),
    "decimal(38,18)": tuple(
        map(
            Decimal,
            (
                f"-{'9' * 20}.{'9' * 18}",
                "-0.000000000000000001",
                "0E-18",
                "1.000000000000000000",
                f"{'9' * 20}.{'9' * 18}",
            ),
        )
    ),
    "date": (
        dt.date(1600, 1, 1),
        dt.date(1969, 12, 31),
        dt.date(1970, 1, 1),
        dt.date(2026, 2, 28),
        dt.date(9999, 12, 31),
    ),
    "timestamp": (
        dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        dt.datetime(1970, 1, 1, tzinfo=UTC),
        dt.datetime(2026, 3, 29, 1, 59, 59, 123_456, tzinfo=UTC),
        dt.datetime(2026, 3, 29, 1, 59, 59, 123_457, tzinfo=UTC),
        dt.datetime(2200, 1, 1, tzinfo=UTC),
    ),
    "timestamp_ntz": (
        dt.datetime(1969, 12, 31, 23, 59, 59, 999_999),  # noqa: DTZ001 (a kind without a zone)
        dt.datetime(2026, 3, 29, 2, 30, 0, 1),  # noqa: DTZ001 (a kind without a zone)
        dt.datetime(2200, 1, 1),  # noqa: DTZ001 (a kind without a zone)
    ),
    "string": ("", "A", "a", "aa", "b" * 40, "b" * 40 + "c", "z", "é", "\uffee", "𝄞"),
    "binary": (b"", b"\x00", b"\x00\x01", b"a" * 40, b"\x7f", b"\x80", b"\xff", b"\xff" * 40),
    "boolean": (False, True),
}
"""Kind → values, in ascending order, except for the two zeros of floats, which are equal."""
