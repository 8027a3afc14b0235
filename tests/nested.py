"""Rows of structs, lists and maps, with NULL, NaN, nothing, and long text at several depths."""

from __future__ import annotations

COLUMNS = (
    "k BIGINT, s STRUCT<x: DOUBLE, deep: STRUCT<t: STRING, at: TIMESTAMP, n: DECIMAL(20, 4)>, items: ARRAY<INT>>, "
    "l ARRAY<STRUCT<d: DOUBLE, t: STRING>>, m MAP<STRING, STRUCT<f: FLOAT, l: ARRAY<TIMESTAMP>>>"
)
_LONG = "named_struct('t', repeat('é', 40), 'at', timestamp'1500-01-01 00:00:00', 'n', 1.5)"
_SHORT = "named_struct('t', '', 'at', NULL, 'n', NULL)"
_FIRST = (
    f"(1, named_struct('x', double('NaN'), 'deep', {_LONG}, 'items', array(1, NULL)), "
    "array(named_struct('d', double('NaN'), 't', 'a'), NULL), "
    "map('a', named_struct('f', float('NaN'), 'l', array(timestamp'2024-02-29 12:00:00.000999', NULL)), 'b', NULL))"
)
_MORE = (
    "(NULL, NULL, NULL, NULL), (3, named_struct('x', -0.0D, 'deep', NULL, 'items', array()), array(), map())"
)
_LAST = (
    f"(2, named_struct('x', 7.5D, 'deep', {_SHORT}, 'items', NULL), array(named_struct('d', 1.0D, 't', NULL)), "
    "map('c', named_struct('f', float('1.5'), 'l', NULL)))"
)
ROWS = (_FIRST, _MORE, _LAST)
"""The values of one INSERT each."""
