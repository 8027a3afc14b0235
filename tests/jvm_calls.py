"""The calls from Python to the JVM: each takes 0.1 ms to over 1 ms."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from py4j.java_gateway import GatewayClient
from py4j.protocol import MEMORY_COMMAND_NAME


@contextmanager
def jvm_calls() -> Iterator[list[str]]:
    """The commands sent inside the block, in order.

    Commands that release an object are left out: Python's cyclic collector sends them whenever it runs, also for
    objects of earlier tests.
    """
    sent: list[str] = []
    real = GatewayClient.send_command

    def noted(self: GatewayClient, command: str, *more: Any, **named: Any) -> Any:
        if not command.startswith(MEMORY_COMMAND_NAME):
            sent.append(command)
        return real(self, command, *more, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GatewayClient, "send_command", noted)
        yield sent
