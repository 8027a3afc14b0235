from __future__ import annotations

import random
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakekeeper.core.model.keys import (
    KINDS,
    ClusterKey,
    KeyColumn,
    arrow_type,
    from_json_values,
    key_from_json,
    key_text,
    key_to_json,
    parse_column,
    parse_layout,
    quote,
    split_columns,
    to_json_value,
)
from lakekeeper.errors import OptionError
from lakekeeper.testing.draws import draw_key
from lakekeeper.testing.samples import SAMPLES
from lakekeeper.testing.values import from_json_value, token
from tests.sampling import fewer

steps = st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=4)


@settings(derandomize=True, max_examples=fewer(300))
@given(steps)
def test_a_column_parses_as_it_is_quoted(path: list[str]) -> None:
    assert parse_column(".".join(map(quote, path))) == tuple(path)


@settings(derandomize=True, max_examples=fewer(300))
@given(st.lists(steps, min_size=1, max_size=4))
def test_columns_split_as_they_are_joined(paths: list[list[str]]) -> None:
    names = [".".join(map(quote, path)) for path in paths]
    assert split_columns(", ".join(names)) == tuple(names)


@pytest.mark.parametrize(
    "name, path",
    [
        ("id", ("id",)),
        ("a.b", ("a", "b")),
        ("a.`y.z`.c", ("a", "y.z", "c")),
        ("`with ``tick`", ("with `tick",)),
        ("`a b`.c", ("a b", "c")),
    ],
)
def test_spellings_of_columns(name: str, path: tuple[str, ...]) -> None:
    assert parse_column(name) == path


@pytest.mark.parametrize("name", ["", ".", "a.", ".a", "a..b", "`a", "`a`b", "``", "a.``"])
def test_bad_columns_are_refused(name: str) -> None:
    with pytest.raises(OptionError, match="columns"):
        parse_column(name)


def test_a_key_id_survives_renames_and_depends_on_the_order() -> None:
    one, two = KeyColumn(("a",), "int", "1"), KeyColumn(("b",), "string", "2")
    renamed = KeyColumn(("z", "y"), "int", "1")
    assert ClusterKey((one, two)).key_id == ClusterKey((renamed, two)).key_id
    assert ClusterKey((one, two)).key_id != ClusterKey((two, one)).key_id
    assert ClusterKey((one,)).key_id != ClusterKey((one, two)).key_id
    # Stored in tables: another id for the same key would reset the level of every block.
    assert ClusterKey((one,)).key_id == "1898f0f04f90"
    assert ClusterKey((one, two)).key_id == "69458ae13202"


@pytest.mark.parametrize("width", [0, 5])
def test_a_key_has_one_to_four_columns(width: int) -> None:
    with pytest.raises(OptionError, match="1 to 4"):
        ClusterKey(tuple(KeyColumn((f"c{i}",), "int", str(i)) for i in range(width)))


def test_a_key_has_each_column_once_and_a_known_layout() -> None:
    one = KeyColumn(("a",), "int", "1")
    with pytest.raises(OptionError, match="each column once"):
        ClusterKey((one, one))
    with pytest.raises(OptionError, match="layout"):
        ClusterKey((one,), "spiral")


def test_keys_go_through_json() -> None:
    for seed in range(100):
        key = draw_key(random.Random(seed))
        assert key_from_json(key_to_json(key)) == key


@pytest.mark.parametrize("kind", SAMPLES)
def test_bounds_go_through_json(kind: str) -> None:
    for value in [*SAMPLES[kind], None]:
        again = from_json_value(to_json_value(value, kind), kind)
        assert token(again) == token(value)


def test_kinds_and_their_arrow_types() -> None:
    assert arrow_type("decimal(38,18)") == pa.decimal128(38, 18)
    assert arrow_type("timestamp").tz == "UTC"
    assert set(SAMPLES) - {"decimal(9,2)", "decimal(38,18)"} == set(KINDS) - {"decimal(p,s)"}
    assert to_json_value(Decimal("1.50"), "decimal(9,2)") == "1.50"
    with pytest.raises(OptionError, match="orderable"):
        arrow_type("map")


@pytest.mark.parametrize("layout", ["zorder", "hilbert"])
def test_a_curve_needs_two_columns(layout: str) -> None:
    one, two = KeyColumn(("a",), "int", "1"), KeyColumn(("b",), "int", "2")
    with pytest.raises(OptionError, match="2 to 4 columns"):
        ClusterKey((one,), layout)
    assert ClusterKey((one, two), layout).key_id != ClusterKey((one, two)).key_id


def test_a_key_is_read_back_from_its_text() -> None:
    for seed in range(50):
        key = draw_key(random.Random(seed))
        for layout in ("linear", "zorder", "hilbert")[: 3 if len(key.columns) > 1 else 1]:
            laid = ClusterKey(key.columns, layout)
            assert parse_layout(key_text(laid)) == (tuple(c.name for c in key.columns), layout)
    assert parse_layout("ZORDER(a, B)") == (("a", "B"), "zorder")
    assert parse_layout("`hilbert(a`, b") == (("`hilbert(a`", "b"), "linear")


@pytest.mark.parametrize("kind", SAMPLES)
def test_columns_of_bounds_go_through_json(kind: str) -> None:
    values = [*SAMPLES[kind], None]
    again = from_json_values([to_json_value(v, kind) for v in values], kind)
    assert again.type == arrow_type(kind)
    assert [token(v) for v in again.to_pylist()] == [token(v) for v in values]
