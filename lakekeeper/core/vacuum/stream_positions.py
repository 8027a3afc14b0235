"""The positions that streams record in the log of a table that they write, and the versions that they need for that.

A stream commits its output together with its position. After a crash, it looks up in the table which of its
checkpoints, epochs or offsets were committed, and commits the rest. All sinks of Iceberg search in the same way::

    main          1 ─ 2 ─ 3 ─ 4 ─ 5       the sink reads the summary of 5, of its parent 4, and so on
                      └ checkpoint 7      up to the first one that names the sink

The search ends at the first version that has expired. The sink then considers all of its output uncommitted: it adds it
a second time, or fails because its manifests are gone. So such a version is kept together with all later ones of its
branch; a tag on it would not help.

Delta stores positions in the table's state (``txn``), which outlives all versions: no version has to be kept for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code

FLINK_JOB, FLINK_OPERATOR = "flink.job-id", "flink.operator-id"
FLINK_CHECKPOINT = "flink.max-committed-checkpoint-id"
SPARK_QUERY, SPARK_EPOCH = "spark.sql.streaming.queryId", "spark.sql.streaming.epochId"
KAFKA_OFFSETS = "kafka.connect.offsets."
"""Followed by the control topic and the consumer group; other ``kafka.connect.*`` keys are not read on restart."""

_ADDED_DELETES = "added-delete-files"
_CHECKS_HISTORY_FROM = 3


@dataclass(frozen=True, slots=True)
class SinkCommit:
    """One commit of a stream, with the position that it recorded.

    sink       which stream: ``Flink job 5ba1 (operator 3f2)``
    position   its position: ``checkpoint 7``
    version    the version of the commit; None if the position outlives all versions
    at_ms      the time of the commit (epoch milliseconds); None if unknown
    checks_history   the sink's next commit can fail unless its branch still has all versions from the first one on
    """

    sink: str
    position: str
    version: int | None
    at_ms: int | None
    checks_history: bool = False


def sink_commits(
    version: int, at_ms: int | None, summary: Mapping[str, str], format_version: int
) -> list[SinkCommit]:
    """The positions in the summary of an Iceberg snapshot.

    From format 3 on, Iceberg validates the deletion vectors of a commit. Sinks name no snapshot to begin at, so all of
    history is checked, and each commit fails once the first snapshot has expired (``validateAddedDVs``).
    """
    deletes = summary.get(_ADDED_DELETES, "0") != "0"
    checks = deletes and format_version >= _CHECKS_HISTORY_FROM
    return [SinkCommit(sink, position, version, at_ms, checks) for sink, position in _positions(summary)]


def _positions(summary: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    if FLINK_JOB in summary and FLINK_CHECKPOINT in summary:
        operator = summary.get(FLINK_OPERATOR)  # older sinks record none, and accept such commits as theirs
        suffix = f" (operator {operator})" if operator else ""
        yield f"Flink job {summary[FLINK_JOB]}{suffix}", f"checkpoint {summary[FLINK_CHECKPOINT]}"
    if SPARK_QUERY in summary and SPARK_EPOCH in summary:
        yield f"Spark query {summary[SPARK_QUERY]}", f"epoch {summary[SPARK_EPOCH]}"
    for name, offsets in summary.items():
        if name.startswith(KAFKA_OFFSETS):
            yield f"Kafka Connect sink {name.removeprefix(KAFKA_OFFSETS)}", f"offsets {offsets}"


def newest_of_each(commits: Iterable[SinkCommit]) -> list[SinkCommit]:
    """The last commit of each stream."""
    newest: dict[str, SinkCommit] = {}
    for commit in commits:
        known = newest.get(commit.sink)
        if known is None or (known.at_ms or 0) <= (commit.at_ms or 0):
            newest[commit.sink] = commit
    return list(newest.values())


def held_for_sinks(
    branch: str, line: Sequence[int], *, whole: bool, commits: Iterable[SinkCommit], since_ms: int
) -> dict[int, Reason]:
    """Versions of a branch that streams need to find their positions, each with the reason.

    ``line`` is the branch from its head back, as far as the log has it; ``whole``: back to the first version of the
    table. Streams whose last commit is older than ``since_ms`` no longer need any version.
    """
    places = {version: place for place, version in enumerate(line)}
    here = [(places[c.version], c) for c in commits if c.version is not None and c.version in places]
    here.sort(key=lambda each: each[0])
    last: dict[str, tuple[int, SinkCommit]] = {}
    for place, commit in here:
        last.setdefault(commit.sink, (place, commit))
    young = [(place, c) for place, c in last.values() if c.at_ms is None or c.at_ms > since_ms]
    checking = {c.sink for _, c in here if c.checks_history} if whole else set()
    reasons: dict[int, Reason] = {}
    for place, commit in young:
        _hold(line[place : place + 1], Reason.of(Code.SINK_POSITION, sink=commit.sink), reasons)
    for place, commit in young:
        _hold(line[:place], Reason.of(Code.SINK_SEARCH, sink=commit.sink), reasons)
    for _, commit in young:
        if commit.sink in checking:
            _hold(line, Reason.of(Code.SINK_HISTORY, sink=commit.sink, branch=branch), reasons)
    return reasons


def _hold(line: Iterable[int], why: Reason, reasons: dict[int, Reason]) -> None:
    for version in line:
        reasons.setdefault(version, why)
