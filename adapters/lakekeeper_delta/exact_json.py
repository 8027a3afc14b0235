"""JSON whose numbers stay as they were written: a bound of a DECIMAL or a BIGINT has more digits than a double."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


class Number(str):
    """The text of a number."""

    __slots__ = ()


def loads(text: str) -> Any:
    """``text`` as plain data, with a :class:`Number` for each number."""
    return json.loads(text, parse_float=Number, parse_int=Number)


def dumps(plain: Any) -> str:
    """Plain data as JSON."""
    if isinstance(plain, Number):
        return str(plain)
    if isinstance(plain, Mapping):
        return f"{{{','.join(f'{json.dumps(name)}:{dumps(each)}' for name, each in plain.items())}}}"
    if isinstance(plain, list):
        return f"[{','.join(map(dumps, plain))}]"
    return json.dumps(plain)
