"""Which versions stay: drawn histories, each condition alone, and against a brute-force oracle."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.units import HOUR_MS
from lakekeeper.core.vacuum.retention import (
    Kept,
    Ref,
    Retention,
    Stream,
    Version,
    Versions,
    keep,
    reaches_back,
)
from lakekeeper.errors import OptionError, RetentionError

H = HOUR_MS
NOW = 1_000 * H


def line(*hours_ago: float, **more: Any) -> Versions:
    """Versions 1, 2, …, so many hours old, one after the other, all on main."""
    items = tuple(Version(i + 1, NOW - int(ago * H), i or None) for i, ago in enumerate(hours_ago))
    refs = (Ref("main", len(items)), *more.pop("refs", ()))
    return Versions("u", items, refs, more.pop("linear", False), usual_age_ms=168 * H, **more)


def kept(versions: Versions, **requested: Any) -> Kept:
    return keep("t", versions, Retention(**requested), NOW)


def test_the_version_that_was_newest_at_the_cutoff_stays() -> None:
    #   90h   60h   30h   10h          cutoff 48 h ago: 2 was the newest then
    assert sorted(kept(line(90, 60, 30, 10), age_ms=48 * H).reasons) == [2, 3, 4]
    # exactly at the cutoff version 3 came: no reader that begins within the retention gets 2
    assert sorted(kept(line(90, 60, 48, 10), age_ms=48 * H).reasons) == [3, 4]


def moved(versions: Versions, *moves: tuple[float, int]) -> Versions:
    """With the log of ``main``: (hours ago, version)."""
    return replace(versions, main_log=tuple((NOW - int(ago * H), version) for ago, version in moves))


def test_a_version_that_was_rolled_back_counts_as_newest_until_then() -> None:
    """A reader that began before the rollback reads its files, however old it is."""
    items = (Version(1, NOW - 240 * H), Version(2, NOW - 216 * H, 1))
    rolled_back = Versions("u", items, (Ref("main", 1),), False, 120 * H)
    assert kept(rolled_back).gone == (2,)  # without a log its own time is all that is known
    result = kept(moved(rolled_back, (240, 1), (216, 2), (1, 1)))
    assert result.reasons[2] == Reason.of(Code.CURRENT_RECENTLY, age_ms=120 * H)
    assert kept(moved(rolled_back, (240, 1), (216, 2), (121, 1))).gone == (2,)


def test_a_version_that_was_left_by_a_fast_forward_counts_as_newest_until_then() -> None:
    items = (Version(1, NOW - 240 * H), Version(2, NOW - 216 * H, 1), Version(3, NOW - 200 * H, 2))
    forwarded = Versions("u", items, (Ref("main", 3),), False, 120 * H)
    assert kept(forwarded).gone == (1, 2)
    result = kept(moved(forwarded, (240, 1), (1, 3)))
    assert result.gone == (2,)  # it was the newest of the branch alone, long ago
    assert result.reasons[1].code == Code.WITHIN_RETENTION


def test_a_version_that_was_newest_twice_counts_until_the_last_time() -> None:
    items = tuple(Version(v, NOW - (300 - v) * H, 1 if v > 1 else None) for v in (1, 2, 3))
    versions = Versions("u", items, (Ref("main", 3),), False, 120 * H)
    there_and_back = moved(versions, (299, 1), (298, 2), (297, 3), (200, 2), (20, 3))
    assert kept(there_and_back).gone == (1,)


def test_a_log_that_was_cut_or_has_other_times_shortens_nothing() -> None:
    """Expiries cut the log, and the clocks of two writers may differ."""
    versions = line(900, 100, 90)
    assert kept(versions, age_ms=120 * H).gone == kept(moved(versions, (90, 3)), age_ms=120 * H).gone == ()
    skewed = moved(versions, (900, 1), (899, 2), (898, 3), (70, 77), (60, 3))
    assert kept(skewed, age_ms=120 * H).gone == ()
    unknown = replace(versions, items=(*versions.items, Version(4, None, 2)))
    assert kept(moved(unknown, (900, 1), (100, 2), (90, 3)), age_ms=24 * H).gone == (1,)


def test_each_reason_is_given() -> None:
    result = kept(
        line(900, 800, 700, 60, 30, refs=(Ref("t1", 2, branch=False),)), age_ms=48 * H, last=2, named=[3]
    )
    assert result.reasons == {
        2: Reason.of(Code.TAG, name="t1"),
        3: Reason.of(Code.NAMED_BY_CALLER),
        4: Reason.of(Code.LAST_VERSIONS, versions=2, branch="main"),
        5: Reason.of(Code.NEWEST_VERSION),
    }
    assert result.gone == (1,)


def test_a_linear_log_keeps_everything_from_the_oldest_kept_version_on() -> None:
    result = kept(
        line(900, 800, 700, 60, 30, linear=True),
        age_ms=24 * H,
        active={2: Reason.of(Code.READ_BY_RUN, run_id="r1")},
    )
    assert sorted(result.reasons) == [2, 3, 4, 5]
    assert result.reasons[2] == Reason.of(Code.READ_BY_RUN, run_id="r1")
    assert result.reasons[3] == Reason.of(Code.AFTER_KEPT, version=2)
    assert result.oldest == 2


def test_a_held_version_that_is_unknown_keeps_everything_on_a_linear_log() -> None:
    result = kept(
        replace(line(900, 800, 700, linear=True), items=line(900, 800, 700).items), age_ms=24 * H, named=[0]
    )
    assert result.gone == ()


@pytest.mark.parametrize(
    "own, requested, unsafe, age",
    [
        (None, None, False, 168),  # the format's
        (200, None, False, 200),  # the table's
        (1, None, False, 24),  # a property cannot go under the floor
        (1, None, True, 1),  # but the call can override it
        (None, 24, False, 24),
        (100, 100, False, 100),
        (100, 30, True, 30),
        (None, 0, True, 0),
    ],
)
def test_the_retention_in_force(own: int | None, requested: int | None, unsafe: bool, age: int) -> None:
    versions = line(10, min_age_ms=None if own is None else own * H)
    result = kept(versions, age_ms=None if requested is None else requested * H, allow_unsafe=unsafe)
    assert result.age_ms == age * H
    assert result.cutoff_ms == NOW - age * H


@pytest.mark.parametrize("own, requested", [(None, 23), (100, 99), (None, 0), (1, 5)])
def test_a_retention_under_the_floor_is_refused(own: int | None, requested: int) -> None:
    versions = line(10, min_age_ms=None if own is None else own * H)
    with pytest.raises(RetentionError, match="allow_unsafe_retention=True"):
        kept(versions, age_ms=requested * H)


def test_a_negative_retention_is_refused_even_then() -> None:
    with pytest.raises(RetentionError, match="future"):
        kept(line(10), age_ms=-1, allow_unsafe=True)


@pytest.mark.parametrize(
    "versions, said",
    [
        (Versions("u", (), (), False, H), "no version"),
        (Versions("u", (Version(1, NOW),), (Ref("b", 1),), False, H), "no current version"),
        (Versions("u", (Version(1, NOW),), (Ref("main", 1), Ref("b", 7)), False, H), "history is incomplete"),
        (replace(line(10), refused="gc.enabled is false"), "gc.enabled is false"),
    ],
)
def test_incomplete_versions_are_refused(versions: Versions, said: str) -> None:
    with pytest.raises(RetentionError, match=said):
        kept(versions)


@pytest.mark.parametrize("at_ms", [None, NOW + 1, NOW + 500 * H])
def test_a_version_with_an_unknown_or_future_time_is_young(at_ms: int | None) -> None:
    versions = line(900, 800, 700)
    items = (versions.items[0], Version(2, at_ms, 1), versions.items[2])
    result = kept(replace(versions, items=items), age_ms=24 * H)
    assert result.reasons[2].code == "time_unknown"
    # Its parent may have been the newest until just now.
    assert (1 in result.reasons) == True  # noqa: E712 - said as the property


def test_branches_have_a_retention_of_their_own() -> None:
    #  1 ─ 2 ─ 3 ─ 6        main
    #       └─ 4 ─ 5        audit: the last two, or 400 hours
    items = (
        Version(1, NOW - 900 * H),
        Version(2, NOW - 800 * H, 1),
        Version(3, NOW - 700 * H, 2),
        Version(4, NOW - 500 * H, 2),
        Version(5, NOW - 450 * H, 4),
        Version(6, NOW - 30 * H, 3),
    )
    own = Ref("audit", 5, min_versions=2)
    versions = Versions("u", items, (Ref("main", 6), own), False, 24 * H)
    assert sorted(kept(versions).reasons) == [4, 5, 6]
    assert sorted(kept(replace(versions, refs=(Ref("main", 6), Ref("audit", 5)))).reasons) == [5, 6]
    longer = Ref("audit", 5, max_age_ms=600 * H)
    # 3 was main's newest until 30 hours ago; 2 was audit's within 600 hours.
    assert sorted(kept(replace(versions, refs=(Ref("main", 6), longer))).reasons) == [2, 4, 5, 6]


@pytest.mark.parametrize("linear", [True, False])
def test_a_stream_holds_the_version_where_it_continues_and_all_later_ones(linear: bool) -> None:
    versions, uuid = line(900, 800, 700, 600, 500, linear=linear), "u" if linear else ""
    result = kept(versions, age_ms=24 * H, streams=[Stream("/s", ((uuid, 3),))])
    assert sorted(result.reasons) == [3, 4, 5]
    assert result.reasons[4] == Reason.of(Code.UNREAD_BY_STREAM, checkpoint="/s")
    slower = [Stream("/s", ((uuid, 3),)), Stream("/t", ((uuid, 2),))]
    assert sorted(kept(versions, age_ms=24 * H, streams=slower).reasons) == [2, 3, 4, 5]


def test_a_stream_holds_later_versions_on_each_branch() -> None:
    #  1 ─ 2 ─ 3 ─ 6        main
    #       └─ 4 ─ 5        audit
    parents = {1: None, 2: 1, 3: 2, 4: 2, 5: 4, 6: 3}
    items = tuple(Version(v, NOW - (900 - v) * H, parent) for v, parent in parents.items())
    versions = Versions("u", items, (Ref("main", 6), Ref("audit", 5)), False, 24 * H)
    assert sorted(kept(versions, streams=[Stream("/s", (("", 4),))]).reasons) == [4, 5, 6]
    assert sorted(kept(versions, streams=[Stream("/s", (("", 2),))]).reasons) == [2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    "required, code",
    [(True, Code.UNREAD_BY_STREAM), (False, Code.STREAM_SOURCE_UNKNOWN)],
    ids=["named by the call", "named for many tables"],
)
def test_a_stream_that_has_read_nothing_holds_everything(required: bool, code: Code) -> None:
    """It may be a stream of this table; a conf names those of many tables, and the reason says so."""
    versions = line(900, 800, 700, linear=False)
    stream = Stream("/s", (("", None),), required=required)
    result = kept(versions, age_ms=24 * H, streams=[stream])
    assert result.gone == ()
    assert result.reasons[1] == Reason.of(code, checkpoint="/s")


def test_a_stream_may_wait_for_a_future_version_or_be_older_than_the_log() -> None:
    """Delta's source records the next version that it will read."""
    versions = line(900, 800, 700, linear=True)
    assert sorted(kept(versions, age_ms=24 * H, streams=[Stream("/s", (("u", 4),))]).reasons) == [3]
    assert kept(versions, age_ms=24 * H, streams=[Stream("/s", (("u", 0),))]).gone == ()


@pytest.mark.parametrize(
    "linear, positions",
    [
        (True, (("other", 2),)),
        (True, (("", 2),)),  # of an Iceberg table: only its offsets do not name their table
        (True, (("", None),)),
        (True, (("", None), ("other", 2))),
        (False, (("", 77),)),
        (False, (("other", 2),)),
    ],
)
def test_a_stream_of_another_table_is_refused_where_the_call_names_it(
    linear: bool, positions: tuple[tuple[str, int | None], ...]
) -> None:
    versions = line(900, 800, 700, linear=linear)
    with pytest.raises(OptionError, match="one of another table, or the version"):
        kept(versions, age_ms=24 * H, streams=[Stream("/s", positions)])
    of_many_tables = kept(versions, age_ms=24 * H, streams=[Stream("/s", positions, required=False)])
    assert of_many_tables.reasons == kept(versions, age_ms=24 * H).reasons
    both = (*positions, ("u" if linear else "", 2))
    assert 2 in kept(versions, age_ms=24 * H, streams=[Stream("/s", both)]).reasons


def test_refs_expire_with_age() -> None:
    old = Ref("old", 1, branch=False, max_ref_age_ms=100 * H)
    versions = line(900, 700, 10, refs=(old,))
    assert kept(versions, age_ms=24 * H).expired_refs == ("old",)
    assert kept(versions, age_ms=24 * H, names_expire=False).expired_refs == ()
    for staying in (replace(old, max_ref_age_ms=901 * H), replace(old, max_ref_age_ms=None)):
        result = kept(line(900, 700, 10, refs=(staying,)), age_ms=24 * H)
        assert (result.expired_refs, result.gone) == ((), ())


@pytest.mark.parametrize("branch", [True, False])
def test_the_version_of_a_name_that_expires_counts_as_newest_until_now(branch: bool) -> None:
    """A reader may have opened the branch an hour ago; only the versions before its head go."""
    old = Ref("old", 2, branch, max_ref_age_ms=100 * H)
    items = (Version(1, NOW - 900 * H), Version(2, NOW - 800 * H, 1), Version(3, NOW - 10 * H, 1))
    versions = Versions("u", items, (Ref("main", 3), old), linear=False, usual_age_ms=168 * H)
    result = kept(versions, age_ms=24 * H)
    assert result.expired_refs == ("old",)
    assert 2 in result.reasons
    assert kept(replace(versions, refs=versions.refs[:1]), age_ms=24 * H).gone == (2,)


def test_a_cycle_of_parents_ends() -> None:
    items = (Version(1, NOW - 9 * H, 2), Version(2, NOW - 8 * H, 1))
    assert sorted(kept(Versions("u", items, (Ref("main", 2),), False, 24 * H), last=5).reasons) == [1, 2]


@given(
    st.lists(st.integers(0, 400), min_size=1, max_size=12),
    st.integers(24, 300),
    st.integers(1, 5),
    st.sets(st.integers(1, 12), max_size=2),
    st.booleans(),
)
def test_readers_within_the_retention_find_their_version(
    ages: list[int], grace: int, last: int, named: set[int], linear: bool
) -> None:
    ages = sorted(ages, reverse=True)
    versions = line(*ages, linear=linear)
    result = kept(versions, age_ms=grace * H, last=last, named=named)
    newest_at = {
        max(v.id for v in versions.items if v.at_ms is not None and v.at_ms <= instant)
        for instant in range(NOW - grace * H + 1, NOW + 1, H // 2)
        if any(v.at_ms is not None and v.at_ms <= instant for v in versions.items)
    }
    assert newest_at <= set(result.reasons)
    assert {v.id for v in versions.items[-last:]} <= set(result.reasons)
    assert named & {v.id for v in versions.items} <= set(result.reasons)
    assert set(result.gone).isdisjoint(result.reasons)
    assert set(result.gone) | set(result.reasons) == {v.id for v in versions.items}
    if linear:
        assert sorted(result.reasons) == list(range(result.oldest, len(ages) + 1))


RULES = st.builds(
    Retention,
    age_ms=st.integers(0, 12).map(lambda hours: hours * H),
    last=st.integers(1, 8),
    named=st.sets(st.integers(1, 10), max_size=2),
    active=st.dictionaries(st.integers(1, 10), st.just(Reason.of(Code.NEWEST_VERSION)), max_size=2),
    streams=st.lists(
        st.builds(
            lambda uuid, at: Stream("c", ((uuid, at),), required=False),
            st.sampled_from("uv"),
            st.integers(1, 10),
        ),
        max_size=1,
    ),
    allow_unsafe=st.just(True),
)


@given(st.lists(st.integers(0, 3), min_size=2, max_size=10), st.integers(2, 10), RULES)
def test_the_end_of_a_log_reaches_back_if_nothing_before_it_stays(
    gaps: list[int], first: int, retention: Retention
) -> None:
    """Loss L147: only the time counted, so a version named by the call lost files that an earlier vacuum had listed."""
    hours = [sum(gaps[i:]) for i in range(len(gaps))]
    whole = line(*hours, linear=True)
    if first > len(hours):
        return
    end = replace(whole, items=whole.items[first - 1 :])
    if reaches_back(end, retention, keep("t", end, retention, NOW)):
        assert keep("t", whole, retention, NOW).oldest >= first


def test_the_end_of_a_log_suffices_for_the_usual_vacuum() -> None:
    """The property above holds, too, for a function that always says no."""
    end = replace(line(9, 8, 7, 2, 1, linear=True), items=line(9, 8, 7, 2, 1).items[1:])
    retention = Retention(age_ms=5 * H, named=(3,), allow_unsafe=True)
    assert reaches_back(end, retention, keep("t", end, retention, NOW))
