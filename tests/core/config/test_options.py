from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from lakekeeper.core.config.option import keyword
from lakekeeper.core.config.options import (
    CONF_PREFIX,
    OPTIONS,
    lookup,
    overridden,
    resolve,
    set_by,
    spellings,
)
from lakekeeper.core.config.removed import REMOVED
from lakekeeper.core.units import HOUR_MS
from lakekeeper.errors import OptionError

BAD: list[tuple[str, Any, str]] = [
    # name, value, what the message must say
    ("target-file-size-bytes", "big", "a size (64MB, 128MiB, or a number of bytes)"),
    ("target-file-size-bytes", "1GB", "from 1KiB to 400MB"),
    ("target-file-size-bytes", "128 megabytes", "64MB"),
    ("target-file-size-bytes", "128MBit", "64MB"),
    ("target-file-size-bytes", "-128MB", "64MB"),
    ("target-file-size-bytes", "7d", "64MB"),
    ("target-file-size-bytes", 0, "1KiB"),
    ("target-file-size-bytes", 1023, "1KiB"),
    ("target-file-size-bytes", -1, "1KiB"),
    ("target-file-size-bytes", 400_000_001, "400MB"),
    ("target-file-size-bytes", 2.5, "a size"),
    ("target-file-size-bytes", "4096.5", "a size"),
    ("target-file-size-bytes", True, "a size"),
    ("target-file-size-bytes", "", "a size"),
    ("target-file-size-bytes", "none", "a size"),
    ("max-rows-per-file", 0, "a whole number of rows, at least 1, or none"),
    ("max-rows-per-file", "1e6", "whole number"),
    ("max-rows-per-file", "", "or none"),
    ("max-rows-per-file", 1 << 70, "whole number"),
    ("min-file-size-ratio", 0, "0.01"),
    ("min-file-size-ratio", 1.01, "to 1"),
    ("min-file-size-ratio", "nan", "0.01 to 1"),
    ("min-file-size-ratio", float("nan"), "0.01 to 1"),
    ("min-file-size-ratio", "75%", "0.01 to 1"),
    ("min-input-files", 1, "at least 2"),
    ("max-file-group-size-bytes", 100, "at least 1KiB"),
    ("max-file-group-input-files", 1, "at least 2"),
    ("single-task-bytes", -5, "1KiB"),
    ("max-concurrent-file-group-rewrites", 0, "from 1"),
    ("max-concurrent-file-group-rewrites", 257, "256"),
    ("depth-threshold", 0.5, "from 1"),
    ("depth-threshold", "deep", "number"),
    ("depth-threshold", float("inf"), "1,000,000,000"),
    ("depth-threshold-ratio", -0.1, "a share of a level's blocks from 0 to 1, or none"),
    ("depth-threshold-ratio", 1.1, "to 1"),
    ("max-level", 0, "from 1"),
    ("max-level", 1001, "1,000"),
    ("max-level", [3], "whole number"),
    ("universal.num-sorted-run.compaction-trigger", 1, "a whole number of sorted runs from 2"),
    ("universal.compaction.size-ratio", "1%", "a whole number of percent from 0"),
    ("universal.compaction.max-size-amplification-percent", 0, "from 1"),
    ("universal.compaction.optimization-interval-ms", -1, "at least 1ms, or none"),
    ("universal.compaction.optimization-interval-ms", "64MB", "a time"),
    ("universal.compaction.total-size-threshold-bytes", 0, "at least 1, or none"),
    ("universal.compaction.incremental-size-threshold-bytes", "1h", "a size"),
    ("universal.compaction.force-up-level-0", "on", "true or false"),
    ("budget-bytes", 0, "at least 1, or none"),
    ("budget-bytes", -1, "at least 1"),
    ("budget-bytes", "", "or none"),
    ("partial-progress.max-commits", 0, "from 1"),
    ("commit.retry.num-retries", -1, "from 0"),
    ("commit.retry.num-retries", 101, "100"),
    ("commit.retry.total-timeout-ms", 86_400_001, "from 0s to 1d"),
    (
        "commit.retry.total-timeout-ms",
        "25h",
        "a time (90s, 15m, 2h, 7d, or a number of milliseconds) from 0s to 1d",
    ),
    ("commit.retry.total-timeout-ms", 0.5, "a time"),
    ("commit.retry.total-timeout-ms", float("nan"), "a time"),
    ("max-rounds", 0, "from 1"),
    ("auto.enabled", "off", "true or false"),
    (
        "auto.verbs",
        "compact,vacum",
        "expire_rows, recluster, compact, merge_deletes, build_filters, compute_statistics, vacuum",
    ),
    ("auto.verbs", " , ", "a comma-separated list of"),
    ("auto.every", "15", "a time (90s, 15m, 2h, 7d), at least 1s"),
    ("auto.every", 900, "a time"),
    ("retention-hours", -1, "at least 0s, or none"),
    ("retention-hours", "a week", "a time (90s, 15m, 2h, 7d, or a number of hours)"),
    ("retention-hours", float("inf"), "a time"),
    ("vacuum.max-deletes-per-second", 0, "from 1 to 1,000,000, or none"),
]


def _places(name: str, value: Any) -> list[dict[str, Any]]:
    """The three places where an option can be set."""
    return [
        {"call": {name: value}},
        {"conf": {f"spark.lakekeeper.{name}": value}},
        {"properties": {f"lakekeeper.{name}": value}},
    ]


def test_the_table_of_bad_values_is_long_enough() -> None:
    assert len(BAD) >= 40


@pytest.mark.parametrize("name, value, said", BAD, ids=[f"{name}={value!r}" for name, value, _ in BAD])
def test_a_bad_value_is_refused_in_every_place(name: str, value: Any, said: str) -> None:
    for place in _places(name, value):
        with pytest.raises(OptionError) as error:
            resolve(**place)
        (key,) = next(iter(place.values()))
        assert error.value.key in (key, name)
        assert said in error.value.expected
        assert repr(value) in str(error.value)


@pytest.mark.parametrize("given", ["min-input-files=5", "", ["min-input-files"], 5, {5: "min-input-files"}])
def test_options_that_are_no_map_of_names_are_refused(given: Any) -> None:
    expected = re.escape("expected a map of names to values, such as {'min-input-files': 5}")
    with pytest.raises(OptionError, match=expected):
        resolve(given)
    for options, by in ((given, {}), ({}, given)):
        with pytest.raises(OptionError, match=expected):
            overridden(options, by)


@pytest.mark.parametrize(
    "name, nearest",
    [
        ("target-file-size", "target-file-size-bytes"),
        ("target_file_size_byte", "target-file-size-bytes"),
        ("depth-treshold", "depth-threshold"),
        ("min-input-file", "min-input-files"),
        ("max-levels", "max-level"),
        (
            "universal.compaction.total-size-threshold",
            "universal.compaction.total-size-threshold-bytes",
        ),
        (
            "universal.compaction.incremental-size-threshold",
            "universal.compaction.incremental-size-threshold-bytes",
        ),
        ("auto.enable", "auto.enabled"),
    ],
)
def test_an_unknown_option_names_the_nearest(name: str, nearest: str) -> None:
    for place in _places(name, "1"):
        [given] = next(iter(place.values()))  # a conf or property with its prefix
        with pytest.raises(
            OptionError, match=re.escape(f"unknown option '{given}' (did you mean '{nearest}'?)")
        ):
            resolve(**place)


@pytest.mark.parametrize("name, instead", REMOVED.items())
def test_a_removed_option_says_what_to_use_instead(name: str, instead: str) -> None:
    places: list[dict[str, Any]] = [{"call": {name: "1"}}, {"conf": {f"spark.lakekeeper.{name}": "1"}}]
    for place in places:
        with pytest.raises(OptionError, match=f"{re.escape(name)} was removed; {re.escape(instead)}"):
            resolve(**place)
    with pytest.raises(OptionError, match="was removed"):
        lookup(keyword(name))


@pytest.mark.parametrize("name", REMOVED)
def test_a_removed_property_does_not_stop_the_maintenance_of_a_table(name: str) -> None:
    resolved = resolve(properties={f"lakekeeper.{name}": "1", "lakekeeper.max-level": "3"})
    assert resolved.planning.max_level == 3
    assert REMOVED[name] in resolved.ignored[f"lakekeeper.{name}"]


def test_the_replacement_of_a_removed_option_exists() -> None:
    named = {word.strip(".,;") for instead in REMOVED.values() for word in instead.split()}
    assert not named & set(REMOVED)
    assert not set(REMOVED) & {option.name for option in OPTIONS}
    assert all(lookup(word) for word in named if "." in word.strip("0123456789.") and "(" not in word)


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
        assert (resolved.planning.max_level, resolved.origins["max-level"]) == (value, origin)


@pytest.mark.parametrize(
    "elsewhere", [{"conf": {"spark.lakekeeper.auto.enabled": "true"}}, {"call": {"auto.enabled": True}}]
)
def test_switched_off_on_a_table_always_wins(elsewhere: dict[str, Any]) -> None:
    assert resolve(properties={"lakekeeper.auto.enabled": "false"}, **elsewhere).auto.enabled is False
    assert (
        resolve(
            properties={"lakekeeper.auto.enabled": "true"}, conf={"spark.lakekeeper.auto.enabled": "false"}
        ).auto.enabled
        is False
    )


def test_an_option_of_the_operator_is_ignored_on_a_table() -> None:
    for name in ("auto.tables", "vacuum.streaming-checkpoints"):
        resolved = resolve(properties={f"lakekeeper.{name}": "db.t"})
        assert lookup(name).of(resolved) == ()
        assert f"spark.lakekeeper.{name}" in resolved.ignored[f"lakekeeper.{name}"]


def test_a_table_does_not_ask_for_a_full_rewrite_in_each_pass() -> None:
    resolved = resolve(properties={"lakekeeper.policy": "sizes, full"})
    assert resolved.table.policies == ()
    assert "full" in resolved.ignored["lakekeeper.policy"]
    assert resolve({"policy": "full"}, properties={"lakekeeper.policy": "sizes"}).table.policies == ("full",)


def test_a_bad_property_that_is_not_an_error_is_named() -> None:
    properties = {"lakekeeper.max-level": "many", "lakekeeper.nonsense": "1", "lakekeeper.max-rounds": "2"}
    resolved = resolve(properties=properties, lenient=True)
    assert (resolved.planning.max_level, resolved.planning.max_rounds) == (32, 2)
    assert resolved.ignored.keys() == {"lakekeeper.max-level", "lakekeeper.nonsense"}


def test_keys_of_other_systems_are_ignored() -> None:
    assert (
        resolve(conf={"spark.sql.nonsense": "x"}, properties={"delta.nonsense": "y"}).origins
        == resolve().origins
    )


def test_both_spellings_are_accepted() -> None:
    assert resolve({"target_file_size_bytes": "2048"}).files.target_bytes == 2048
    assert resolve({"policy": " ranges, ,sizes "}).table.policies == ("ranges", "sizes")
    assert resolve({"policy": ["ranges", "sizes"]}).table.policies == ("ranges", "sizes")


@pytest.mark.parametrize(
    "names", [("retention-hours", "retention_hours"), ("retention_hours", "retention-hours")]
)
def test_two_spellings_of_one_option_are_refused(names: tuple[str, str]) -> None:
    """The later one applied, without a word."""
    first, second = names
    places: list[dict[str, Any]] = [
        {"call": {first: 720, second: 24}},
        {"conf": {f"spark.lakekeeper.{first}": "720", f"spark.lakekeeper.{second}": "24"}},
        {"properties": {f"lakekeeper.{first}": "720", f"lakekeeper.{second}": "24"}},
    ]
    for place in places:
        one, two = next(iter(place.values()))
        with pytest.raises(OptionError, match=f"{re.escape(one)} sets the same option; remove one") as raised:
            resolve(**place)
        assert raised.value.key == two
    assert resolve({first: None, second: 24}).vacuum.retention_ms == 24 * HOUR_MS


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(
    "name, tight, loose",
    [
        ("retention-hours", "720", "24"),
        ("vacuum.max-share", "0.1", "0.4"),
        ("budget-bytes", "1GB", "none"),
        ("auto.enabled", "false", "true"),
    ],
)
def test_of_two_properties_for_one_option_the_tighter_applies(
    name: str, tight: str, loose: str, swapped: bool
) -> None:
    canonical, other = f"lakekeeper.{name}", f"lakekeeper.{keyword(name)}"
    keys = (other, canonical) if swapped else (canonical, other)
    for order in (1, -1):
        properties = dict([*zip(keys, (tight, loose), strict=True)][::order])
        resolved = resolve(properties=properties, lenient=True)
        assert lookup(name).of(resolved) == lookup(name).of(resolve(properties={canonical: tight}))
        assert resolved.origins[name] == "property"
        assert resolved.ignored == {keys[1]: f"{keys[0]} sets the same option, and the tighter value applies"}


def test_of_two_properties_for_another_option_the_documented_spelling_applies() -> None:
    for given in (
        ["lakekeeper.max-level", "lakekeeper.max_level"],
        ["lakekeeper.max_level", "lakekeeper.max-level"],
    ):
        properties = {key: "3" if "-" in key else "5" for key in given}
        resolved = resolve(properties=properties, lenient=True)
        assert resolved.planning.max_level == 3
        assert resolved.ignored == {"lakekeeper.max_level": "lakekeeper.max-level sets the same option"}


@pytest.mark.parametrize(
    "place",
    [
        lambda name, value: {"call": {name: value}},
        lambda name, value: {"conf": {f"spark.lakekeeper.{name}": value}},
        lambda name, value: {"properties": {f"lakekeeper.{name}": value}},
    ],
    ids=["call", "conf", "property"],
)
def test_sizes_and_times_are_accepted_in_every_place(
    place: Callable[[str, str], dict[str, Any]],
) -> None:
    assert resolve(**place("target-file-size-bytes", "64MB")).files.target_bytes == 64_000_000
    assert resolve(**place("single-task-bytes", "128MiB")).groups.single_task_bytes == 128 << 20
    assert resolve(**place("budget-bytes", "20GB")).budget.bytes == 20 * 10**9
    assert resolve(**place("commit.retry.total-timeout-ms", "90s")).commit.timeout_ms == 90_000
    assert resolve(**place("commit.quiet-window-ms", "250")).commit.quiet_window_ms == 250
    assert resolve(**place("vacuum.orphan-grace-hours", "7d")).vacuum.orphan_grace_ms == 7 * 24 * HOUR_MS
    assert resolve(**place("vacuum.orphan-grace-hours", "100")).vacuum.orphan_grace_ms == 100 * HOUR_MS


def test_hours_may_have_a_fraction() -> None:
    assert resolve({"retention-hours": 0.5}).vacuum.retention_ms == HOUR_MS // 2
    assert resolve({"retention-hours": "0.5"}).vacuum.retention_ms == HOUR_MS // 2


def test_none_lifts_a_limit_in_the_call() -> None:
    conf = {"spark.lakekeeper.budget-bytes": "1GB"}
    assert resolve(conf=conf).budget.bytes == 10**9
    assert resolve({"budget-bytes": "none"}, conf).budget.bytes is None
    ignored = resolve(conf=conf, properties={"lakekeeper.budget-bytes": "none"})
    assert ignored.budget.bytes == 10**9
    assert "1GB applies, not none" in ignored.ignored["lakekeeper.budget-bytes"]


@pytest.mark.parametrize("name", ["auto.enabled", "sql.call.enabled", "allow-untested-versions"])
def test_a_conf_sets_an_option_in_either_spelling(name: str) -> None:
    """Three were looked up by one spelling, and another left them off without a word."""
    one, other = spellings(name, CONF_PREFIX)
    assert set_by({}, name) is None
    assert set_by({one: " True "}, name) is set_by({other: "true"}, name) is True
    assert set_by({other: "false"}, name) is False
    with pytest.raises(OptionError, match="true or false"):
        set_by({one: "yes"}, name)
    with pytest.raises(OptionError, match="sets the same option; remove one"):
        set_by({one: "true", other: "true"}, name)


@pytest.mark.parametrize(
    "given, file",
    [
        ("none", None),
        ("/var/lk/history.db", "/var/lk/history.db"),
        ("history.db", "history.db"),
        ("file:/var/lk/h.db", "/var/lk/h.db"),
        ("file:///var/a b/h.db", "/var/a b/h.db"),
        ("C:/lk/h.db", "C:/lk/h.db"),
    ],
)
def test_the_file_of_the_history(given: str, file: str | None) -> None:
    assert resolve({}, {"spark.lakekeeper.history.path": given}).history.file == file


@pytest.mark.parametrize("given", ["s3a://key:wJalr@b/h.db", "hdfs:/h.db", "dbfs:/h.db"])
def test_a_history_on_another_store_is_refused(given: str) -> None:
    """It became a folder of that name below the working directory."""
    with pytest.raises(
        OptionError, match=r"history\.path: got .*, expected a file on the driver's local disk"
    ) as error:
        _ = resolve({}, {"spark.lakekeeper.history.path": given}).history.file
    assert "wJalr" not in str(error.value)
