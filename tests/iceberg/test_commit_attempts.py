"""Notes of attempts to commit, without Spark: a damaged one names no file."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from lakekeeper_iceberg.commit_attempts import Attempt, note_of, noted


def notes(text: str) -> Any:
    return SimpleNamespace(read={note_of("r-1"): text}.get)


def test_attempts_are_read_back() -> None:
    attempt = Attempt(str(uuid4()), 5, "file:/t/metadata/v1.metadata.json")
    text = json.dumps([{"uuid": attempt.uuid, "snapshot": 5, "base": attempt.base}])
    assert noted(notes(text), "r-1") == [attempt]


@pytest.mark.parametrize(
    "text",
    ["", "{half", "null", "7", "[7]", '[{"uuid": "u", "snapshot": 1e999, "base": ""}]', "[" * 100_000],
    ids=lambda text: text[:20],
)
def test_a_damaged_note_names_no_attempt(text: str) -> None:
    assert noted(notes(text), "r-1") == []
