"""The arguments of a call, without Spark: options that are named in either spelling."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, cast

import pytest

from lakekeeper.arguments import (
    columns_and_layout,
    given_options,
    is_automatic,
    row_limit,
    streams_to_keep,
    table_names,
    version_numbers,
)
from lakekeeper.core.config.options import overridden, resolve
from lakekeeper.errors import OptionError, RetentionError


@pytest.mark.parametrize(
    "key", ["lakekeeper.vacuum.streaming-checkpoints", "lakekeeper.vacuum_streaming_checkpoints"]
)
@pytest.mark.parametrize("lenient", [False, True])
def test_checkpoints_that_only_a_property_names_stop_the_vacuum(key: str, lenient: bool) -> None:
    """The second spelling was not seen, so versions went that streams had yet to read."""
    unused: Any = None
    options = resolve(properties={key: "/streams/a"}, lenient=lenient)
    with pytest.raises(RetentionError, match=rf"the table property {key} names checkpoints"):
        streams_to_keep(unused, "db.t", options)


@pytest.mark.parametrize("key", ["lakekeeper.auto.enabled", "lakekeeper.auto_enabled"])
def test_a_table_is_excluded_in_either_spelling(key: str) -> None:
    assert not is_automatic({key: "false"})
    assert is_automatic({key: "true"})
    assert not is_automatic({"lakekeeper.auto.enabled": "true", key: "false"})
    assert is_automatic({})


@pytest.mark.parametrize("name", ["budget-bytes", "budget_bytes"])
def test_an_argument_replaces_its_option_in_either_spelling(name: str) -> None:
    given = given_options({name: 1_000, "max_level": 2}, None, 2_000)
    assert resolve(given).budget.bytes == 2_000
    assert resolve(given).planning.max_level == 2
    assert overridden({"retain_last": 3}, {"retain-last": 5}) == {"retain-last": 5}
    assert overridden(None, {"retain-last": 5}) == {"retain-last": 5}


@pytest.mark.parametrize(
    "call",
    [
        lambda: given_options(None, cast("Any", 5), None),
        lambda: given_options(None, cast("Any", [5]), None),
        lambda: columns_and_layout(cast("Any", 5)),
        lambda: columns_and_layout(cast("Any", ["k", None])),
        lambda: version_numbers(cast("Any", 5)),
        lambda: version_numbers(cast("Any", "5")),
        lambda: table_names(cast("Any", 5)),
        lambda: row_limit(cast("Any", 2.5)),
        lambda: row_limit(cast("Any", "5")),
        lambda: row_limit(-3),
        lambda: resolve({"min-input-files": Decimal("2.9")}),
    ],
)
def test_an_argument_of_a_wrong_type_is_refused(call: Callable[[], object]) -> None:
    """They came out of Python as TypeError, or went on: a Decimal was cut, and a limit of -3 meant no limit."""
    with pytest.raises(OptionError, match="expected"):
        call()


def test_a_limit_may_be_left_out() -> None:
    assert (row_limit(None), row_limit(1)) == (None, 1)
