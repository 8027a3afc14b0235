"""Phases of a run, as an observer is shown them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from tests.engine.scene import overlapping


def test_phases_are_told_in_order() -> None:
    scene = overlapping()
    told: list[str] = []

    def observer(phase: str, info: Mapping[str, Any]) -> None:
        told.append(phase)

    scene.run(observer=observer)
    assert [phase for phase, _ in itertools.groupby(told)] == [
        "planned", "read", "written", "before_commit", "committed",
    ]  # fmt: skip
