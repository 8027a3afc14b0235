from __future__ import annotations

import random
from typing import Any

import pytest

from lakekeeper.errors import OptionError
from lakekeeper.testing.predicate import parse
from lakekeeper.testing.samples import NAN, SAMPLES
from lakekeeper.testing.values import statistics, token

KINDS = {("k",): "int", ("a", "y.z"): "string", ("d",): "date", ("m",): "decimal(9,2)", ("b",): "boolean"}


@pytest.mark.parametrize(
    "where, row, expected",
    [
        ("k >= 3 and k < 5", {"k": 4}, True),
        ("k >= 3 AND k<5", {"k": 5}, False),
        ("k = 3", {"k": None}, False),
        ("k != 3", {"k": None}, False),
        ("k is null", {"k": None}, True),
        ("k IS NOT NULL", {"k": None}, False),
        ("a.`y.z` = 'it''s'", {"a": {"y.z": "it's"}}, True),
        ("a.`y.z` is null", {"a": None}, True),
        ("d < date '2026-01-02' and d > date '2025-12-31'", {"d": SAMPLES["date"][3]}, False),
        ("m = 12.30", {"m": SAMPLES["decimal(9,2)"][4]}, True),
        ("b = true", {"b": True}, True),
        ("k <> -7", {"k": 7}, True),
    ],
)
def test_rows(where: str, row: dict[str, Any], expected: bool) -> None:
    assert parse(where, KINDS)(row) is expected


@pytest.mark.parametrize(
    "where",
    [
        "",
        "k",
        "k = ",
        "k = 3 or",
        "k in (1)",
        "x = 1",
        "k = 'three'",
        "b = 3",
        "k = 3 and",
        "(k = 3)",
        "f(k) = 1",
    ],
)
def test_text_that_is_not_a_predicate_is_refused(where: str) -> None:
    with pytest.raises(OptionError, match="where"):
        parse(where, KINDS)


@pytest.mark.parametrize("kind", ["int", "string", "boolean", "decimal(9,2)"])
def test_a_file_with_a_match_is_never_left_out(kind: str) -> None:
    for seed in range(400):
        rng = random.Random(seed)
        values = [rng.choice([*SAMPLES[kind], None]) for _ in range(rng.randint(1, 5))]
        literal = rng.choice(SAMPLES[kind])
        spelled = f"'{literal}'" if kind in ("string", "decimal(9,2)") else str(literal).lower()
        op = rng.choice(["=", "!=", "<", "<=", ">", ">=", "is null", "is not null"])
        means = parse(f"k {op}" if op.startswith("is") else f"k {op} {spelled}", {("k",): kind})
        found = statistics(values, rng.choice([None, 1, 3]))
        if any(means({"k": value}) for value in values):
            assert means.may_match({("k",): found}, len(values)), (values, op, literal)
        assert means.may_match({}, len(values))


@pytest.mark.parametrize("kind", SAMPLES)
@pytest.mark.parametrize("truncate", [None, 1, 4])
def test_statistics_hide_no_value(kind: str, truncate: int | None) -> None:
    for seed in range(100):
        rng = random.Random(seed)
        values = [rng.choice([*SAMPLES[kind], None]) for _ in range(rng.randint(1, 6))]
        found = statistics(values, truncate, milliseconds=seed % 2 == 1)
        assert found.nulls == values.count(None)
        if found.lo is None or found.hi is None:
            assert found.nulls == len(values) or truncate is not None
            continue
        assert all(token(found.lo) <= token(v) <= token(found.hi) for v in values if v is not None)
        if found.exact:
            assert {token(found.lo), token(found.hi)} <= {token(v) for v in values}


def test_values_order_as_spark_orders_them() -> None:
    assert token(None) < token(float("-inf")) < token(float("inf")) < token(NAN)
    assert token(-0.0) == token(0.0)
    assert token("z") < token("é") < token("\uffee") < token("𝄞")
    for kind in SAMPLES:
        tokens = [token(value) for value in SAMPLES[kind]]
        assert tokens == sorted(tokens)
