"""A table without new commits is sorted once: as time passes, no pass rewrites it again, whatever bounds it has."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from typing import Any

import pytest

from lakekeeper.core.config.options import resolve
from lakekeeper.core.planning.policies.adaptive import ADAPTIVE
from lakekeeper.core.planning.policies.peaks import PEAKS
from lakekeeper.core.planning.policies.ranges import RANGES
from lakekeeper.core.planning.policies.universal import UNIVERSAL
from lakekeeper.core.planning.policy import Policy
from lakekeeper.core.units import HOUR_MS
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.merge.job import maintain
from lakekeeper.engine.merge.request import Request
from lakekeeper.testing.lake import MemoryTable, Settings
from lakekeeper.testing.memory import MemoryAdapter
from lakekeeper.testing.runner import MemoryRunner

_START = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
_LONG = Settings(truncate=16, byte_scale=150_000)
_CUT = Settings(milliseconds=True, byte_scale=100_000)
_FIRST: dict[str, tuple[str, Callable[[random.Random], Any], Settings]] = {
    "a long common prefix": (
        "string",
        lambda rng: f"https://www.example.com/p/{rng.randrange(10**6):06d}",
        _LONG,
    ),
    "three long prefixes": (
        "string",
        lambda rng: f"https://www.{rng.choice('abc') * 9}.com/{rng.randrange(10**6)}",
        _LONG,
    ),
    "three hours": ("timestamp", lambda rng: _START + dt.timedelta(hours=rng.randrange(3)), _CUT),
    "forty hours": ("timestamp", lambda rng: _START + dt.timedelta(hours=rng.randrange(40)), _CUT),
    "ten milliseconds": (
        "timestamp",
        lambda rng: _START + dt.timedelta(microseconds=rng.randrange(10**4)),
        _CUT,
    ),
}


@pytest.mark.sampled
@pytest.mark.parametrize("policy", [ADAPTIVE, RANGES, PEAKS, UNIVERSAL], ids=lambda policy: str(policy.name))
@pytest.mark.parametrize("first", _FIRST)
def test_a_compound_key_of_truncated_bounds_settles(first: str, policy: Policy) -> None:
    kind, draw, settings = _FIRST[first]
    rng = random.Random(1)
    table = MemoryTable("db.t", {"first": kind, "n": "int"}, settings=settings)
    for _ in range(20):
        table.append([{"first": draw(rng), "n": rng.randrange(10**6)} for _ in range(20)])
    table.set_key(["first", "n"])
    adapter, files = MemoryAdapter(table), []
    for _ in range(24):
        table.later(HOUR_MS)
        clock = Clock(now_ms=lambda: table.now_ms, wait=lambda _: None)
        request = Request("recluster", (policy,), resolve({}), final=policy is not ADAPTIVE)
        files.append(maintain(adapter, MemoryRunner(), request, clock=clock).rewritten_data_files_count)
    assert sum(files) <= 3 * files[0] or sum(files) <= 60, files
    assert not any(files[4:]), files
