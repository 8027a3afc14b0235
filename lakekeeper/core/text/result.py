"""The base of all results: printing as text, as JSON and in a notebook."""

from __future__ import annotations

import html
import json
from typing import Any


class Result:
    """Base class of results: a subclass defines ``to_dict`` and ``__str__``."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        raise NotImplementedError

    def to_json(self) -> str:
        """One JSON object on one line."""
        return json.dumps(self.to_dict())

    def _repr_html_(self) -> str:
        return f"<pre style='line-height:1.25'>{html.escape(str(self))}</pre>"
