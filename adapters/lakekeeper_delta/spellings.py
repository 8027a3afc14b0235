"""Paths as Delta compares them: it normalizes those of a log when it reads its state, ``d//a`` to ``d/a``."""

from __future__ import annotations

import re
from collections.abc import Callable

from lakekeeper_delta.native import Log

UNLIKE = r"^[a-zA-Z][a-zA-Z0-9+.-]*:|^/|//|(?:^|/)\.\.?(?:/|$)|%.?[a-f]"
"""A path that may have several spellings."""
_unlike = re.compile(UNLIKE)

Canonical = Callable[[str], str]


def of_log(log: Log) -> Canonical:
    """The path of an action as Delta spells it in the state of this log; only an unusual one takes a call."""
    on_executors = False
    function = log.log.getCanonicalPathFunction(on_executors)

    def canonical(path: str) -> str:
        return str(function.apply(path)) if _unlike.search(path) else path

    return canonical
