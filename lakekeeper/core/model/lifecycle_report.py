"""The result of deleting expired rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.model.report import DONE, FAILED, IDLE, PLANNED
from lakekeeper.core.text.formatting import counted, size
from lakekeeper.core.text.result import Result


@dataclass(frozen=True, slots=True)
class LifecycleReport(Result):
    """The result of ``expire_rows``.

    where                     the rows that are expired
    due_data_files_count      files that may have such rows, and their size; ``due_whole_files_count`` of them have no
                              others, as their bounds prove
    due_rows_count            live rows of these files, of which at most all are expired; None if unknown
    deleted_rows_count        as in a DeleteReport, like ``touched_data_files_count`` and ``unread_data_files_count``
    ended                     what was done, or why nothing was
    run_id                    of the commit, in the table's log; empty if nothing was committed
    """

    table: str
    dry_run: bool
    where: str
    version_before: int | None
    version_after: int | None
    ended: Reason
    due_data_files_count: int = 0
    due_bytes_count: int = 0
    due_whole_files_count: int = 0
    due_rows_count: int | None = 0
    deleted_rows_count: int = 0
    touched_data_files_count: int = 0
    unread_data_files_count: int = 0
    run_id: str = ""
    duration_ms: int = 0

    @property
    def changed(self) -> bool:
        """Whether anything was committed."""
        return bool(self.run_id)

    @property
    def status(self) -> str:
        """``done``, ``failed`` if the trash is full, ``idle`` if no row is due or, in a dry run, ``planned``."""
        if self.dry_run:
            return PLANNED if self.due_data_files_count else IDLE
        if self.ended.code == Code.TRASH_FULL:
            return FAILED
        return DONE if self.changed else IDLE

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {**asdict(self), "status": self.status, "ended": self.ended.to_dict()}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> LifecycleReport:
        """Inverse of :meth:`to_dict`; raises ValueError, TypeError or KeyError for invalid input."""
        fields = {name: plain[name] for name in cls.__dataclass_fields__}
        fields["ended"] = Reason.from_dict(fields["ended"])
        return cls(**fields)

    def __str__(self) -> str:
        head = f"{self.table}: rows where {self.where}"
        if self.status in (IDLE, FAILED):
            return f"{head}: {self.ended}; nothing was committed"
        if self.dry_run:
            most = "" if self.due_rows_count is None else f", at most {counted(self.due_rows_count, 'row')}"
            due = f"{counted(self.due_data_files_count, 'file')}, {size(self.due_bytes_count)}{most}"
            whole = self.due_whole_files_count
            due += f"; all rows of {whole:,} of these files" if whole else ""
            return f"dry run of expire_rows: nothing was written\n{head}\n  expired     in {due}"
        rows, files = self.deleted_rows_count, self.touched_data_files_count
        unread = f", {self.unread_data_files_count:,} of them without reading a row"
        lines = [
            f"{head} in {self.duration_ms / 1000:.1f} s, version {self.version_before} -> {self.version_after}",
            f"  deleted     {counted(rows, 'row')} in {counted(files, 'file')}"
            + (unread if self.unread_data_files_count else ""),
            f"  run         {self.run_id}; restore them from the trash",
        ]
        return "\n".join(lines)
