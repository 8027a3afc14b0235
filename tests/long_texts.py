"""Rows with a text longer than what footers record as a bound, in files of several row groups."""

from __future__ import annotations

COLUMNS = "k BIGINT, hi STRING, lo STRING, last STRING, raw BINARY, in STRUCT<s: STRING>"
_SHORT = "concat('m', lpad(id, 6, '0'))"
ROWS = f"""
SELECT id AS k,
       CASE id WHEN 5 THEN repeat('z', 5000) WHEN 6 THEN NULL ELSE {_SHORT} END AS hi,
       CASE id WHEN 5 THEN repeat('a', 5000) ELSE {_SHORT} END AS lo,
       CASE id WHEN 5 THEN repeat('\\udbff\\udfff', 2000) ELSE {_SHORT} END AS last,
       CASE id WHEN 5 THEN unhex(repeat('FF', 5000)) ELSE unhex('10') END AS raw,
       named_struct('s', CASE id WHEN 5 THEN repeat('z', 5000) ELSE {_SHORT} END) AS in
FROM range(30000)
"""
FILTERS = (
    "hi >= 'z'",
    "lo < 'b'",
    "last > 'n'",
    "raw > X'F0'",
    "in.s >= 'z'",
    "hi = repeat('z', 5000)",
    "hi >= 'n' AND hi < 'zzzz'",
)
FOUND = (1, 1, 1, 1, 1, 1, 0)
"""How many rows each filter finds."""
