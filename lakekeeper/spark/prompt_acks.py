"""Acknowledges at once what the JVM sends: otherwise each response of more than 8 KB takes some 45 ms.

    JVM      ── 8 KB ──►                        ── the rest ──►    Nagle (RFC 896): the rest waits for the ACK
    Python               ······ 40 ms ······ ACK ──►               delayed ACK (RFC 1122, 4.2.3.2)

The JVM's end of a connection of py4j, which would have to set TCP_NODELAY, is out of reach.
"""

from __future__ import annotations

import io
import socket
from typing import Any

_QUICK = getattr(socket, "TCP_QUICKACK", 0)  # Linux only


def acknowledge_promptly(client: Any) -> None:
    """Do so on the connection of this thread, and on each that py4j's client opens from now on."""
    if not _QUICK or not hasattr(client, "set_thread_connection"):  # one connection for all threads
        return
    connection = client.get_thread_connection()
    if connection is not None:
        _replace_stream(connection)
    if "set_thread_connection" in vars(client):
        return
    opened = client.set_thread_connection

    def set_thread_connection(connection: Any) -> None:
        _replace_stream(connection)
        opened(connection)

    client.set_thread_connection = set_thread_connection


def _replace_stream(connection: Any) -> None:
    """Between two commands, when the stream has buffered nothing. For a callback, Java may have sent one already."""
    stream = connection.stream
    if not connection.initiated_from_client or not isinstance(stream, io.BufferedReader):
        return
    if not isinstance(stream.raw, _Prompt):
        connection.stream = io.BufferedReader(_Prompt(stream.detach(), connection.socket))


class _Prompt(io.RawIOBase):
    """A socket's stream. The kernel soon leaves the quick mode, which is therefore set before each read."""

    def __init__(self, raw: Any, connected: socket.socket) -> None:
        super().__init__()
        self._raw = raw
        self._socket = connected

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._socket.setsockopt(socket.IPPROTO_TCP, _QUICK, 1)
        found: int | None = self._raw.readinto(buffer)
        return found

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
        super().close()
