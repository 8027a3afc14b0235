"""Removal of files that are known to be uncommitted.

A file that cannot be removed takes space until a vacuum finds it. An error here would cost more: finished groups of the
same run, the report of what has landed, or the error that the user must see.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from lakekeeper.errors import reason
from lakekeeper.spi import Adapter, Prepared

_LOG = logging.getLogger("lakekeeper.events")


def removed(adapter: Adapter[Any], paths: Iterable[str], remove: Callable[[], object]) -> bool:
    """Call ``remove``, and return whether none of the files at ``paths`` is left.

    An adapter skips a file that the storage does not delete. One that is left, and any error, is logged.
    """
    named = set(paths)
    try:
        remove()
        left = named - adapter.storage.missing(named) if named else set()
    except Exception as error:
        return _left(adapter.table, reason(error))
    return _left(adapter.table, f"{len(left):,}, {min(left)} among them") if left else True


def removed_parts(adapter: Adapter[Any], made: Sequence[Prepared]) -> bool:
    """:func:`removed` for parts of a delete or a restore."""
    paths = (path for part in made for path in part.written)
    return removed(adapter, paths, lambda: adapter.deletes.discard(made))


def without_error(table: str, remove: Callable[[], object]) -> bool:
    """Call ``remove``; returns False after an error, which is logged. For files that are looked for later."""
    try:
        remove()
    except Exception as error:
        return _left(table, reason(error))
    return True


def _left(table: str, which: str) -> bool:
    _LOG.warning("%s: uncommitted files may be left for a vacuum: %s", table, which)
    return False
