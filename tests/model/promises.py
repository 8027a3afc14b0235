"""What must hold when a program ends: it leaves no files of its own, and its report is true."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from lakekeeper.core.model.report import DeleteReport, MergeReport
from lakekeeper.core.vacuum.vacuum_report import VacuumReport
from lakekeeper.errors import AdapterError, Conflict, NotFound, Rejected, RetentionError, Unknown
from lakekeeper.testing.values import Row, text
from lakekeeper.testing.versions import Version
from tests.model.oracle import Violation
from tests.model.program import Done, Stop, Trace
from tests.model.store import Extra, Node, author_of

if TYPE_CHECKING:
    from tests.model.world import World


_FULL = ("are registered on it", "the trash holds", "could not be moved back")
"""Why a program may be refused although nothing is wrong: slots are few, and a trash entry may be incomplete."""


def ended(world: World, trace: Trace, node: Node, extra: Extra) -> None:
    """Check a program at its end, and count its outcome."""
    done = trace.next
    assert isinstance(done, Done)
    ours = [version for version in node.chain if version.run_id.startswith(f"{trace.name}-")]
    _leftovers(world, trace, extra)
    _count(world, trace, done)
    if done.error is not None:
        _error(world, trace, done.error, ours)
    elif isinstance(done.value, MergeReport):
        _merge_report(done.value, ours, node)
    elif isinstance(done.value, DeleteReport):
        _delete_report(done.value, ours, node)
    elif isinstance(done.value, VacuumReport):
        _vacuum_report(world, done.value, trace)


def _leftovers(world: World, trace: Trace, extra: Extra) -> None:
    if not trace.clean:
        return
    mine = [world.registry.by_number[n].path for n in extra]
    left = [path for path in mine if author_of(path) == trace.name]
    if left:
        raise Violation(f"{trace.name} ended with a known outcome and left {left} behind")


def _error(world: World, trace: Trace, error: BaseException, ours: list[Version]) -> None:
    """An error is one of the documented ones and has a cause, and nothing landed unless it says so."""
    said, keep = str(error), world.scope.keep
    down = keep is not None and any(fault.startswith("down") for fault in trace.faults)
    expected: dict[type[BaseException], bool] = {
        Conflict: True,
        Rejected: "rejected" in trace.faults or "did not renew its registration" in said,
        Unknown: any(fault.startswith("unknown") for fault in trace.faults),
        Stop: any(fault.startswith("stop") for fault in trace.faults),
        # A delete that cannot read its table reports it; a rewrite loses only that group.
        OSError: _last_call(trace) in ("find", "prepare"),
        AdapterError: down
        or "empty" in trace.faults
        or (keep is not None and any(why in said for why in _FULL)),
        RetentionError: "empty" in trace.faults
        or (keep is not None and keep.share < 1 and "max-share" in said),
        NotFound: keep is not None and "trash" in said,
    }
    if not expected.get(type(error), False):
        raise Violation(f"{trace.name} ended with {type(error).__name__}: {error}") from error
    landed = [version.number for version in ours if version.run_id == trace.last_run_id()]
    if isinstance(error, Conflict | Rejected) and landed:
        raise Violation(f"{trace.name} says that nothing landed ({error}), and version {landed[0]} did")


def _last_call(trace: Trace) -> str:
    """The last question before the end, except the cleanup after it."""
    at = trace.parent
    while at is not None and at.asks == "deletes.discard":
        at = at.parent
    return at.asks if at is not None else ""


def _merge_report(report: MergeReport, ours: list[Version], node: Node) -> None:
    reported = (report.commits, report.run_ids)
    seen = (len(ours), tuple(version.run_id for version in ours))
    if reported != seen:
        raise Violation(f"the report has {reported}, the log {seen}")
    if ours and report.version_after != ours[-1].number:
        raise Violation(f"the report says version {report.version_after}, the log {ours[-1].number}")
    planned = report.plan.tasks if report.plan else ()
    if report.rounds == 1 and sorted(g.id for g in report.groups) != sorted(t.id for t in planned):
        raise Violation(f"groups {report.groups} do not list each task once")
    came = went = 0
    for version in ours:
        before = node.chain[version.number - 1]
        came += len(version.files.keys() - before.files.keys())
        went += len(before.files.keys() - version.files.keys())
    if report.added_data_files_count != came or report.rewritten_data_files_count < went:
        raise Violation(f"{went} files were removed and {came} added, but the report differs: {report}")
    _replayed(report, ours, node)


def _stored(row: Row) -> str:
    """A row as text, where a column that a file lacks is NULL."""
    return text({name: value for name, value in row.items() if value is not None})


def _replayed(report: MergeReport, ours: list[Version], node: Node) -> None:
    """Rows replayed = live rows that were read − those of them that were committed; an UPDATE's rows were not read."""
    if report.rounds != 1 or report.plan is None:
        return
    done = {group.id for group in report.groups if group.status == "committed"}
    read, out = Counter[str](), Counter[str]()
    for task in report.plan.tasks:
        if task.id in done:
            files = node.chain[task.read_version].files
            read.update(_stored(row) for path in task.inputs for row in files[path].live)
    for version in ours:
        before = node.chain[version.number - 1].files
        out.update(
            _stored(row) for path, entry in version.files.items() if path not in before for row in entry.live
        )
    if report.replayed_rows_count != (read - out).total():
        raise Violation(
            f"{read.total()} rows read, {out.total()} written, {report.replayed_rows_count} said to be replayed"
        )


def _delete_report(report: DeleteReport, ours: list[Version], node: Node) -> None:
    if bool(ours) != bool(report.run_id) or len(ours) > 1:
        raise Violation(f"the delete reports run {report.run_id!r}, the log has {len(ours)}")
    gone = 0
    if ours:
        number = ours[0].number
        if report.version_after != number:
            raise Violation(f"the delete says version {report.version_after}, the log {number}")
        gone = len(node.nodes[number - 1].model.rows) - len(node.nodes[number].model.rows)
    if report.deleted_rows_count != gone:
        raise Violation(f"{report.deleted_rows_count} rows are said to be deleted, {gone} were")


def _vacuum_report(world: World, report: VacuumReport, trace: Trace) -> None:
    """It reports what its deletes did, and stays within the deletion limit."""
    keep = world.scope.keep
    assert keep is not None
    gone, at = 0, trace
    while at.parent is not None and at.answer is not None:
        if at.parent.asks in ("storage.delete", "storage.move"):
            gone += len(at.answer.value or ())
        at = at.parent
    if report.deleted_files_count != gone:
        raise Violation(f"{gone} files were deleted, {report.deleted_files_count} are said to be")
    plan = report.plan
    if plan is not None and gone:
        ever = {f"mem:/db.t/{path}" for version in world.table.versions for path in version.files}
        unexplained = sum(file.bytes for file in plan.files if file.path not in ever)
        if unexplained > keep.share * (unexplained + (plan.live_bytes or 0)):
            raise Violation(
                f"{unexplained} bytes that no version ever referenced were deleted beside {plan.live_bytes}, the limit "
                f"is {keep.share}"
            )
    world.counts["vacuum deleted"] += gone > 0
    world.counts["expired"] += report.expired_snapshots_count > 0
    world.counts["expired after a conflict"] += report.expired_snapshots_count > 0 and report.retries > 0


def _count(world: World, trace: Trace, done: Done) -> None:
    """Count the events of this program."""
    counts = world.counts
    name = type(done.error).__name__ if done.error else "report"
    counts[f"ended: {name}"] += 1
    for nth, word in ((1, "replay"), (2, "second replay"), (3, "third replay")):
        counts[word] += trace.replays >= nth
    said = str(done.error or "")
    counts["gave up"] += "gave up" in said
    unknown = any(fault.startswith("unknown") for fault in trace.faults)
    counts["unknown, settled"] += unknown and done.error is None
    counts["conflict with itself, settled"] += "conflict with itself" in trace.faults and done.error is None
    counts["unknown, reported"] += isinstance(done.error, Unknown)
    if isinstance(done.value, MergeReport):
        report = done.value
        counts["retry"] += report.commits > 0 and trace.conflicts > 0
        counts["replay landed"] += report.replayed_rows_count > 0
        counts["drop"] += any(group.status == "dropped" for group in report.groups)
        counts["failed"] += any(group.status == "failed" for group in report.groups)
        counts["came back"] += any("came back" in str(group.detail) for group in report.groups)
        counts["early abort"] += any(
            group.detail is not None and "stopped_early" in group.detail.codes for group in report.groups
        )
    if isinstance(done.value, DeleteReport) and done.value.changed:
        counts["delete followed rows"] += done.value.followed_rows_count > 0
        counts["delete over a rewrite"] += any("lakekeeper run" in w for w in done.value.winners)
