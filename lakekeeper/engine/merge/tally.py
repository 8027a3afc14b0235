"""What the rounds of one merge have done so far."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from lakekeeper.core.model.plan import MergeTask, Plan
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.model.report import GroupResult
from lakekeeper.core.planning.policy import Part
from lakekeeper.core.planning.rewrites import Rewrite
from lakekeeper.core.scheduling.spending import Spending
from lakekeeper.engine.merge.committer import Landed
from lakekeeper.engine.merge.executor import Failed
from lakekeeper.errors import CommitError, Conflict, Unknown, message

_LOG = logging.getLogger("lakekeeper.events")


@dataclass(slots=True)
class Tally:
    """The counts of one call.

    run        the id that the ids of its commits begin with
    tried      commits begun, whatever their outcome
    littered   commits that may have left files whose names are not recorded anywhere
    spent      input bytes of the rounds that are over
    spending   observes the phases of the call: the bytes that its groups have read
    predicted  files that a query opens after the last plan, as it predicts
    parts      outputs by path, and the merge that wrote each: the next round continues a merge that a bound cut short
    """

    run: str
    rounds: int = 0
    tried: int = 0
    groups: list[GroupResult] = field(default_factory=list)
    run_ids: list[str] = field(default_factory=list)
    version: int | None = None
    conflicts: int = 0
    littered: int = 0
    removed_delete_files: int = 0
    spent: int = 0
    spending: Spending = field(default_factory=Spending)
    predicted: float | None = None
    parts: dict[str, Part] = field(default_factory=dict)

    def next_run_id(self) -> str:
        """The id of the next commit: each has its own, by which the log says whether it landed."""
        return f"{self.run}-{self.tried + 1}"

    def planned(self, plan: Plan) -> None:
        """A dry run ends with this plan."""
        self.groups += [_group(task, "planned") for task in plan.tasks]

    def failed(self, failed: Failed) -> None:
        """A group ended without a rewrite."""
        status = "dropped" if failed.raced else "failed"
        _LOG.warning("%s: group %s %s: %s", failed.task.table, failed.task.id, status, failed.detail)
        self.groups.append(_group(failed.task, status, detail=failed.detail))

    def abandoned(self, tasks: Sequence[MergeTask], error: BaseException) -> None:
        """The call ends with an error: the groups that were read, and have no result yet, have failed."""
        known = {group.id for group in self.groups}
        why = Reason.of(Code.FAILED, error=message(error))
        read = [task for task in tasks if task.id in self.spending.groups and task.id not in known]
        self.groups += [_group(task, "failed", detail=why) for task in read]

    def lost(self, rewrites: Sequence[Rewrite], failure: Exception) -> None:
        """A whole commit did not land, or is not known to have landed."""
        self.conflicts += isinstance(failure, CommitError) and not isinstance(failure, Unknown)
        self.littered += 1
        status = "dropped" if isinstance(failure, Conflict) else "failed"
        why = Reason.of(Code.FAILED, error=message(failure))
        self.groups += [_group(rewrite.task, status, detail=why) for rewrite in rewrites]

    def landed(self, run_id: str, landed: Landed) -> None:
        """A commit landed, with all or some of its groups; or none of them was left to commit."""
        self.conflicts += landed.retries + landed.replays + len(landed.dropped)
        self.littered += landed.littered
        for lost in landed.dropped:
            self.groups.append(_group(lost.rewrite.task, "dropped", detail=lost.reason))
        if landed.commit is None:
            return
        self.run_ids.append(run_id)
        self.version = landed.commit.version
        self.removed_delete_files += landed.commit.removed_delete_files
        for kept in landed.kept:
            made_by = Part(kept.task.id, kept.task.added_ms)
            self.parts.update(dict.fromkeys((output.path for output in kept.outputs), made_by))
            self.groups.append(_group(kept.task, "committed", rewrite=kept, detail=_detail(kept)))


def _detail(rewrite: Rewrite) -> Reason | None:
    """The detail of a committed group in the report: replayed deletes, and why Spark sorted its rows."""
    by_rows = rewrite.written.by_rows
    if rewrite.unmasked is None:
        return by_rows
    replayed = Reason.of(Code.REPLAYED, rows=rewrite.replayed)
    return replayed.plus(by_rows) if by_rows else replayed


def _group(
    task: MergeTask, status: str, *, rewrite: Rewrite | None = None, detail: Reason | None = None
) -> GroupResult:
    return GroupResult(
        id=task.id,
        status=status,
        files_in=len(task.inputs) + len(rewrite.successors or () if rewrite else ()),
        bytes_in=task.input_bytes,
        files_out=len(rewrite.added) if rewrite else 0,
        bytes_out=rewrite.bytes_out + sum(output.bytes for output in rewrite.moved) if rewrite else 0,
        level=task.level,
        partition=task.partition,
        reason=task.reason,
        detail=detail,
        replayed_rows=rewrite.replayed if rewrite else 0,
        rows_in=task.input_rows,
        rows_out=rewrite.rows_out if rewrite else 0,
        score=round(task.worth.score, 1) if task.worth else None,
    )
