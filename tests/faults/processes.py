"""Processes that a test starts and waits for."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from socketserver import BaseServer
from threading import Thread
from typing import TypeVar

_PATIENCE = 300  # seconds; a start of Spark on a busy machine
_HOME = Path(__file__).parents[2]
_Served = TypeVar("_Served", bound=BaseServer)


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


@contextmanager
def running(command: Sequence[str | Path], port: int, log: Path) -> Iterator[None]:
    """A server program that listens on a port, and writes to ``log``, while the context lives."""
    with log.open("wb") as out:
        server = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        try:
            listening(port, server)
            yield
        finally:
            server.kill()
            server.wait()


@contextmanager
def serving(server: _Served) -> Iterator[_Served]:
    """A server of this process, in a thread, while the context lives."""
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
