"""Values that a user types, and how progress shows; without Spark."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lakekeeper.cli.progress import Progress
from lakekeeper.cli.values import byte_count, pairs, properties_file
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.errors import OptionError


@pytest.mark.parametrize(
    "text, expected",
    [
        ("10GB", 10_000_000_000),
        ("512MiB", 512 << 20),
        ("1.5 kb", 1500),
        ("10g", 10 << 30),
        ("7", 7),
        ("7b", 7),
        ("2TiB", 2 << 40),
    ],
)
def test_byte_counts(text: str, expected: int) -> None:
    assert byte_count(text) == expected


@pytest.mark.parametrize("text", ["", "GB", "-1", "10 parsecs", "1e9", "10GBB"])
def test_bad_byte_counts(text: str) -> None:
    with pytest.raises(OptionError, match="64MB, 128MiB"):
        byte_count(text)


def test_pairs_keep_what_follows_the_first_equals_sign() -> None:
    assert pairs("--conf", ["a=b=c", "d= e ", "a=last"]) == {"a": "last", "d": "e"}
    with pytest.raises(OptionError, match="--conf: got 'abc', expected key=value"):
        pairs("--conf", ["abc"])


@pytest.mark.parametrize(
    "text", ["fs.s3a.secret.key Xy7", "fs.s3a.secret.key:Xy7", " fs.s3a.secret.key\tXy7 "]
)
def test_a_value_without_its_equals_sign_is_not_shown(tmp_path: Path, text: str) -> None:
    with pytest.raises(OptionError, match=r"got 'fs\.s3a\.secret\.key …'") as raised:
        pairs("--conf", [text])
    assert "Xy7" not in str(raised.value)
    file = tmp_path / "some.conf"
    file.write_text(text)
    with pytest.raises(OptionError, match=r"line 1: got 'fs\.s3a\.secret\.key …'") as raised:
        properties_file(file)
    assert "Xy7" not in str(raised.value)


def test_a_properties_file_is_read_as_spark_does(tmp_path: Path) -> None:
    file = tmp_path / "some.conf"
    file.write_text("# words\n\nspark.a  1 2\nspark.b=x=y\n  spark.c\tz  \n! more words\nspark.d : 4\n")
    assert properties_file(file) == {"spark.a": "1 2", "spark.b": "x=y", "spark.c": "z", "spark.d": "4"}


@pytest.mark.parametrize("line", ["lakekeeper.auto.tables x", "spark.alone", "= x"])
def test_a_bad_line_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "some.conf"
    file.write_text(f"# one\n{line}\n")
    with pytest.raises(OptionError, match="line 2"):
        properties_file(file)


def test_progress_is_plain_lines_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    phases: list[tuple[str, Mapping[str, Any]]] = [
        ("planned", {"tasks": 2, "bytes": 2048, "round": 1}),
        ("read", {"task": "a"}),
        ("written", {"rows": 10, "bytes": 1024}),
        ("written", {"rows": 1000, "bytes": 2048}),
        (
            "conflict",
            {"dropped": 1, "reason": Reason.of(Code.ROWS_DELETED, changed=1, winners="version 9 (DELETE)")},
        ),
        ("committed", {"version": 7, "rewrites": 1}),
        ("written", {}),  # a phase that it cannot show never stops the run
    ]
    for quiet in (False, True):
        with Progress(quiet=quiet) as progress:
            for phase, info in phases:
                progress(phase, {"table": "t", **info})
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "t: round 1, 2 groups, 2.0 KiB",
        "t: written 1 of 2 (10 rows, 1.0 KiB)",
        "t: written 2 of 2 (1,000 rows, 2.0 KiB)",
        "t: another commit came first, 1 group dropped: rows of 1 input deleted by version 9 (DELETE)",
        "t: committed version 7, 1 group",
    ]


def test_progress_is_a_bar_at_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with Progress() as progress:
        progress("planned", {"table": "t", "tasks": 2, "bytes": 2048, "round": 1})
        progress("written", {"table": "t", "rows": 10, "bytes": 1024})
        assert progress.bar is not None
        assert progress.bar.tasks[0].completed == 1
        progress("written", {"table": "t", "rows": 10, "bytes": 1024})
        progress("committed", {"table": "t", "version": 7, "rewrites": 2})
        assert progress.bar is None
