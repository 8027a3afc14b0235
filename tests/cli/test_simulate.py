"""``lakekeeper simulate`` with a named stream, which needs no Spark."""

from __future__ import annotations

import json

import pytest

from lakekeeper.cli import main


def test_a_stream_is_simulated_without_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--stream", "late", "--commits", "30", "--policy", "full", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["commits"], report["policies"], report["write_amplification"]) == (30, ["full"], 2.0)
    assert len(report["course"]["depth"]) == 30


def test_without_json_the_report_is_printed_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--stream", "time", "--commits", "30", "--every", "5"]) == 0
    assert "30; adaptive after every" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments, said",
    [
        ([], "the name of a stream, since no table is given"),
        (["--stream", "widee"], "did you mean 'wide'?"),
        (["--stream", "wide", "--every", "0"], "every: got 0"),
        (["--stream", "wide", "--policy", "rnages"], "did you mean 'ranges'?"),
        (["--stream", "wide", "--columns", "a"], "none: a named stream has its own key"),
    ],
)
def test_wrong_usage_exits_with_2_and_one_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", *arguments]) == 2
    assert said in capsys.readouterr().err
