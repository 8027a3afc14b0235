"""Plans of one policy over drawn blocks, as plain values."""

from __future__ import annotations

from typing import Any

from lakekeeper.core.config.options import resolve
from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.plan import Plan
from lakekeeper.core.planning.planner import make_plan
from lakekeeper.core.planning.policy import Env, Policy
from lakekeeper.testing.drawing import parse_blocks, parse_key

Merged = tuple[int, int, tuple[str, ...]]
"""Level of the inputs, level of the outputs, names of the inputs."""


def plan(policy: Policy, drawn: str | Snapshot, *, now_ms: int = 0, **options: Any) -> Plan:
    """The policy's plan; options with underscores for hyphens."""
    snapshot = parse_blocks(drawn, parse_key("k:int")) if isinstance(drawn, str) else drawn
    named = {name.replace("_", "-"): value for name, value in options.items()}
    return make_plan(snapshot, [policy], resolve(named), Env(now_ms=now_ms))


def merged(made: Plan) -> list[Merged]:
    """The merges, in the order of the plan."""
    return [(task.input_level, task.level, tuple(sorted(task.inputs))) for task in made.tasks]


def left(made: Plan) -> dict[str, str]:
    """Block → code of the reason why it is left."""
    return {path: item.reason.code for item in made.left for path in item.paths.to_pylist()}
