"""The table of options: how a table property may change each option, how values print, and defaults."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

from lakekeeper.core.config.option import Option
from lakekeeper.core.config.options import OPTIONS, lookup, resolve
from lakekeeper.core.units import DAY_MS

# The table's owner alone sets the shape of its files and which of them are due. The operator sets how much is done, how
# long it takes, what it may use and what it may delete; these options are not in this list.
OWNERS = (
    "auto.weight",
    "cluster-by",
    "lifecycle.column",
    "policy",
    "target-file-size-bytes",
    "max-rows-per-file",
    "min-file-size-ratio",
    "min-input-files",
    "delete-ratio-threshold",
    "depth-threshold",
    "depth-threshold-ratio",
    "max-level",
    "universal.num-sorted-run.compaction-trigger",
    "universal.compaction.size-ratio",
    "universal.compaction.max-size-amplification-percent",
    "universal.compaction.optimization-interval-ms",
    "universal.compaction.total-size-threshold-bytes",
    "universal.compaction.incremental-size-threshold-bytes",
    "universal.compaction.force-up-level-0",
    "key-change-ratio",
    "queries-per-hour",
    "partial-progress.bytes-per-commit",
    "partial-progress.max-commits",
    "commit.retry.num-retries",
    "commit.quiet-window-ms",
    "replay.max-deleted-ratio",
)

# The side on which less is done, deleted or used; repeated here by hand.
SAFER: dict[str, Callable[[list[Any]], Any]] = {
    "max-file-group-size-bytes": min,
    "max-file-group-input-files": min,
    "single-task-bytes": min,
    "max-concurrent-file-group-rewrites": min,
    "budget-bytes": min,
    "budget-bytes-per-day": min,
    "budget-core-seconds-per-day": min,
    "commit.retry.total-timeout-ms": min,
    "max-rounds": min,
    "auto.enabled": min,
    "retention-hours": max,
    "retain-last": max,
    "lifecycle.retain": max,
    "statistics.min-changed-ratio": max,
    "vacuum.max-share": min,
    "vacuum.max-batch-delete-size": min,
    "vacuum.max-concurrent-deletes": min,
    "vacuum.max-deletes-per-second": min,
    "vacuum.intent-timeout-hours": max,
    "vacuum.orphan-grace-hours": max,
    "vacuum.trash-retention-hours": max,
    "vacuum.sink-retention-hours": max,
}


def _values(option: Option) -> st.SearchStrategy[Any]:
    if option.kind is bool:
        return st.booleans()
    if option.kind is int:
        numbers = st.integers(int(option.low or 0), int(option.high or 1 << 50))
        return st.none() | numbers if option.optional else numbers
    if option.kind is float:
        shares = st.floats(option.low or 0.0, option.high or 1e9, allow_nan=False)
        return st.none() | shares if option.optional else shares
    if option.choices and not option.listed:
        return st.sampled_from(option.choices)
    if option.choices:
        return st.lists(st.sampled_from(option.choices), min_size=1, unique=True).map(tuple)
    return st.just(("db.t", "15m")) if option.listed else st.just("db.t")


def test_every_option_says_what_a_table_property_may_do_to_it() -> None:
    by_scope: dict[str, set[str]] = {}
    for option in OPTIONS:
        by_scope.setdefault(option.scope, set()).add(option.name)
    assert by_scope.pop("any") == set(OWNERS)
    assert by_scope.pop("fewer") == {"auto.verbs"}
    assert by_scope.pop("lower") | by_scope.pop("higher") == set(SAFER)
    operators = by_scope.pop("session") | by_scope.pop("conf", set())
    assert operators == {o.name for o in OPTIONS} - set(OWNERS) - set(SAFER) - {"auto.verbs"}
    assert not by_scope


@pytest.mark.parametrize("option", OPTIONS, ids=lambda o: o.name)
@settings(deadline=None)
@drawn(data=st.data())
def test_a_table_property_only_tightens(option: Option, data: st.DataObject) -> None:
    """Whatever a table property says, the operator's value applies, or a tighter one."""
    if option.name in OWNERS:
        return
    given: dict[str, dict[str, Any]] = {}
    if data.draw(st.booleans(), "by conf"):
        given["conf"] = {f"spark.lakekeeper.{option.name}": option.text(data.draw(_values(option)))}
    if data.draw(st.booleans(), "in the call") and option.scope != "conf":
        given["call"] = {option.name: option.text(data.draw(_values(option)))}
    requested = data.draw(_values(option))
    properties = {f"lakekeeper.{option.name}": option.text(requested)}
    call, conf = given.get("call"), given.get("conf")
    without = option.of(resolve(call, conf))
    resolved = resolve(call, conf, properties)
    now = option.of(resolved)
    if option.name == "auto.verbs":
        assert set(now) == set(without) & set(requested)
    elif option.name in SAFER:
        against_a_call = "call" in given and not option.name.startswith("auto.")
        set_ = [value for value in (without, requested) if value is not None]
        tighter = SAFER[option.name](set_) if set_ else None
        if option.name == "lifecycle.retain" and (requested is None or (without is None and given)):
            tighter = None  # rows that never expire
        assert now == (without if against_a_call else tighter)
    else:
        assert now == without
    assert (f"lakekeeper.{option.name}" in resolved.ignored) >= (now != requested and "call" not in given)


@pytest.mark.parametrize(
    "conf, of_table, days",
    [
        (None, "90d", 90),
        ("90d", None, 90),
        ("90d", "30d", 90),
        ("30d", "90d", 90),
        ("90d", "none", None),
        ("none", "1d", None),
        (None, "none", None),
        (None, None, None),
    ],
)
def test_rows_that_never_expire_outlive_every_age(
    conf: str | None, of_table: str | None, days: int | None
) -> None:
    """Loss L80: `none` is the longest time that rows can be kept."""
    by_conf = {} if conf is None else {"spark.lakekeeper.lifecycle.retain": conf}
    by_table = {} if of_table is None else {"lakekeeper.lifecycle.retain": of_table}
    found = resolve(None, by_conf, by_table)
    assert found.lifecycle.retain_ms == (None if days is None else days * DAY_MS)
    raised = {("90d", "30d"), ("none", "1d")}
    assert bool(found.ignored) == ((conf, of_table) in raised)


@pytest.mark.parametrize("option", OPTIONS, ids=lambda o: o.name)
def test_every_default_is_valid_in_both_spellings(option: Option) -> None:
    if option.unit not in ("hours", "time"):  # for these units, a number is not in milliseconds
        assert option.parse(option.default) == option.default
    assert option.parse(option.text(option.default)) == option.default
    assert option.of(resolve()) == option.default
    assert lookup(option.name) is lookup(option.keyword) is option
    assert option.doc.endswith(".")


@pytest.mark.parametrize("option", OPTIONS, ids=lambda o: o.name)
@settings(deadline=None)
@drawn(data=st.data())
def test_every_value_survives_as_text(option: Option, data: st.DataObject) -> None:
    value = data.draw(_values(option))
    assert option.parse(option.text(value)) == value


@pytest.mark.parametrize("option", OPTIONS, ids=lambda o: o.name)
def test_no_number_means_unset(option: Option) -> None:
    """Unset is None, never a number, and messages print the range of an option in readable units."""
    if option.default is None:
        assert option.optional
        assert option.parse(option.text(None)) is None
    assert not re.search(r"\d{7}|e\+", option.expected)
    assert option.optional == ("none" in option.expected or (option.kind is str and option.default is None))
