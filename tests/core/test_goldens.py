"""Worked examples of the policies' sources, and plans of drawn blocks. See ``lakekeeper.testing.golden``."""

from __future__ import annotations

import re
import shlex
from ast import literal_eval
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lakekeeper.core.config.options import Options, resolve
from lakekeeper.core.layout.clustering_info import measure
from lakekeeper.core.layout.depth import block_depth, depth_curve, overlaps
from lakekeeper.core.layout.ranks import Intervals
from lakekeeper.core.layout.snapshot_index import table_line
from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.plan import MergeTask, Plan
from lakekeeper.core.model.reason import Fact, Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.planning.planner import make_plan
from lakekeeper.core.planning.policies.adaptive import ADAPTIVE
from lakekeeper.core.planning.policies.deletes import DELETES
from lakekeeper.core.planning.policies.full import FULL
from lakekeeper.core.planning.policies.peaks import PEAKS
from lakekeeper.core.planning.policies.ranges import RANGES
from lakekeeper.core.planning.policies.sizes import SIZES
from lakekeeper.core.planning.policies.universal import UNIVERSAL
from lakekeeper.core.planning.policy import Env, Policy
from lakekeeper.core.text.formatting import size
from lakekeeper.testing.drawing import parse_blocks, parse_key, print_blocks
from lakekeeper.testing.golden import Case, run_golden

DATA = Path(__file__).with_name("data")
POLICIES: dict[str, Policy] = {p.name: p for p in (ADAPTIVE, RANGES, PEAKS, SIZES, DELETES, FULL, UNIVERSAL)}


class State:
    """What the commands of one file work on."""

    def __init__(self) -> None:
        self.snapshot = parse_blocks("", parse_key("k:int"))
        self.options = resolve()

    def __call__(self, case: Case) -> str:
        commands = {
            "define": self.define,
            "depth": self.depth,
            "pick": self.pick,
            "information": self.information,
            "reasons": self.reasons,
        }
        return commands[case.command](case)

    def define(self, case: Case) -> str:
        """Blocks for the commands that follow, printed as parsed."""
        self.snapshot = parse_blocks(case.input, parse_key(case.named.get("key", "k:int")))
        return print_blocks(self.snapshot)

    def depth(self, case: Case) -> str:
        """The curve point by point, the averages, and each block's depth and overlaps."""
        intervals = table_line(self.snapshot)
        curve = depth_curve(intervals)
        over = curve.depth[curve.depth > 1]
        names = _names(self.snapshot, intervals)
        deepest = [names[i] for i in np.flatnonzero(curve.depth == curve.max)]
        lines = [
            f"points  {' '.join(names)}",
            f"depth   {' '.join(map(str, curve.depth))}",
            f"folded  {' '.join(map(str, curve.folded))}",
            f"AvgDepth = {'+'.join(map(str, over)) or 0} / {len(over)} = {curve.average:.4g}",
            f"max {curve.max} at {', '.join(deepest)}",
        ]
        per_block = zip(self.snapshot.blocks, block_depth(curve, intervals), overlaps(intervals), strict=True)
        return "\n".join(lines + [f"{b.path}: depth {d}, overlaps {o}" for b, d, o in per_block])

    def information(self, case: Case) -> str:
        """Snowflake's fields."""
        found = measure(self.snapshot)
        filled = {name: n for name, n in found.partition_depth_histogram.items() if n}
        return "\n".join(
            [
                f"total_partition_count {found.total_partition_count}",
                f"total_constant_partition_count {found.total_constant_partition_count}",
                f"average_overlaps {found.average_overlaps:g}",
                f"average_depth {found.average_depth:g}",
                f"partition_depth_histogram {filled}",
                f"levels {dict(found.levels)}",
            ]
        )

    def pick(self, case: Case) -> str:
        """The plan of the named policies at ``now`` (ms); options and fields of policies as arguments."""
        now = int(case.named.get("now", 0))
        policies = [_policy(POLICIES[word], case.named) for word in case.words]
        known = {"now"} | {field.name for policy in policies for field in fields(policy)}
        options: Options = resolve({name: value for name, value in case.named.items() if name not in known})
        plan = make_plan(self.snapshot, policies, options, Env(now_ms=now))
        return "\n".join([*map(_task, plan.tasks), *_left(plan)])

    def reasons(self, case: Case) -> str:
        """Reasons, one a line as its code and facts, printed as sentences."""
        return "\n".join(str(parse_reason(line)) for line in case.input.splitlines())


def parse_reason(line: str) -> Reason:
    """A code and its facts: ``many=3 share=0.1..0.2 by="version 9 (DELETE)"``."""
    code, *facts = shlex.split(line)
    named = dict(fact.split("=", 1) for fact in facts)
    return Reason.of(Code[code.upper()], **{name: _fact(text) for name, text in named.items()})


def _fact(text: str) -> Fact:
    if ".." in text:
        least, most = text.split("..")
        return _number(least), _number(most)
    return _number(text) if re.fullmatch(r"[\d.]+", text) else text


def _number(text: str) -> int | float:
    return float(text) if "." in text else int(text)


def _policy(policy: Any, given: Mapping[str, str]) -> Any:
    """The policy with the given fields."""
    mine = {field.name for field in fields(policy)} - {"name"}
    return replace(policy, **{name: literal_eval(value) for name, value in given.items() if name in mine})


def _names(snapshot: Snapshot, intervals: Intervals) -> list[str]:
    """The value at each point; for NULL and unknown bounds, their symbol."""
    names = [""] * intervals.points
    for i, block in enumerate(snapshot.blocks):
        known = block.lo[0] is not None
        edges = ("-∞", "+∞") if intervals.missing[i] else ("NULL", "NULL")
        for point, bound, edge in zip(
            (intervals.lo[i], intervals.hi[i]), (block.lo[0], block.hi[0]), edges, strict=True
        ):
            names[point] = str(bound) if known else names[point] or edge
        if intervals.null_lo[i] >= 0:
            names[intervals.null_lo[i]] = "NULL"
    return names


def _task(task: MergeTask) -> str:
    cuts = f" cut at {', '.join(map(str, task.cuts))}" if task.cuts else ""
    megabytes = f"{task.input_bytes / 1e6:g}MB"
    merge = f"merge L{task.input_level} -> L{task.level}: {' '.join(task.inputs)} ({megabytes}){cuts}"
    return f"{merge}  # {said(task.reason)}"


def _left(plan: Plan) -> list[str]:
    found = [(sorted(item.paths.to_pylist()), said(item.reason)) for item in plan.left]
    return [f"left {' '.join(paths)}: {reason}" for paths, reason in sorted(found)]


def said(reason: Reason) -> str:
    """The codes with their facts; the sentences are in reasons.txt."""
    facts = [f"{name}={_value(name, value)}" for name, value in reason.facts.items()]
    return "; ".join([" ".join([reason.code, *facts]), *map(said, reason.also)])


def _value(name: str, value: Fact) -> str:
    """Bytes in the unit of the drawings where they are a whole number of it, ranges as ``least..most``."""
    if isinstance(value, tuple):
        return "..".join(dict.fromkeys(_value(name, each) for each in value))
    if isinstance(value, float):
        return f"{value:.6g}"
    if name.endswith("bytes") and isinstance(value, int):
        return f"{value // 10**6}MB" if value % 10**6 == 0 else size(value).replace(" ", "")
    return str(value)


@pytest.mark.parametrize("path", sorted(DATA.glob("*.txt")), ids=lambda path: path.stem)
def test_golden(path: Path) -> None:
    run_golden(path, State())
