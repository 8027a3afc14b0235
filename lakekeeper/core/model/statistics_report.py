"""The result of computing statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.model.report import DONE, IDLE, PARTIAL, PLANNED
from lakekeeper.core.text.formatting import counted, size
from lakekeeper.core.text.result import Result


@dataclass(frozen=True, slots=True)
class StatisticsReport(Result):
    """The result of ``compute_statistics``.

    described_data_files_count   data files whose rows were read for the statistics; in a dry run, would be
    read_bytes_count             their size
    statistics_files             the files that were written for them (Iceberg); Delta Lake keeps them in its log
    conflicts                    commits retried because another commit came first
    ended                        what was done, or why nothing was
    """

    table: str
    dry_run: bool
    version_before: int | None
    version_after: int | None
    ended: Reason
    described_data_files_count: int = 0
    read_bytes_count: int = 0
    statistics_files: tuple[str, ...] = ()
    conflicts: int = 0
    run_ids: tuple[str, ...] = ()
    duration_ms: int = 0

    @property
    def changed(self) -> bool:
        """Whether anything was committed."""
        return bool(self.run_ids)

    @property
    def status(self) -> str:
        """``done``, ``partial`` if an error ended it, ``idle`` if none are outdated or, in a dry run, ``planned``."""
        if self.dry_run:
            return PLANNED if self.described_data_files_count else IDLE
        if Code.ENDED_BY_ERROR in self.ended.codes:
            return PARTIAL
        return DONE if self.changed else IDLE

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {**asdict(self), "status": self.status, "ended": self.ended.to_dict()}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> StatisticsReport:
        """Inverse of :meth:`to_dict`; raises ValueError, TypeError or KeyError for invalid input."""
        fields = {name: plain[name] for name in cls.__dataclass_fields__}
        fields["ended"] = Reason.from_dict(fields["ended"])
        fields["statistics_files"] = tuple(fields["statistics_files"])
        fields["run_ids"] = tuple(fields["run_ids"])
        return cls(**fields)

    def __str__(self) -> str:
        read = f"{counted(self.described_data_files_count, 'file')}, {size(self.read_bytes_count)}"
        if self.status == IDLE:
            return f"{self.table}: no statistics were computed: {self.ended}"
        if self.dry_run:
            return f"dry run of compute_statistics: nothing was written\n{self.table}: would read {read}: {self.ended}"
        took = f"in {self.duration_ms / 1000:.1f} s"
        lines = [f"{self.table}: statistics computed {took}", f"  read        {read}"]
        lines += [f"  written     {path}" for path in self.statistics_files]
        lines.append(f"  run         {', '.join(self.run_ids)}")
        if self.status == PARTIAL:
            lines.append(f"  ended       {self.ended}")
        return "\n".join(lines)
