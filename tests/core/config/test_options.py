from __future__ import annotations

from typing import Any

import pytest

from lakekeeper.core.config.options import resolve
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


def test_both_spellings_are_taken() -> None:
    assert resolve({"target_file_size_bytes": "2048"}).integer("target-file-size-bytes") == 2048
    assert resolve().with_(max_level=7).integer("max-level") == 7
    assert resolve({"policy": " ranges, ,sizes "}).words("policy") == ("ranges", "sizes")
