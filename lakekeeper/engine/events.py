"""The phases of a run: each goes to the log, and to the observer of the call, if there is one.

    INFO      a plan with work, a commit, deleted files           logger ``lakekeeper.events``
    WARNING   a commit that lost to another one
    DEBUG     every other phase, and why blocks were left

The observer is one callable that receives each phase, for tests, progress and users.
An exception that an observer raises halts the run as a crash would, without any cleanup. Crash tests rely on this;
progress displays must therefore not raise. An interrupt during an observer ends the run as anywhere else.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakekeeper.core.model.plan import Plan
from lakekeeper.spi import PHASES, Observer

_LOG = logging.getLogger("lakekeeper.events")
RUN_FACTS = ("table", "run_id", "phase", "facts")
"""What the records of a run carry beside their message."""
_LEVELS = {"committed": logging.INFO, "deleted": logging.INFO, "conflict": logging.WARNING}


class Halted(BaseException):
    """Carries an observer's exception past all cleanup; the engine's entry point unwraps it."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(str(cause))
        self.cause = cause


@dataclass(frozen=True, slots=True)
class Events:
    """Reports the phases of one run to its observer, from worker threads too: observers that keep state must lock."""

    table: str
    run_id: str
    observer: Observer | None = None

    def emit(self, phase: str, **info: Any) -> None:
        """Announce ``phase`` (one of ``spi.PHASES``)."""
        if phase not in PHASES:
            raise ValueError(f"unknown phase {phase!r}")
        self._log(phase, info)
        if self.observer is None:
            return
        facts: Mapping[str, Any] = {"table": self.table, "run_id": self.run_id, **info}
        try:
            self.observer(phase, facts)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise Halted(error) from error

    def _log(self, phase: str, info: Mapping[str, Any]) -> None:
        level = _LEVELS.get(phase, logging.DEBUG)
        if phase == "planned" and (info.get("tasks") or info.get("files")):
            level = logging.INFO
        if not _LOG.isEnabledFor(level):
            return
        facts = {name: value for name, value in info.items() if name != "plan"}
        text = " ".join(f"{name}={value}" for name, value in facts.items())
        of_run = {"table": self.table, "run_id": self.run_id, "phase": phase, "facts": facts}
        _LOG.log(level, "%s: run %s: %s %s", self.table, self.run_id, phase, text, extra=of_run)
        plan = info.get("plan")
        if isinstance(plan, Plan) and _LOG.isEnabledFor(logging.DEBUG):
            for left in plan.left:
                _LOG.debug(
                    "%s: run %s: left %d blocks: %s", self.table, self.run_id, left.blocks, left.reason
                )
