"""The table of options: what a table property may do to each, and defaults that are good values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from lakekeeper.core.config.definitions import OPTIONS
from lakekeeper.core.config.option import Option
from lakekeeper.core.config.options import lookup, resolve

# What a table's owner decides alone: the shape of its files, and which of them are due. How much is done, how long it
# takes, what it may use and what it may delete are the operator's, and are not in this list.
OWNERS = (
    "cluster-by",
    "policy",
    "target-file-size-bytes",
    "max-rows-per-file",
    "min-file-size-ratio",
    "min-input-files",
    "delete-ratio-threshold",
    "delete-ratio-threshold-old",
    "depth-threshold",
    "depth-threshold-ratio",
    "max-level",
    "constant-size-ratio",
    "universal.num-sorted-run.compaction-trigger",
    "universal.num-levels",
    "universal.compaction.size-ratio",
    "universal.compaction.max-size-amplification-percent",
    "universal.compaction.optimization-interval-ms",
    "universal.compaction.total-size-threshold-bytes",
    "universal.compaction.incremental-size-threshold-bytes",
    "universal.compaction.force-level-0",
    "key-change-ratio",
    "queries-per-hour",
    "partial-progress.enabled",
    "partial-progress.bytes-per-commit",
    "partial-progress.max-commits",
    "commit.retry.num-retries",
    "commit.retry.min-wait-ms",
    "commit.retry.max-wait-ms",
    "commit.quiet-window-ms",
    "commit.quiet-max-wait-ms",
    "early-abort-interval-ms",
    "replay.max-deleted-ratio",
    "vacuum.min-batch-delete-size",
)


SAFER: dict[
    str, Callable[[tuple[Any, Any]], Any]
] = {  # the side on which less is done, deleted or used; written down here once more, by hand
    "max-file-group-size-bytes": min,
    "max-file-group-input-files": min,
    "single-task-bytes": min,
    "max-concurrent-file-group-rewrites": min,
    "budget-bytes": min,
    "budget-bytes-per-day": min,
    "commit.retry.total-timeout-ms": min,
    "replay.max-rows": min,
    "max-rounds": min,
    "auto.enabled": min,
    "auto.final": min,
    "retention-hours": max,
    "retain-last": max,
    "vacuum.max-share": min,
    "vacuum.max-batch-delete-size": min,
    "vacuum.max-concurrent-deletes": min,
    "vacuum.max-deletes-per-second": lambda pair: min(pair, key=lambda limit: limit or 10**9),  # 0: no limit
    "vacuum.intent-timeout-hours": max,
    "vacuum.orphan-grace-hours": max,
    "vacuum.trash-retention-hours": max,
}


def _values(option: Option) -> st.SearchStrategy[Any]:
    if option.kind is bool:
        return st.booleans()
    if option.kind is int:
        return st.integers(int(option.low or 0), int(option.high or 1 << 40))
    if option.kind is float:
        return st.floats(option.low or 0.0, option.high or 1e9, allow_nan=False)
    if option.name == "auto.verbs":
        return st.lists(st.sampled_from(option.choices), min_size=1, unique=True).map(",".join)
    if option.choices:
        return st.sampled_from(option.choices)
    return st.sampled_from(["db.t", "15m"])


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
@drawn(data=st.data())
def test_a_table_property_only_tightens(option: Option, data: st.DataObject) -> None:
    """Whatever a table's properties say, the operator's value holds or a tighter one."""
    if option.name in OWNERS:
        return
    given: dict[str, dict[str, Any]] = {}
    if data.draw(st.booleans(), "by conf"):
        given["conf"] = {f"spark.lakekeeper.{option.name}": str(data.draw(_values(option)))}
    if data.draw(st.booleans(), "in the call") and option.scope != "conf":
        given["call"] = {option.name: data.draw(_values(option))}
    asked = data.draw(_values(option))
    without = resolve(**_lower(given))[option.name]
    resolved = resolve(**_lower(given), properties={f"lakekeeper.{option.name}": str(asked).lower()})
    now = resolved[option.name]
    if option.name == "auto.verbs":
        assert set(now.split(",")) - {""} == set(without.split(",")) & set(asked.split(",")) - {""}
    elif option.name in SAFER:
        pair = (without, option.parse(str(asked).lower()))
        against_a_call = "call" in given and not option.name.startswith("auto.")
        assert now == (without if against_a_call else SAFER[option.name](pair))
    else:
        assert now == without
    loose = now != option.parse(str(asked).lower())
    assert (f"lakekeeper.{option.name}" in resolved.ignored) >= (loose and "call" not in given)


def _lower(given: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {place: {k: str(v).lower() for k, v in values.items()} for place, values in given.items()}


@pytest.mark.parametrize("option", OPTIONS, ids=lambda o: o.name)
def test_every_default_is_a_good_value_in_both_spellings(option: Option) -> None:
    if option.default != "" or option.kind is str:  # an empty number is one that nobody gave
        assert option.parse(option.default) == option.default
        assert option.parse(str(option.default)) == option.default
    assert lookup(option.name) is lookup(option.keyword) is option
    assert option.doc.rstrip(")").endswith(".")
