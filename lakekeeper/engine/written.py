"""Checks that the new files of a commit exist: one bulk check before each attempt.

Hours may pass between the write and the commit of a file, and a search for orphans with too short a retention takes it
for garbage, since no version names it yet. A version that names a missing file cannot be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lakekeeper.engine.clock import Clock
from lakekeeper.engine.retries import retried
from lakekeeper.errors import AdapterError, Rejected
from lakekeeper.spi import Adapter

_NAMED = 5


def require_written(adapter: Adapter[Any], paths: Sequence[str], clock: Clock) -> None:
    """Raise Rejected if a file that is to be committed is gone, or if the storage does not respond for long."""
    if not paths:
        return
    try:
        gone = retried(lambda: adapter.storage.missing(paths), clock)
    except AdapterError as error:
        raise Rejected(
            f"{adapter.table}: whether the {len(paths):,} new files are still there is unknown, so nothing was "
            f"committed ({error}). Run again"
        ) from error
    if gone:
        named = ", ".join(sorted(gone)[:_NAMED]) + (" …" if len(gone) > _NAMED else "")
        raise Rejected(
            f"{adapter.table}: {len(gone):,} of {len(paths):,} new files are gone: {named}; nothing was committed. "
            "Another job deletes files that no version names yet, such as a removal of orphans: let it spare files "
            "that are younger than the longest rewrite"
        )
