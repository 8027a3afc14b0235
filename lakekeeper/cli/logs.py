"""Sends the log of the library to stderr, as text or as one JSON object per line."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone

from lakekeeper.engine.events import RUN_FACTS
from lakekeeper.errors import traceback_of

_FACTS = (*RUN_FACTS, "application")


class JsonLines(logging.Formatter):
    """A record as one JSON object: time, level, message, and the facts of a run if it has them.

    ``application`` names the application of heavy tasks if the record comes from it.
    """

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        at = datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds")
        plain = {"time": at, "level": record.levelname, "logger": record.name, "message": record.getMessage()}
        plain |= {name: getattr(record, name) for name in _FACTS if hasattr(record, name)}
        if record.exc_info and record.exc_info[1]:
            plain["traceback"] = traceback_of(record.exc_info[1])
        return json.dumps(plain, default=str)


@contextmanager
def logs(*, as_json: bool) -> Iterator[None]:
    """Log while a command runs. Without ``as_json``, phases are left out: the progress display shows them."""
    logger = logging.getLogger("lakekeeper" if as_json else "lakekeeper.events")
    handler: logging.Handler = logging.NullHandler()
    level, propagates = logger.level, logger.propagate
    if as_json:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(JsonLines())
        logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagates
        logger.setLevel(level)
