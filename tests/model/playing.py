"""How histories of many steps are drawn and played: the same ones in every run."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test


def one_of_each(*choices: Sequence[Any]) -> st.SearchStrategy[Any]:
    """One of all combinations: one draw, where several would cost more than the step itself."""
    return st.sampled_from(list(itertools.product(*choices)))


def play(machine: type[RuleBasedStateMachine], examples: int, steps: int, *, shrink: bool) -> None:
    """So many histories of so many steps; raises the first Violation, of the smallest history if ``shrink``."""
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            derandomize=True,
            database=None,
            phases=(Phase.generate, Phase.shrink) if shrink else (Phase.generate,),
            report_multiple_bugs=False,
            # Long histories are large and slow by design, and rules often find nothing to do.
            suppress_health_check=list(HealthCheck),
        ),
    )
