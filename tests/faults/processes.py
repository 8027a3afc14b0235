"""Processes that a test starts and waits for."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

_PATIENCE = 300  # seconds; a start of Spark on a busy machine
_HOME = Path(__file__).parents[2]


def killed(module: str, *arguments: str) -> str:
    """Run a module that kills its own process; return its output."""
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
    """Whether a process has ended, within a while."""
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


def free_port() -> int:
    """A port that no process listens on."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def listening(port: int, server: subprocess.Popen[bytes]) -> None:
    """Wait until a server accepts connections on a port. Raises AssertionError if it ends or takes too long."""
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        assert server.poll() is None, f"the server ended with {server.returncode}"
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.1)  # not a race: a starting server does not respond yet
        else:
            return
    raise AssertionError(f"the server did not listen within {_PATIENCE} s")
