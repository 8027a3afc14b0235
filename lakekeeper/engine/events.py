"""The observer: one callable that receives each phase, for tests, progress and users.

An exception that an observer raises halts the run as a crash would: nothing is cleaned up after it. Crash tests rely on
this, and progress displays must therefore not raise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakekeeper.spi import PHASES, Observer


class Halted(BaseException):
    """Carries an observer's exception past all cleaning-up; the engine's entry unwraps it."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(str(cause))
        self.cause = cause


@dataclass(frozen=True, slots=True)
class Events:
    """Reports the phases of one run to its observer, from worker threads too: observers that keep state must lock."""

    table: str
    run_id: str
    observer: Observer | None = None

    def tell(self, phase: str, **info: Any) -> None:
        """Announce ``phase`` (one of ``spi.PHASES``)."""
        if phase not in PHASES:
            raise ValueError(f"unknown phase {phase!r}")
        if self.observer is None:
            return
        facts: Mapping[str, Any] = {"table": self.table, "run_id": self.run_id, **info}
        try:
            self.observer(phase, facts)
        except BaseException as error:
            raise Halted(error) from error
