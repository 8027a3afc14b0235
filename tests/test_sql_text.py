"""Statements are separated into words as Spark does it, in a time that grows with their length only."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakekeeper.errors import OptionError
from lakekeeper.statements import alter_table
from lakekeeper.statements.alter_table import Recluster, reclustered_table
from lakekeeper.statements.sql_text import tokens
from tests.linear import assert_linear

NO_SPARK: Any = None


@pytest.fixture(autouse=True)
def _names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names are split without Spark's parser."""
    monkeypatch.setattr(
        alter_table, "table_parts", lambda _, name: tuple(p.strip(" `") for p in name.split("."))
    )


@pytest.mark.parametrize(
    "part",
    [
        lambda n: "/* daily */\n" * (n // 12) + "SELECT 1",
        lambda n: "/* daily */ MERGE INTO t USING s ON t.id = s.id" + "\nWHEN MATCHED AND a THEN DELETE" * (n // 31),
        lambda n: "/* RECLUSTER */ MERGE INTO t" + "\nWHEN MATCHED AND a THEN DELETE" * (n // 31),
        lambda n: "ALTER TABLE t RECLUSTER WHERE a = 1" + " /* b */" * (n // 8),
        lambda n: "ALTER TABLE t RECLUSTER " + "FINAL " * (n // 6),
        lambda n: "ALTER TABLE " + "t." * (n // 2) + " RECLUSTER WHERE",
        lambda n: "RECLUSTER " + "'\\" * (n // 2),
        lambda n: "RECLUSTER " + "/*" * (n // 2),
        lambda n: "RECLUSTER " + "`" * (n | 1),
        lambda n: "RECLUSTER " + "--\\" * (n // 3),
    ],
)  # fmt: skip
def test_a_long_statement_is_read_once(part: Callable[[int], str]) -> None:
    def read(text: str) -> None:
        with contextlib.suppress(OptionError):
            reclustered_table(NO_SPARK, text)

    assert_linear(read, part)


@pytest.mark.parametrize(
    "statement, expected",
    [
        ("ALTER TABLE t RECLUSTER", Recluster("t", None, False, False)),
        ("alter/**/table IF EXISTS `a`.b-c . d recluster final;", Recluster("a.`b-c`.d", None, True, True)),
        ("/* x /* y */ z */ -- w\nALTER TABLE t RECLUSTER -- v", Recluster("t", None, False, False)),
        ("ALTER TABLE t RECLUSTER WHERE a = '--x'", Recluster("t", "a = '--x'", False, False)),
        ("ALTER TABLE t RECLUSTER WHERE a = ';' ;", Recluster("t", "a = ';'", False, False)),
        ("ALTER TABLE t RECLUSTER WHERE `--` = '/*'", Recluster("t", "`--` = '/*'", False, False)),
        ('ALTER TABLE t RECLUSTER WHERE a = "*/" -- c', Recluster("t", 'a = "*/"', False, False)),
        ("ALTER TABLE t RECLUSTER WHERE a = 'it''s \\' -- ' -- c", Recluster("t", "a = 'it''s \\' -- '", False, False)),
        ("ALTER TABLE t RECLUSTER WHERE a = r'\\' -- c'", Recluster("t", "a = r'\\'", False, False)),
        ("ALTER TABLE t RECLUSTER WHERE a = 1 -- x\nAND b /* y */", Recluster("t", "a = 1 -- x\nAND b", False, False)),
        # Spark refuses the comment that is not closed; without it, the predicate would mean more.
        ("ALTER TABLE t RECLUSTER WHERE a = 1 /* AND b", Recluster("t", "a = 1 /* AND b", False, False)),
    ],
)  # fmt: skip
def test_marks_of_comments_inside_literals_are_text(statement: str, expected: Recluster) -> None:
    assert reclustered_table(NO_SPARK, statement) == expected


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT 'ALTER TABLE t RECLUSTER'",
        "-- ALTER TABLE t RECLUSTER",
        "ALTER TABLE t SET TBLPROPERTIES ('a' = 'RECLUSTER')",
        "ALTER TABLE RECLUSTER",
        "ALTER TABLE t.RECLUSTER SET LOCATION 'x'",
        "ALTER TABLE t RECLUSTERED",
    ],
)
def test_other_statements_are_left_to_spark(statement: str) -> None:
    assert reclustered_table(NO_SPARK, statement) is None


@pytest.mark.parametrize(
    "rest", ["WHERE", "WHERE -- a", "FINAL x", "/* b", "; ALTER TABLE t RECLUSTER", ";;"]
)
def test_invalid_clauses_are_refused(rest: str) -> None:
    with pytest.raises(OptionError, match="found after RECLUSTER"):
        reclustered_table(NO_SPARK, f"ALTER TABLE t RECLUSTER {rest}")


@given(st.text("'\"`\\-/*+;rR a\n\r", max_size=40))
def test_tokens_are_parts_of_the_text_in_order(text: str) -> None:
    at = 0
    for token in tokens(text):
        assert token.start >= at
        assert token.text == text[token.start : token.end]
        at = token.end
