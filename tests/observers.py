"""Observers for tests: they act at a phase of a run, instead of racing against the clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lakekeeper.spi import Observer


def once_at(phase: str, act: Callable[[], object]) -> Observer:
    """Acts the first time that a run reports ``phase``."""
    left = [act]

    def observe(reported: str, _: Mapping[str, Any]) -> None:
        if reported == phase and left:
            left.pop()()

    return observe
