"""Phases of a run, as an observer gets them."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Mapping
from typing import Any

import pytest

from lakekeeper.engine.events import Events
from tests.engine.scene import overlapping


def test_phases_arrive_in_order() -> None:
    scene = overlapping()
    phases: list[str] = []

    def observer(phase: str, info: Mapping[str, Any]) -> None:
        phases.append(phase)

    scene.run(observer=observer)
    assert [phase for phase, _ in itertools.groupby(phases)] == [
        "planned", "read", "written", "before_commit", "committed",
    ]  # fmt: skip


def test_a_run_logs_its_plan_and_its_commit_and_at_debug_why_blocks_were_left(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.DEBUG, "lakekeeper"):
        scene = overlapping()
        scene.run()
        scene.run()
    by_level: dict[str, list[str]] = {}
    for record in caplog.records:
        by_level.setdefault(record.levelname, []).append(record.getMessage())
    planned, committed = by_level["INFO"]
    assert ": planned tasks=" in planned
    assert "round=1" in planned
    assert ": committed " in committed
    assert any(": left " in line for line in by_level["DEBUG"])
    assert any(": planned tasks=0 " in line for line in by_level["DEBUG"])


def test_a_conflict_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "lakekeeper"):
        Events("t", "r1").emit("conflict", attempt=0, reason="another commit won")
    (record,) = caplog.records
    assert (record.levelname, record.getMessage()) == (
        "WARNING",
        "t: run r1: conflict attempt=0 reason=another commit won",
    )
