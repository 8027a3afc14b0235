"""Versions in which sinks look up what they have committed stay: checked with the sinks' own search."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.units import HOUR_MS
from lakekeeper.core.vacuum.retention import Kept, Ref, Retention, Version, Versions, keep
from lakekeeper.core.vacuum.stream_positions import newest_of_each, sink_commits

H = HOUR_MS
NOW = 10_000 * H
Summary = Mapping[str, str]


def flink(checkpoint: int, job: str = "j1", operator: str = "o1", **more: str) -> Summary:
    own = {"flink.job-id": job, "flink.operator-id": operator}
    return {**own, "flink.max-committed-checkpoint-id": str(checkpoint), **more}


def spark(epoch: int, query: str = "q1") -> Summary:
    return {"spark.sql.streaming.queryId": query, "spark.sql.streaming.epochId": str(epoch)}


def kafka(offsets: str, group: str = "control-iceberg.connect-events") -> Summary:
    return {f"kafka.connect.offsets.{group}": offsets, "kafka.connect.commit-id": "c1"}


def table(
    *commits: tuple[float, Summary],
    parents: Mapping[int, int | None] | None = None,
    refs: tuple[Ref, ...] = (),
    format_version: int = 2,
) -> Versions:
    """Versions 1, 2, …, so many hours old, one after the other unless ``parents`` says otherwise."""
    origin = {v: v - 1 or None for v in range(1, len(commits) + 1)} | dict(parents or {})
    items = tuple(Version(v, NOW - int(ago * H), origin[v]) for v, (ago, _) in enumerate(commits, 1))
    sinks = tuple(
        commit
        for item, (_, summary) in zip(items, commits, strict=True)
        for commit in sink_commits(item.id, item.at_ms, summary, format_version)
    )
    return Versions("u", items, (Ref("main", len(items)), *refs), False, 120 * H, sinks=sinks)


def kept(versions: Versions, sink_hours: float = 720) -> Kept:
    return keep("t", versions, Retention(age_ms=24 * H, sink_ms=int(sink_hours * H)), NOW)


def restored(
    versions: Versions, left: Kept, summaries: Mapping[int, Summary], sink: Summary, *, head: int
) -> str | None:
    """What a sink finds on restart, by the search of Flink's SinkUtil, Spark's writer and Kafka Connect's coordinator.

    The search follows parents from the head of the sink's branch, and ends at a deleted snapshot.
    """
    names = [name for name in sink if name.endswith(("job-id", "operator-id", "queryId"))]
    (position,) = [n for n in sink if n.endswith(("checkpoint-id", "epochId")) or ".offsets." in n]
    parents = {v.id: v.parent for v in versions.items if v.id in left.reasons}
    at: int | None = head
    while at is not None and at in parents:
        if position in summaries[at] and all(summaries[at].get(n) == sink[n] for n in names):
            return summaries[at][position]
        at = parents[at]
    return None


@pytest.mark.parametrize("sink", [flink(7), spark(7), kafka('{"0":7}')], ids=["flink", "spark", "kafka"])
def test_a_sink_that_was_down_for_longer_than_the_retention_finds_its_position(sink: Summary) -> None:
    commits = [(900.0, {}), (500.0, sink), (400.0, {}), (300.0, {}), (10.0, {})]
    versions, summaries = table(*commits), {v: s for v, (_, s) in enumerate(commits, 1)}
    left = kept(versions)
    assert left.gone == (1,)
    position = next(p for n, p in sink.items() if "checkpoint-id" in n or "epochId" in n or ".offsets." in n)
    assert restored(versions, left, summaries, sink, head=5) == position
    # Without the rule the version is deleted, or cut off: a tag on it would not help.
    assert restored(versions, kept(versions, 0), summaries, sink, head=5) is None


def test_the_reasons_name_the_sink_and_the_option() -> None:
    left = kept(table((500, flink(7)), (400, {}), (300, {}), (10, {})))
    assert left.reasons[1] == Reason.of(Code.SINK_POSITION, sink="Flink job j1 (operator o1)")
    assert left.reasons[2] == Reason.of(Code.SINK_SEARCH, sink="Flink job j1 (operator o1)")
    assert all("vacuum.sink-retention-hours" in str(left.reasons[version]) for version in (1, 2))
    # 3 was the newest within the retention: no stream needs to hold it.
    assert left.reasons[3] == Reason.of(Code.WITHIN_RETENTION, branch="main")


def test_the_hold_ends() -> None:
    versions = table((500, flink(7)), (400, {}), (10, {}))
    assert kept(versions, 501).gone == ()
    assert kept(versions, 500).gone == (1,)
    assert kept(versions, 0).gone == (1,)


def test_each_operator_of_each_job_has_its_own_position() -> None:
    commits = [
        (900.0, flink(3, operator="o2")),
        (800.0, flink(9, job="j0")),
        (700.0, flink(4)),
        (650.0, flink(5)),
        (10.0, {}),
    ]
    summaries = {v: s for v, (_, s) in enumerate(commits, 1)}
    versions = table(*commits)
    assert kept(versions).gone == (1, 2, 3)
    left = kept(versions, 850)
    assert left.gone == (1,)
    assert restored(versions, left, summaries, flink(0, job="j0"), head=5) == "9"
    left = kept(versions, 1000)
    assert restored(versions, left, summaries, flink(0, operator="o2"), head=5) == "3"


def test_a_sink_of_a_branch_is_looked_up_on_that_branch() -> None:
    #  1 ─ 2 ─ 3 ─ 6        main
    #       └─ 4 ─ 5        audit, to which Flink writes
    commits = [(900.0, {}), (800.0, {}), (700.0, {}), (600.0, flink(7)), (500.0, {}), (10.0, {})]
    parents = {1: None, 2: 1, 3: 2, 4: 2, 5: 4, 6: 3}
    versions = table(*commits, parents=parents, refs=(Ref("audit", 5),))
    left = kept(versions)
    assert left.gone == (1, 2)
    summaries = {v: s for v, (_, s) in enumerate(commits, 1)}
    assert restored(versions, left, summaries, flink(0), head=5) == "7"


def test_an_expired_branch_holds_nothing_for_sinks() -> None:
    commits = [(900.0, {}), (600.0, flink(7)), (500.0, {}), (10.0, {})]
    old = Ref("audit", 3, max_ref_age_ms=100 * H)
    versions = table(*commits, parents={1: None, 2: 1, 3: 2, 4: 1}, refs=(old,))
    left = kept(versions)
    assert left.expired_refs == ("audit",)
    assert set(left.gone) == {2}


@pytest.mark.parametrize(
    "format_version, deletes, gone",
    [(3, "2", ()), (3, "0", (1, 2)), (2, "2", (1, 2))],
    ids=["v3 upserts", "v3 appends", "v2 upserts"],
)
def test_a_sink_of_format_3_that_deletes_rows_needs_the_root_of_history(
    format_version: int, deletes: str, gone: tuple[int, ...]
) -> None:
    upsert = {"added-delete-files": deletes}
    versions = table(
        (900, {}),
        (800, flink(6, **upsert)),
        (30, flink(7, **upsert)),
        (10, flink(8)),
        format_version=format_version,
    )
    left = kept(versions)
    assert left.gone == gone
    if not gone:
        sink = "Flink job j1 (operator o1)"
        assert left.reasons[1] == Reason.of(Code.SINK_HISTORY, sink=sink, branch="main")
    assert kept(versions, 0).gone == (1, 2)


def test_a_history_that_is_already_cut_is_not_held() -> None:
    upsert = {"added-delete-files": "2"}
    cut = table((900, {}), (800, {}), (10, flink(8, **upsert)), parents={1: 77}, format_version=3)
    assert kept(cut).gone == (1,)


def test_positions_without_their_stream_are_not_positions() -> None:
    assert sink_commits(1, 0, {"flink.max-committed-checkpoint-id": "7"}, 2) == []
    assert sink_commits(1, 0, {"spark.app.id": "a", "added-records": "3"}, 2) == []
    old = {"flink.job-id": "j1", "flink.max-committed-checkpoint-id": "7"}
    assert [c.sink for c in sink_commits(1, 0, old, 2)] == ["Flink job j1"]


def test_the_newest_of_each() -> None:
    found = [
        *sink_commits(1, 10, flink(1), 2),
        *sink_commits(2, 20, flink(2), 2),
        *sink_commits(3, 5, spark(1), 2),
    ]
    assert [(c.sink, c.position) for c in newest_of_each(found)] == [
        ("Flink job j1 (operator o1)", "checkpoint 2"),
        ("Spark query q1", "epoch 1"),
    ]


@given(
    st.lists(st.tuples(st.integers(0, 1500), st.sampled_from([None, 0, 1, 2])), min_size=1, max_size=10),
    st.integers(0, 1500),
)
def test_a_sink_finds_its_position_for_as_long_as_the_option_says(
    drawn: list[tuple[int, int | None]], sink_hours: int
) -> None:
    ages = sorted((age for age, _ in drawn), reverse=True)
    who = [None if job is None else flink(v, f"j{job}") for v, (_, job) in enumerate(drawn, 1)]
    commits = [(float(age), job or {}) for age, job in zip(ages, who, strict=True)]
    versions, summaries = table(*commits), {v: s for v, (_, s) in enumerate(commits, 1)}
    left = kept(versions, sink_hours)
    for job in ("j0", "j1", "j2"):
        mine = [v for v, s in summaries.items() if s.get("flink.job-id") == job]
        if mine and ages[mine[-1] - 1] < sink_hours:
            found = restored(versions, left, summaries, flink(0, job), head=len(commits))
            assert found == str(mine[-1])
