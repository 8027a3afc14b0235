"""Each reason has a short sentence in plain words, is used, and is shown in the golden file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lakekeeper.core.model.reason_code import Code

ROOT = Path(__file__).parents[3]
GOLDEN = ROOT / "tests" / "core" / "data" / "reasons.txt"
BANNED = re.compile(
    r"\b(told|tell|tells|anew|nobody|somebody|anybody|whoever|picture|seed|at work|is none|are none|dearest|rent)\b"
)


def test_each_code_is_used_in_the_code_base() -> None:
    sources = [*(ROOT / "lakekeeper").rglob("*.py"), *(ROOT / "adapters").rglob("*.py")]
    used = {
        name
        for path in sources
        if path.name != "reason_code.py"
        for name in re.findall(r"\bCode\.([A-Z_0-9]+)", path.read_text())
    }
    assert {code.name for code in Code} - used == set()


def test_the_golden_shows_the_sentence_of_each_code() -> None:
    shown = set(re.findall(r"^([a-z_0-9]+)(?= [a-z_0-9]+=|$)", GOLDEN.read_text(), re.MULTILINE)) - {
        "reasons"
    }
    assert {str(code) for code in Code} - shown == set()


@pytest.mark.parametrize("code", Code, ids=str)
def test_a_sentence_is_short_and_in_the_words_of_the_field(code: Code) -> None:
    assert code.value == code.name.lower()
    assert not BANNED.search(code.sentence)
    assert not code.sentence.endswith(".")
    assert len(re.sub(r"\{[^}]*\}", "", code.sentence)) <= 64
