"""The version up to which the last vacuum deleted all garbage, in a note."""

from __future__ import annotations

import json
from contextlib import suppress

from lakekeeper.errors import MALFORMED
from lakekeeper.spi import Notes

CURSOR = "vacuum/cursor.json"


def reset(notes: Notes) -> None:
    """Let the next vacuum read the whole log. The backlog stays: only it lists files whose commits the log has lost."""
    with suppress(*MALFORMED):
        cursor = json.loads(notes.read(CURSOR) or "")
        if cursor["parts"]:
            notes.replace(CURSOR, json.dumps({**cursor, "through": None}))
            return
    notes.remove(CURSOR)
