"""Responses of the JVM of more than 8 KB do not wait for a delayed acknowledgement."""

from __future__ import annotations

import io
import socket
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakekeeper.spark.jvm import Jvm
from lakekeeper.spark.prompt_acks import acknowledge_promptly

on_linux = pytest.mark.skipif(
    sys.platform != "linux", reason="other systems cannot switch off delayed acknowledgements"
)
_DELAY_S = 0.04  # the least delay of an acknowledgement on Linux


@pytest.mark.spark
@on_linux
@pytest.mark.parametrize("size", [8_300, 70_000])
def test_a_long_response_takes_no_forty_milliseconds(spark: SparkSession, size: int) -> None:
    jvm = Jvm(spark)
    here = _usual(lambda: _ask(jvm, size))
    with ThreadPoolExecutor(1) as pool:  # a thread with a connection of its own
        there = pool.submit(_usual, lambda: _ask(jvm, size)).result()
    assert max(here, there) < _DELAY_S


def _ask(jvm: Jvm, size: int) -> None:
    text = jvm.view.org.apache.commons.lang3.StringUtils.repeat("x", size)
    assert len(text) == size


def _usual(call: Callable[[], object]) -> float:
    """Median seconds: the first acknowledgements of a connection are prompt anyway."""
    taken = []
    for _ in range(61):
        begin = time.perf_counter()
        call()
        taken.append(time.perf_counter() - begin)
    return median(taken)


class _Client:
    """py4j's client, with the connection of this thread."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def get_thread_connection(self) -> Any:
        return self.connection

    def set_thread_connection(self, connection: Any) -> None:
        self.connection = connection


class _Connection:
    initiated_from_client = True

    def __init__(self) -> None:
        self.socket, self.other = socket.socketpair()
        self.stream: Any = self.socket.makefile("rb")


@on_linux
def test_each_connection_gets_one_new_stream_that_is_closed_with_its_socket(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = _Connection(), _Connection()
    set_options: list[tuple[int, ...]] = []
    monkeypatch.setattr(
        socket.socket, "setsockopt", lambda _, *option: set_options.append(option)
    )  # a pair of Unix sockets has no TCP
    client = _Client(first)
    acknowledge_promptly(client)
    streams = [first.stream]
    acknowledge_promptly(client)
    client.set_thread_connection(second)
    assert client.connection is second
    assert [first.stream] == streams
    for connection in (first, second):
        connection.other.sendall(b"yes\nand no\n")
        assert [connection.stream.readline(), connection.stream.readline()] == [b"yes\n", b"and no\n"]
        connection.stream.close()
        connection.socket.close()
        assert connection.other.recv(1) == b""
    assert set(set_options) == {(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)}


def test_a_connection_that_java_opened_keeps_what_it_has_read() -> None:
    callback = _Connection()
    callback.initiated_from_client = False
    callback.other.sendall(b"token\ncommand\n")
    assert callback.stream.readline() == b"token\n"
    client = _Client(callback)
    acknowledge_promptly(client)
    client.set_thread_connection(callback)
    assert callback.stream.readline() == b"command\n"


def test_a_client_without_connections_by_thread_is_left_alone() -> None:
    acknowledge_promptly(io.BytesIO())
