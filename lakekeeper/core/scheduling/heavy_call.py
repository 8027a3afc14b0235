"""A heavy task as it is sent to another process: one verb on one table, with what it needs from the service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

FAILED_FILES = "failed_files"
"""In the answer to a merge, beside its report: the paths of files whose merge failed."""


@dataclass(frozen=True, slots=True)
class HeavyCall:
    """One verb on one table.

    table         its full name, or its path
    budget_bytes  what the task may rewrite; None: only the limit of the table applies
    resting       partitions that are skipped because other writers won a race there
    failing       files that are skipped because their last merge failed
    workload      the queries for which a recluster or an index is planned, as JSON; None: those that the confs name
    confs         ``spark.lakekeeper.*`` of the service
    """

    table: str
    verb: str
    budget_bytes: int | None = None
    resting: tuple[str, ...] = ()
    failing: tuple[str, ...] = ()
    workload: str | None = None
    confs: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__}
        lists = {"resting": list(self.resting), "failing": list(self.failing)}
        return {**plain, **lists, "confs": dict(self.confs)}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> HeavyCall:
        """Inverse of :meth:`to_dict`; raises TypeError or KeyError for invalid input."""
        return cls(**{**plain, "resting": tuple(plain["resting"]), "failing": tuple(plain["failing"])})
