"""The rows of the matrix: the same in SQL and in Python, few, with duplicates and nulls."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

Row = dict[str, Any]

PER_FILE = 8
COLUMNS = "id int, p int, k int, v string"

# In each file of eight: row 0 is the same in all files, row 7 equals row 6. The ranges of k overlap.
_NUMBERED = (
    f"SELECT id AS n, cast(id div {PER_FILE} AS int) AS f, CASE id % {PER_FILE} WHEN 0 THEN -1 WHEN {PER_FILE - 1} "
    "THEN cast(id - 1 AS int) ELSE cast(id AS int) END AS m FROM range(0, {rows}, 1, {files})"
)
_MADE = (
    "m AS id, cast(f % 2 AS int) AS p, IF(m < 0, 5, IF(m % 7 = 3, null, m * 37 % 101)) AS k, "
    "IF(m < 0 OR m % 5 = 2, null, concat('v', m % 4)) AS v"
)


def insert(files: int) -> str:
    """A statement that writes ``files`` files in one commit; ``{t}`` is the table."""
    return f"INSERT INTO {{t}} SELECT {_MADE} FROM ({_NUMBERED.format(rows=files * PER_FILE, files=files)})"


def base(files: int) -> list[Row]:
    """The rows that :func:`insert` writes."""
    found = []
    for n in range(files * PER_FILE):
        m = -1 if n % PER_FILE == 0 else n - 1 if n % PER_FILE == PER_FILE - 1 else n
        k = 5 if m < 0 else None if m % 7 == 3 else m * 37 % 101
        v = None if m < 0 or m % 5 == 2 else f"v{m % 4}"
        found.append({"id": m, "p": n // PER_FILE % 2, "k": k, "v": v})
    return found


def multiset(rows: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """Rows as texts, with their counts. A null equals a column that was added later and has no value."""
    return Counter(
        json.dumps({k: v for k, v in row.items() if v is not None}, sort_keys=True) for row in rows
    )
