"""Processes that a test starts and waits for."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

_PATIENCE = 300  # seconds; a start of Spark on a busy machine
_HOME = Path(__file__).parents[2]


def killed(module: str, *arguments: str) -> str:
    """Run a module that kills its own process; returns what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=_HOME,
        env={**os.environ, "PYTHONPATH": f"{_HOME}{os.pathsep}{_HOME / 'adapters'}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_PATIENCE,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, f"not killed by {arguments}: {done.stdout}"
    return done.stdout


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
