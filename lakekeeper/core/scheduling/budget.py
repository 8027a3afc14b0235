"""What the tasks of a fleet may still use, in one pass and in 24 hours: bytes to rewrite, and core-seconds.

    grant(wanted) ─► bytes that a task may rewrite, reserved ─► settle(reserved, rewritten) when it has ended

Parallel tasks cannot spend the same bytes twice. As with the budget of one table, the first group of a task may exceed
what was granted, so that a small budget still does some work; once nothing is left, no task is started. Where running
tasks have reserved all that is left, a task waits for them: they may leave some of it.

Core-seconds are known only when a task has ended: once they are used up, no task is started; running tasks continue.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class FleetBudget:
    """Limits and what was used of them; a limit of None is no limit.

    spent_bytes     by this pass; ``spent_today_bytes``: in the 24 hours before it, by earlier passes
    reserved_bytes  granted to tasks that are running
    *_core_seconds  limits and use in the same way; nothing is reserved
    """

    per_pass_bytes: int | None = None
    per_day_bytes: int | None = None
    spent_bytes: int = 0
    spent_today_bytes: int = 0
    reserved_bytes: int = 0
    per_pass_core_seconds: int | None = None
    per_day_core_seconds: int | None = None
    spent_core_seconds: float = 0.0
    spent_today_core_seconds: float = 0.0

    @property
    def used_up(self) -> str:
        """The option whose core-seconds are used up; empty if a task may start."""
        used, today = self.spent_core_seconds, self.spent_core_seconds + self.spent_today_core_seconds
        if self.per_day_core_seconds is not None and today >= self.per_day_core_seconds:
            return "auto.budget-core-seconds-per-day"
        if self.per_pass_core_seconds is not None and used >= self.per_pass_core_seconds:
            return "auto.budget-core-seconds"
        return ""

    @property
    def left_bytes(self) -> int | None:
        """What no task has spent or reserved; None without a limit, never below 0."""
        used = self.spent_bytes + self.reserved_bytes
        lefts = [
            limit - gone
            for limit, gone in (
                (self.per_pass_bytes, used),
                (self.per_day_bytes, used + self.spent_today_bytes),
            )
            if limit is not None
        ]
        return max(min(lefts), 0) if lefts else None

    @property
    def all_reserved(self) -> bool:
        """Whether nothing is left now, but running tasks may leave some of their grants."""
        return self.left_bytes == 0 and replace(self, reserved_bytes=0).left_bytes != 0

    def grant(self, wanted_bytes: int) -> tuple[FleetBudget, int | None]:
        """The budget with a part of it reserved, and that part: None without a limit, 0 where nothing is left."""
        left = self.left_bytes
        if left is None:
            return self, None
        granted = min(left, max(wanted_bytes, 1))
        return replace(self, reserved_bytes=self.reserved_bytes + granted), granted

    def settle(
        self, granted_bytes: int | None, rewritten_bytes: int, core_seconds: float = 0.0
    ) -> FleetBudget:
        """The budget once a task has ended: what it used is spent, and the rest of its grant is free again."""
        return replace(
            self,
            reserved_bytes=self.reserved_bytes - (granted_bytes or 0),
            spent_bytes=self.spent_bytes + rewritten_bytes,
            spent_core_seconds=self.spent_core_seconds + core_seconds,
        )
