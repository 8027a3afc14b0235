"""The base of all results: printing as text, as JSON and in a notebook."""

from __future__ import annotations

import html
import json
from typing import Any

_MOST = 2**53 - 1
"""The largest integer that JavaScript, jq and other readers with 64-bit floats keep."""


class Result:
    """Base class of results: a subclass defines ``to_dict`` and ``__str__``."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        raise NotImplementedError

    def to_json(self) -> str:
        """One JSON object on one line; integers above 2⁵³ - 1, such as ids of snapshots, are text."""
        return json.dumps(_exact(self.to_dict()))

    def _repr_html_(self) -> str:
        return f"<pre style='line-height:1.25'>{html.escape(str(self))}</pre>"


def _exact(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _exact(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_exact(each) for each in value]
    return str(value) if isinstance(value, int) and abs(value) > _MOST else value
