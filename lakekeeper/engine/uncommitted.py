"""Removal of files that are known to be uncommitted.

A file that cannot be removed takes space until a vacuum finds it. An error here would cost more: finished groups of the
same run, the report of what has landed, or the error that the user must see.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from lakekeeper.errors import reason

_LOG = logging.getLogger("lakekeeper.events")


def removed(table: str, remove: Callable[[], object]) -> bool:
    """Call ``remove``; returns False after an error, which is logged, and after which files may be left."""
    try:
        remove()
    except Exception as error:
        _LOG.warning("%s: uncommitted files may be left for a vacuum: %s", table, reason(error))
        return False
    return True
