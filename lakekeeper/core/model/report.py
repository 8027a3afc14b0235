"""Results of maintenance calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from lakekeeper.core.model.plan import Plan
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.model.report_html import report_html
from lakekeeper.core.model.report_text import render_delete, render_report, render_restore, render_undo
from lakekeeper.core.text.result import Result

DONE, PARTIAL, FAILED, IDLE, PLANNED = "done", "partial", "failed", "idle", "planned"
"""The ``status`` of a result: what became of the call as a whole."""

_NOTHING_TO_DO = Reason.of(Code.NOTHING_TO_DO)


def _reason_in(plain: Mapping[str, Any] | None) -> Reason | None:
    return None if plain is None else Reason.from_dict(plain)


@dataclass(frozen=True, slots=True)
class GroupResult:
    """The outcome of one group: ``committed``, ``dropped`` (lost a race), ``failed`` or ``planned`` (dry run).

    ``files_*``, ``bytes_*`` and ``rows_*`` count inputs and outputs (``rows_in`` with deleted rows); ``reason`` is why
    the group was chosen, ``detail`` why it was not committed or how a race changed it; ``replayed_rows`` counts rows
    that concurrent commits deleted, and that are deleted in the outputs too. ``score`` is the predicted benefit, 0 to
    100; None where nothing was predicted.
    """

    id: str
    status: str
    files_in: int
    bytes_in: int
    files_out: int = 0
    bytes_out: int = 0
    level: int = 0
    partition: str = ""
    reason: Reason | None = None
    detail: Reason | None = None
    replayed_rows: int = 0
    rows_in: int = 0
    rows_out: int = 0
    score: float | None = None

    @property
    def begun(self) -> bool:
        """Whether its inputs were read, or may have been."""
        stopped = self.detail is not None and Code.STOPPED_EARLY in self.detail.codes
        return self.status != "planned" and not stopped

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__}
        plain["reason"] = self.reason.to_dict() if self.reason else None
        plain["detail"] = self.detail.to_dict() if self.detail else None
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> GroupResult:
        """Inverse of :meth:`to_dict`; raises ValueError, TypeError or KeyError for invalid input."""
        reasons = {name: _reason_in(plain[name]) for name in ("reason", "detail")}
        return cls(**{**plain, **reasons})


@dataclass(frozen=True, slots=True)
class MergeReport(Result):
    """The result of ``recluster``, ``compact``, ``merge_deletes`` or ``build_filters``; counts use Iceberg's names.

    ended            why the call ended, such as ``nothing_to_do`` or ``max_rounds`` (``ended.code``)
    run_ids          one per commit, as recorded in the table's log
    depth_*          mean block depth before and after (equal in a dry run); None without a key
    duration_ms      wall time of the call
    conflicts        commits retried, groups replayed and groups dropped because a concurrent commit won
    replayed_*       rows that concurrent commits deleted, deleted in our outputs too
    *_delete_files_* delete files that no longer apply to any file or were merged, and the files they were merged into
    files_per_query_*  files that a query opens: before, as predicted by the plan of the last round, and after, for the
                     queries that the plan rests on, from the files' bounds. None if nothing was predicted
    plan             the plan of the first round
    """

    table: str
    verb: str
    dry_run: bool
    version_before: int | None
    version_after: int | None
    rewritten_data_files_count: int = 0
    added_data_files_count: int = 0
    rewritten_bytes_count: int = 0
    added_bytes_count: int = 0
    removed_delete_files_count: int = 0
    added_delete_files_count: int = 0
    failed_data_files_count: int = 0
    depth_before: float | None = None
    depth_after: float | None = None
    rounds: int = 0
    commits: int = 0
    conflicts: int = 0
    replayed_rows_count: int = 0
    duration_ms: int = 0
    run_ids: tuple[str, ...] = ()
    ended: Reason = _NOTHING_TO_DO
    groups: tuple[GroupResult, ...] = ()
    files_per_query_before: float | None = None
    files_per_query_predicted: float | None = None
    files_per_query_after: float | None = None
    plan: Plan | None = field(default=None, compare=False, repr=False)

    @property
    def status(self) -> str:
        """``done``, ``partial``, ``failed``, ``idle`` or, in a dry run, ``planned``.

        It is partial if groups failed or lost a race, or if an error ended the call after its first commit.
        """
        if self.dry_run:
            return PLANNED if self.groups else IDLE
        lost = any(group.status in ("failed", "dropped") for group in self.groups)
        lost |= Code.ENDED_BY_ERROR in self.ended.codes
        if self.changed:
            return PARTIAL if lost else DONE
        return FAILED if lost else IDLE

    @property
    def prediction_error(self) -> float | None:
        """Relative error of the predicted files per query against those opened now; None in a dry run."""
        predicted, real = self.files_per_query_predicted, self.files_per_query_after
        return round(abs(predicted - real) / real, 4) if predicted is not None and real else None

    @property
    def changed(self) -> bool:
        """Whether anything was committed."""
        return self.commits > 0

    def without_blocks(self) -> MergeReport:
        """This report with its plan as :meth:`Plan.without_blocks` leaves it."""
        return replace(self, plan=self.plan.without_blocks()) if self.plan else self

    @property
    def attempted_bytes_count(self) -> int:
        """Input of all groups that were begun, also of those that failed or lost: budgets count it."""
        begun = sum(group.bytes_in for group in self.groups if group.begun)
        return max(begun, self.rewritten_bytes_count)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, including the plan."""
        plain: dict[str, Any] = {
            name: getattr(self, name) for name in self.__dataclass_fields__ if name not in ("plan", "groups")
        }
        plain["run_ids"] = list(self.run_ids)
        plain["status"] = self.status
        plain["attempted_bytes_count"] = self.attempted_bytes_count
        plain["prediction_error"] = self.prediction_error
        plain["ended"] = self.ended.to_dict()
        plain["groups"] = [group.to_dict() for group in self.groups]
        plain["plan"] = self.plan.to_dict() if self.plan else None
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any], plan: Plan | None = None) -> MergeReport:
        """Inverse of :meth:`to_dict`, with ``plan`` as the plan; raises as :meth:`GroupResult.from_dict`."""
        fields = {name: plain[name] for name in cls.__dataclass_fields__ if name != "plan"}
        fields["run_ids"] = tuple(fields["run_ids"])
        fields["ended"] = Reason.from_dict(fields["ended"])
        fields["groups"] = tuple(map(GroupResult.from_dict, fields["groups"]))
        return cls(**fields, plan=plan)

    def __str__(self) -> str:
        return render_report(self)

    def _repr_html_(self) -> str:
        return report_html(self)


@dataclass(frozen=True, slots=True)
class DeleteReport(Result):
    """The result of ``delete`` and ``drop_partition``.

    deleted_rows_count       live rows that this commit deleted. Files that were removed whole while deletes of unknown
                             effect (Iceberg's equality deletes) applied to them count no rows; a position delete file
                             of Iceberg v2 counts as if it named each row once
    touched_data_files_count files with rows that were deleted
    unread_data_files_count  those of them that were removed by path: metadata alone proved that every row matches
    retries                  attempts that lost to a concurrent commit
    followed_rows_count      rows found in files that were added meanwhile
    winners                  the concurrent commits that won, oldest first
    run_id                   of the commit, in the table's log; empty where no row matched and nothing was committed
    trash                    the entry from which the rows can be restored; empty after ``delete`` and with ``force``
    """

    table: str
    where: str
    version_before: int | None
    version_after: int | None
    deleted_rows_count: int = 0
    touched_data_files_count: int = 0
    unread_data_files_count: int = 0
    retries: int = 0
    followed_rows_count: int = 0
    winners: tuple[str, ...] = ()
    run_id: str = ""
    duration_ms: int = 0
    trash: str = ""

    @property
    def changed(self) -> bool:
        """Whether anything was committed."""
        return bool(self.run_id)

    @property
    def status(self) -> str:
        """``done``, or ``idle`` if no row matched."""
        return DONE if self.changed else IDLE

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {**asdict(self), "status": self.status, "winners": list(self.winners)}

    def __str__(self) -> str:
        return render_delete(self)


@dataclass(frozen=True, slots=True)
class RestoreReport(Result):
    """The result of ``restore``: what was restored, and the version of the table that contains it.

    kind       ``files`` (back at their original paths) or ``partition`` (its rows are in new files)
    rows       rows of the partition; 0 where an earlier restore added them and their number is not known
    files      files that this call moved back or, of a partition, wrote; ``bytes`` is the size of those moved
    already    an earlier or concurrent restore had already restored it: nothing was added
    version    the version that contains the rows; for files, the current version
    run_id     of the commit, in the table's log; empty for files
    """

    table: str
    name: str
    kind: str
    where: str = ""
    rows: int = 0
    files: int = 0
    bytes: int = 0
    version: int | None = None
    already: bool = False
    run_id: str = ""
    duration_ms: int = 0

    @property
    def status(self) -> str:
        """``done``, or ``idle`` if an earlier restore had already restored it."""
        return IDLE if self.already else DONE

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {**asdict(self), "status": self.status}

    def __str__(self) -> str:
        return render_restore(self)


@dataclass(frozen=True, slots=True)
class UndoReport(Result):
    """The result of ``undo``: the files that came back, and those that left.

    undone            the run that was undone
    version_after     the version that has the layout back; None in a dry run
    already           the run was undone before: nothing was committed
    rollback_to       the version to which the branch went back, or would go; None if the undo is a new version
    run_id            of the commit, in the table's log; empty after a rollback, which leaves no trace of its own there
    """

    table: str
    undone: str
    dry_run: bool = False
    version_before: int | None = None
    version_after: int | None = None
    restored_data_files_count: int = 0
    restored_bytes_count: int = 0
    removed_data_files_count: int = 0
    removed_bytes_count: int = 0
    already: bool = False
    rollback_to: int | None = None
    run_id: str = ""
    duration_ms: int = 0

    @property
    def status(self) -> str:
        """``done``, ``idle`` if it was undone before or, in a dry run, ``planned``."""
        if self.already:
            return IDLE
        return PLANNED if self.dry_run else DONE

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {**asdict(self), "status": self.status}

    def __str__(self) -> str:
        return render_undo(self)


@dataclass(frozen=True, slots=True)
class MetadataReport(Result):
    """The result of ``compact_metadata``: metadata files that planning opens, before and after.

    version      the version that was created (Iceberg) or checkpointed (Delta); None: nothing was done
    ended        what was done, or why nothing was
    """

    table: str
    dry_run: bool
    files_before: int
    files_after: int
    version: int | None
    ended: Reason
    duration_ms: int = 0

    @property
    def changed(self) -> bool:
        """Whether anything was written."""
        return self.version is not None and not self.dry_run

    @property
    def status(self) -> str:
        """``done``, ``idle`` or, in a dry run, ``planned``."""
        if self.dry_run:
            return PLANNED if self.files_after < self.files_before else IDLE
        return DONE if self.changed else IDLE

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {**asdict(self), "status": self.status, "ended": self.ended.to_dict()}

    def __str__(self) -> str:
        would = " would be" if self.dry_run else ""
        return f"{self.table}: {self.ended}; metadata files{would}: {self.files_before:,} -> {self.files_after:,}"


@dataclass(frozen=True, slots=True)
class KeyReport(Result):
    """The result of ``cluster_by``: the key before and after (empty for none), and where it is stored.

    ``changes`` lists what else changes in the table, as (what, before, after): protocol versions and features of Delta,
    the sort order of Iceberg.
    """

    table: str
    dry_run: bool
    key_before: str
    key_after: str
    kept_as: str
    changes: tuple[tuple[str, str, str], ...] = ()

    @property
    def status(self) -> str:
        """``done``, ``idle`` if the table stays as it is or, in a dry run, ``planned``."""
        if self.key_before == self.key_after and not self.changes:
            return IDLE
        return PLANNED if self.dry_run else DONE

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        changes = [dict(zip(("what", "before", "after"), change, strict=True)) for change in self.changes]
        return {**asdict(self), "status": self.status, "changes": changes}

    def __str__(self) -> str:
        verb = "would become" if self.dry_run else "->"
        kept = f", stored as {self.kept_as}" if self.key_after else ""
        lines = [
            f"{self.table}: cluster key {self.key_before or 'none'} {verb} {self.key_after or 'none'}{kept}"
        ]
        lines += [
            f"  {what}: {before or 'none'} -> {after or 'none'}" for what, before, after in self.changes
        ]
        return "\n".join(lines)


def count_status(groups: tuple[GroupResult, ...]) -> Mapping[str, int]:
    """Number of groups by status."""
    counts: dict[str, int] = {}
    for group in groups:
        counts[group.status] = counts.get(group.status, 0) + 1
    return counts
