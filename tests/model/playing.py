"""How histories of many steps are generated and run: the same ones in every run, or a daily share."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from datetime import date
from typing import Any

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.sampling import ALL, chosen_day


def one_of_each(*choices: Sequence[Any]) -> st.SearchStrategy[Any]:
    """Draw one combination: a single draw, as several would cost more than the step itself."""
    return st.sampled_from(list(itertools.product(*choices)))


def play(machine: type[RuleBasedStateMachine], examples: int, steps: int, *, shrink: bool) -> None:
    """Run this many histories of this many steps; raises the first Violation, of the smallest history if ``shrink``."""
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
            # Long histories are large and slow by design, and rules often have nothing to do.
            suppress_health_check=list(HealthCheck),
        ),
    )


def play_daily(machine: type[RuleBasedStateMachine], examples: int, steps: int, share: int = 10) -> bool:
    """Run this many histories, or one ``share``-th of them, different each day; return whether all of them ran."""
    day = chosen_day()
    if day == ALL or share == 1:
        play(machine, examples, steps, shrink=True)
        return True
    of_today = seed(date.fromisoformat(day).toordinal())(type(machine.__name__, (machine,), {}))
    play(of_today, examples // share, steps, shrink=True)
    return False
