"""When a run commits: a small run once, at its end; a large run in parts, as groups finish.

    groups done   ■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■
    commits                ▲        ▲        ▲        ▲      after each partial-progress.bytes-per-commit, or more where
                                                              that would be over partial-progress.max-commits

Concurrent writers are checked for conflicts with each commit, so a small run makes one. A run of hours with one commit
at its end would risk all of its work on that commit, and remove a million files at once. The options are named after
those of Iceberg's ``rewrite_data_files``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lakekeeper.core.config.options import Options
from lakekeeper.core.model.plan import Plan
from lakekeeper.core.planning.rewrites import Rewrite
from lakekeeper.engine.state.leases import Registration

_SOON = 5
"""A run commits what is ready while a fifth of its registration's time is left."""


@dataclass(slots=True)
class Parts:
    """The finished groups that wait for their commit. ``bytes_each`` are input bytes; None: one commit at the end."""

    bytes_each: int | None
    registration: Registration
    ready: list[Rewrite] = field(default_factory=list)

    @classmethod
    def of(cls, plan: Plan, options: Options, registration: Registration) -> Parts:
        """Parts of equal input bytes, as many as the options allow."""
        wanted = -(-plan.input_bytes // options.commit.bytes_per_commit)
        most = min(options.commit.max_commits, len(plan.tasks), wanted)
        return cls(-(-plan.input_bytes // most) if most > 1 else None, registration)

    def due(self) -> bool:
        """Whether to commit the groups that are ready now, although others still run."""
        if not self.ready:
            return False
        if self.registration.left_ms() * _SOON < self.registration.intent.timeout_ms:
            return True
        return self.bytes_each is not None and sum(r.task.input_bytes for r in self.ready) >= self.bytes_each

    def take(self) -> Sequence[Rewrite]:
        """The groups that are ready; from now on, the caller has to commit them."""
        taken, self.ready = self.ready, []
        return taken
