"""Any package can bring a policy: a policy that breaks the rules is refused by name, and entry points find them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from lakekeeper.core.config.options import Options, resolve
from lakekeeper.core.model.blocks import Index, Snapshot
from lakekeeper.core.model.plan import Choice, Freeze, Merge, Plan, Skip
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.planning.planner import make_plan
from lakekeeper.core.planning.policy import Env, converges, lays_out
from lakekeeper.engine.plugins import find_policies
from lakekeeper.errors import OptionError
from lakekeeper.testing.drawing import parse_blocks, parse_key

BUILT_IN = find_policies(["adaptive", "ranges", "peaks", "universal", "full", "sizes", "deletes"])

BLOCKS = """\
L0 a 1--2 10MB part=p=1
L0 b 1--2 10MB part=p=1
L0 c 1--2 10MB part=p=2
L0 d 1--2 10MB part=p=2
"""


@dataclass(frozen=True)
class Scripted:
    """A policy that returns what the test gave it."""

    choices: Callable[[Index], Sequence[Choice]]
    name: str = "theirs"

    def choose(self, snapshot: Snapshot, candidates: Index, options: Options, env: Env) -> Sequence[Choice]:
        return self.choices(candidates)


def merge(*at: int) -> Merge:
    return Merge(np.array(at, np.intp), 1, 1.0, Reason.of("theirs", "because"))


def plan_of(*policies: Scripted) -> Plan:
    return make_plan(parse_blocks(BLOCKS, parse_key("k:int")), [*policies], resolve(), Env())


@pytest.mark.parametrize(
    "choices, said",
    [
        ([merge(0, 1), merge(1)], r"b is named more than once, first in the group of a, b \(because\)"),
        ([merge(0, 1), Skip(np.array([0]), Reason.of("theirs", "no"))], "a is named more than once"),
        ([merge(0, 0)], "a is named more than once, first in the group of a, a"),
        ([merge(0, 1), merge(2, 1)], "b is named more than once"),
        ([merge(1, 2)], r"one partition and spec.*differ in the group of b, c \(because\)"),
        ([merge(0, 1), merge(3, 0)], "a is named more than once"),
        ([merge()], "at least one block"),
        ([Skip(np.array([0]), "tomorrow")], r"reasons made by Reason\.of"),  # type: ignore[arg-type]  # the mistake
        ([merge(0, 4)], "by their positions"),
        ([merge(-1)], "by their positions"),
    ],
)
def test_choices_that_break_the_rules_are_refused_with_their_group(choices: list[Choice], said: str) -> None:
    with pytest.raises(OptionError, match=said) as error:
        plan_of(Scripted(lambda _: choices))
    assert error.value.key == "policy"
    assert error.value.value == "theirs"
    assert "its plan is refused" in error.value.expected


def test_a_block_that_was_not_shown_is_refused() -> None:
    first = Scripted(lambda _: [merge(0, 1)], name="first")
    with pytest.raises(OptionError, match="a is named though it was not shown to it"):
        plan_of(first, Scripted(lambda _: [merge(0)]))


def test_a_policy_sees_what_those_before_it_left() -> None:
    seen: list[list[int]] = []

    def look(candidates: Index) -> list[Choice]:
        seen.append(candidates.tolist())
        return []

    plan = plan_of(Scripted(lambda _: [merge(0, 1)], name="first"), Scripted(look))
    assert seen == [[2, 3]]
    assert [task.policy for task in plan.tasks] == ["first"]
    assert sum(left.blocks for left in plan.left) == 2


def test_blocks_are_frozen_by_the_choice_and_not_by_its_text() -> None:
    choices: list[Choice] = [
        Freeze(np.array([0]), Reason.of("theirs", "nothing to gain")),
        Skip(np.array([1]), Reason.of(Code.CONSTANT)),
    ]
    plan = plan_of(Scripted(lambda _: choices))
    assert {left.reason.code: left.frozen for left in plan.left if left.reason.code != "not_considered"} == {
        "theirs": True,
        "constant": False,
    }


def test_the_traits_of_a_policy_have_defaults_and_may_be_set() -> None:
    theirs = Scripted(lambda _: [])
    assert converges(theirs)
    assert lays_out(theirs)
    assert [policy.name for policy in BUILT_IN if not converges(policy)] == ["full"]
    assert [policy.name for policy in BUILT_IN if not lays_out(policy)] == ["sizes", "deletes"]


@pytest.mark.parametrize("lays, taken", [(True, 1), (False, 2)])
def test_a_change_of_the_key_holds_back_policies_that_lay_data_out(lays: bool, taken: int) -> None:
    """All four blocks were clustered by another key; the share of one round is one group."""

    @dataclass(frozen=True)
    class Theirs(Scripted):
        lays_out: bool = True

    theirs = Theirs(lambda _: [merge(0, 1), merge(2, 3)], lays_out=lays)
    snapshot = parse_blocks(BLOCKS.replace("part=", "key=other part="), parse_key("k:int"))
    options = resolve({"key-change-ratio": 0.01, "single-task-bytes": 1 << 20})
    assert len(make_plan(snapshot, [theirs], options, Env()).tasks) == taken


@pytest.mark.parametrize(
    "place", [{"call": {"policy": "sizes,ranges"}}, {"conf": {"spark.lakekeeper.policy": "sizes,ranges"}},
              {"properties": {"lakekeeper.policy": "sizes,ranges"}}],
)  # fmt: skip
def test_an_ordered_set_of_policies_comes_from_call_conf_or_property(
    place: dict[str, Any],
) -> None:
    words = resolve(**place).table.policies
    assert [policy.name for policy in find_policies(words)] == ["sizes", "ranges"]


@pytest.mark.parametrize("target_mb, ranges", [(128, 4), (200, 5), (300, 7), (400, 5)])
def test_ranges_are_whole_files_with_room_below_the_bound_of_a_file(target_mb: int, ranges: int) -> None:
    """Ranges of 512 MiB made two files of 268 MB each for a target of 400 MB. With the target at the bound of a file,
    files exceeded it, and each merge ran a second time.
    """
    drawn = parse_blocks("\n".join(f"L0 f{n:02d} {n}--{n + 30} 100MB" for n in range(20)), parse_key("k:int"))
    everything = Scripted(lambda candidates: [merge(*candidates.tolist())])
    [task] = make_plan(
        drawn, [everything], resolve({"target-file-size-bytes": target_mb * 10**6}), Env()
    ).tasks
    assert (len(task.cuts) + 1, task.target_bytes) == (ranges, target_mb * 10**6)
    assert 1.2 * task.target_bytes < task.max_bytes
