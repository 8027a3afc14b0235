"""The result of a vacuum."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.model.report import DONE, FAILED, IDLE, PARTIAL, PLANNED
from lakekeeper.core.text.result import Result
from lakekeeper.core.vacuum.vacuum_plan import VacuumPlan
from lakekeeper.core.vacuum.vacuum_text import render_vacuum

_NOTHING_TO_DO = Reason.of(Code.NOTHING_TO_DO)


@dataclass(frozen=True, slots=True)
class VacuumReport(Result):
    """The result of ``vacuum``; counts carry Iceberg's names.

    deleted_*        files that this call deleted, by kind and in total; in a dry run, files that it would delete
    failed_files_count   files that were to be deleted and are still there
    expired_snapshots_count   versions that can no longer be read (Delta: of those that the log still knows)
    expired_refs_count   branches and tags that were removed because their own retention has ended
    settled_runs     runs that died or failed, whose leftover files were looked up
    trash            the name under which the files can be restored; empty if they were deleted
    ended            why the call ended, such as ``done`` or ``stopped`` (``ended.code``)
    proof            the note that was written before the first delete; empty if nothing was deleted
    """

    table: str
    dry_run: bool
    version: int | None
    deleted_files_count: int = 0
    deleted_bytes_count: int = 0
    deleted_by_kind: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    failed_files_count: int = 0
    expired_snapshots_count: int = 0
    expired_refs_count: int = 0
    kept_versions_count: int = 0
    settled_runs: tuple[str, ...] = ()
    batches: int = 0
    retries: int = 0
    run_id: str = ""
    trash: str = ""
    proof: str = ""
    ended: Reason = _NOTHING_TO_DO
    duration_ms: int = 0
    plan: VacuumPlan | None = field(default=None, compare=False, repr=False)

    @property
    def changed(self) -> bool:
        """Whether anything was deleted, moved to the trash, or expired: versions, branches or tags."""
        return not self.dry_run and self._has_effect

    @property
    def status(self) -> str:
        """``done``, ``partial`` (files could not be deleted), ``failed``, ``idle``, or ``planned`` in a dry run."""
        if self.dry_run:
            return PLANNED if self._has_effect else IDLE
        stopped = bool(self.failed_files_count) or self.ended.code == Code.STOPPED
        if self.changed:
            return PARTIAL if stopped else DONE
        return FAILED if stopped else IDLE

    @property
    def _has_effect(self) -> bool:
        return bool(self.deleted_files_count or self.expired_snapshots_count or self.expired_refs_count)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, the plan included."""
        plain: dict[str, Any] = {
            name: getattr(self, name) for name in self.__dataclass_fields__ if name != "plan"
        }
        plain["status"] = self.status
        plain["deleted_by_kind"] = {kind: list(counts) for kind, counts in self.deleted_by_kind.items()}
        plain["settled_runs"] = list(self.settled_runs)
        plain["ended"] = self.ended.to_dict()
        plain["plan"] = self.plan.to_dict() if self.plan else None
        return plain

    def __str__(self) -> str:
        return render_vacuum(self)
