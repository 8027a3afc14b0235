"""Lanes whose application is a stand-in without Spark."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lakekeeper.heavy.lane import Lane
from lakekeeper.heavy.process import HeavyProcess

_HOME = Path(__file__).parents[2]


@pytest.fixture
def started() -> list[HeavyProcess]:
    """The processes started by the lanes of the test."""
    return []


@pytest.fixture
def lane(started: list[HeavyProcess]) -> Iterator[Callable[..., Lane]]:
    """Makes lanes, by how their application starts and after how many idle seconds it ends.

    ``before`` is called before each start.
    """
    made: list[Lane] = []

    def make(
        start: str = "ready",
        idle_seconds: float = 600.0,
        start_seconds: float = 60.0,
        silent_seconds: float = 600.0,
        before: Callable[[], object] = lambda: None,
    ) -> Lane:
        path = os.pathsep.join([str(_HOME), str(_HOME / "adapters")])

        def process() -> HeavyProcess:
            before()
            found = HeavyProcess(
                [sys.executable, "-m", "tests.heavy.stand_in", start],
                {**os.environ, "PYTHONPATH": path},
                {"confs": {"spark.master": "spark://m:7077"}},
                start_seconds,
                silent_seconds,
            )
            started.append(found)
            return found

        made.append(Lane("spark://m:7077", process, idle_seconds))
        return made[-1]

    yield make
    for each in made:
        each.close()
