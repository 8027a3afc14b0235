from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from lakekeeper.core.config.definitions import OPTIONS
from lakekeeper.core.config.option import Option
from lakekeeper.core.config.options import lookup, resolve
from lakekeeper.errors import OptionError

BAD: list[tuple[str, Any, str]] = [
    # name, value, what the message must say
    ("target-file-size-bytes", "big", "whole number"),
    ("target-file-size-bytes", "128MB", "whole number"),
    ("target-file-size-bytes", 0, "1,024"),
    ("target-file-size-bytes", 1023, "1,024"),
    ("target-file-size-bytes", -1, "1,024"),
    ("target-file-size-bytes", 500_000_001, "500,000,000"),
    ("target-file-size-bytes", 2.5, "whole number"),
    ("target-file-size-bytes", True, "whole number"),
    ("target-file-size-bytes", "", "whole number"),
    ("max-rows-per-file", 0, "from 1"),
    ("max-rows-per-file", "1e6", "whole number"),
    ("min-file-size-ratio", 0, "0.01"),
    ("min-file-size-ratio", 1.01, "to 1"),
    ("min-file-size-ratio", "nan", "0.01 to 1"),
    ("min-file-size-ratio", float("nan"), "0.01 to 1"),
    ("min-file-size-ratio", "75%", "0.01 to 1"),
    ("min-input-files", 1, "from 2"),
    ("max-file-group-size-bytes", 100, "1,024"),
    ("max-file-group-input-files", 1, "from 2"),
    ("single-task-bytes", -5, "1,024"),
    ("max-concurrent-file-group-rewrites", 0, "from 1"),
    ("max-concurrent-file-group-rewrites", 257, "256"),
    ("depth-threshold", 0.5, "from 1"),
    ("depth-threshold", "deep", "number"),
    ("depth-threshold", float("inf"), "1,000,000,000"),
    ("depth-threshold-ratio", -0.1, "from 0"),
    ("depth-threshold-ratio", 1.1, "to 1"),
    ("max-level", 0, "from 1"),
    ("max-level", 1001, "1,000"),
    ("max-level", [3], "whole number"),
    ("constant-size-ratio", 2, "to 1"),
    ("universal.num-sorted-run.compaction-trigger", 1, "a whole number of sorted runs from 2"),
    ("universal.num-levels", 1, "from 2"),
    ("universal.compaction.size-ratio", "1%", "a whole number of percent from 0"),
    ("universal.compaction.max-size-amplification-percent", 0, "from 1"),
    ("universal.compaction.optimization-interval-ms", -1, "from 0"),
    ("universal.compaction.total-size-threshold-bytes", -1, "from 0"),
    ("universal.compaction.incremental-size-threshold-bytes", "1GB", "whole number"),
    ("universal.compaction.force-level-0", "on", "true or false"),
    ("budget-bytes", 0, "from 1"),
    ("budget-bytes", -1, "from 1"),
    ("partial-progress.enabled", "yes", "true or false"),
    ("partial-progress.enabled", 1, "true or false"),
    ("partial-progress.enabled", "", "true or false"),
    ("partial-progress.max-commits", 0, "from 1"),
    ("commit.retry.num-retries", -1, "from 0"),
    ("commit.retry.num-retries", 101, "100"),
    ("commit.retry.min-wait-ms", "1s", "whole number"),
    ("commit.retry.total-timeout-ms", 86_400_001, "86,400,000"),
    ("max-rounds", 0, "from 1"),
    ("auto.enabled", "off", "true or false"),
    ("auto.final", "2", "true or false"),
    ("auto.verbs", "compact,vacum", "recluster, compact, merge_deletes, vacuum"),
    ("auto.verbs", " , ", "a comma-separated list of"),
]


def _places(name: str, value: Any) -> list[dict[str, Any]]:
    """The three places where an option may stand."""
    return [
        {"call": {name: value}},
        {"conf": {f"spark.lakekeeper.{name}": value}},
        {"properties": {f"lakekeeper.{name}": value}},
    ]


def test_the_table_of_bad_values_is_long_enough() -> None:
    assert len(BAD) >= 40


@pytest.mark.parametrize("name, value, said", BAD, ids=[f"{name}={value!r}" for name, value, _ in BAD])
def test_a_bad_value_is_refused_wherever_it_stands(name: str, value: Any, said: str) -> None:
    for place in _places(name, value):
        with pytest.raises(OptionError) as error:
            resolve(**place)
        (key,) = next(iter(place.values()))
        assert error.value.key in (key, name)
        assert said in error.value.expected
        assert repr(value) in str(error.value)


@pytest.mark.parametrize(
    "name, nearest",
    [
        ("target-file-size", "target-file-size-bytes"),
        ("target_file_size_byte", "target-file-size-bytes"),
        ("depth-treshold", "depth-threshold"),
        ("min-input-file", "min-input-files"),
        ("max-levels", "max-level"),
        ("auto.enable", "auto.enabled"),
    ],
)
def test_an_unknown_option_names_the_nearest(name: str, nearest: str) -> None:
    for place in _places(name, "1"):
        with pytest.raises(OptionError, match=f"did you mean '{nearest}'"):
            resolve(**place)


def test_precedence_is_call_then_conf_then_property_then_default() -> None:
    call, conf, properties = (
        {"max-level": 1},
        {"spark.lakekeeper.max-level": "2"},
        {"lakekeeper.max-level": "3"},
    )
    for given, value, origin in (
        ((call, conf, properties), 1, "call"),
        ((None, conf, properties), 2, "conf"),
        ((None, None, properties), 3, "property"),
        ((None, None, None), 32, "default"),
        (({"max-level": None}, conf, properties), 2, "conf"),
    ):
        resolved = resolve(*given)
        assert (resolved["max-level"], resolved.origins["max-level"]) == (value, origin)


@pytest.mark.parametrize(
    "elsewhere", [{"conf": {"spark.lakekeeper.auto.enabled": "true"}}, {"call": {"auto.enabled": True}}]
)
def test_switched_off_on_a_table_always_wins(elsewhere: dict[str, Any]) -> None:
    assert resolve(properties={"lakekeeper.auto.enabled": "false"}, **elsewhere)["auto.enabled"] is False
    assert (
        resolve(
            properties={"lakekeeper.auto.enabled": "true"}, conf={"spark.lakekeeper.auto.enabled": "false"}
        )["auto.enabled"]
        is False
    )


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


def test_an_option_of_the_operator_is_ignored_on_a_table() -> None:
    for name in ("auto.tables", "vacuum.streaming-checkpoints"):
        resolved = resolve(properties={f"lakekeeper.{name}": "db.t"})
        assert resolved[name] == ""
        assert f"spark.lakekeeper.{name}" in resolved.ignored[f"lakekeeper.{name}"]


def test_a_table_does_not_ask_for_a_full_rewrite_in_each_pass() -> None:
    resolved = resolve(properties={"lakekeeper.policy": "sizes, full"})
    assert resolved["policy"] == ""
    assert "full" in resolved.ignored["lakekeeper.policy"]
    assert resolve({"policy": "full"}, properties={"lakekeeper.policy": "sizes"})["policy"] == "full"


def test_where_a_bad_property_is_no_error_it_is_named() -> None:
    properties = {"lakekeeper.max-level": "many", "lakekeeper.nonsense": "1", "lakekeeper.max-rounds": "2"}
    resolved = resolve(properties=properties, lenient=True)
    assert (resolved["max-level"], resolved["max-rounds"]) == (32, 2)
    assert resolved.ignored.keys() == {"lakekeeper.max-level", "lakekeeper.nonsense"}


def test_keys_of_others_are_not_looked_at() -> None:
    assert (
        resolve(conf={"spark.sql.nonsense": "x"}, properties={"delta.nonsense": "y"}).origins
        == resolve().origins
    )


@pytest.mark.parametrize("option", OPTIONS, ids=lambda o: o.name)
def test_every_default_is_a_good_value_in_both_spellings(option: Option) -> None:
    if option.default != "" or option.kind is str:  # an empty number is one that nobody gave
        assert option.parse(option.default) == option.default
        assert option.parse(str(option.default)) == option.default
    assert lookup(option.name) is lookup(option.keyword) is option
    assert option.doc.rstrip(")").endswith(".")


def test_both_spellings_are_taken() -> None:
    assert resolve({"target_file_size_bytes": "2048"}).integer("target-file-size-bytes") == 2048
    assert resolve().with_(max_level=7).integer("max-level") == 7
    assert resolve({"policy": " ranges, ,sizes "}).words("policy") == ("ranges", "sizes")
