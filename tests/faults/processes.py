"""Processes that a test waits for."""

from __future__ import annotations

import os
import select


def gone(process: int) -> bool:
    """Has a process ended, at the latest after a while?"""
    try:
        handle = os.pidfd_open(process)
    except ProcessLookupError:
        return True
    try:
        waiting = select.poll()
        waiting.register(handle, select.POLLIN)
        return bool(waiting.poll(30_000))
    finally:
        os.close(handle)
