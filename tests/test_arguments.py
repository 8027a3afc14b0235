"""The arguments of a call, without Spark: options that are named in either spelling."""

from __future__ import annotations

from typing import Any

import pytest

from lakekeeper.arguments import given_options, is_automatic, streams_to_keep
from lakekeeper.core.config.options import overridden, resolve
from lakekeeper.errors import RetentionError


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
