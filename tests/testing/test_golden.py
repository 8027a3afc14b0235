from __future__ import annotations

from pathlib import Path

import pytest

from lakekeeper.testing.golden import Case, play, run_golden

TEXT = """\
# A comment stays.
say hello times=2
one
two
----
hello hello: one/two

gap
----
----
a

b
----
----

nothing
----

"""


def handle(case: Case) -> str:
    if case.command == "say":
        words = " ".join(case.words * int(case.named["times"]))
        return f"{words}: {'/'.join(case.input.splitlines())}"
    return {"gap": "a\n\nb", "nothing": ""}[case.command]


def test_a_file_that_matches_is_left_as_it_is(tmp_path: Path) -> None:
    assert play(TEXT, handle) == TEXT
    path = tmp_path / "golden.txt"
    path.write_text(TEXT)
    run_golden(path, handle, rewrite=False)


def test_other_output_is_shown_as_a_diff_and_written_on_request(tmp_path: Path) -> None:
    path = tmp_path / "golden.txt"
    path.write_text(TEXT.replace("hello hello", "good bye").replace("b\n----\n", "c\n----\n"))
    with pytest.raises(AssertionError, match=r"(?s)-good bye: one/two.*\+hello hello: one/two"):
        run_golden(path, handle, rewrite=False)
    run_golden(path, handle, rewrite=True)
    assert path.read_text() == TEXT


def test_an_environment_variable_requests_a_rewrite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "golden.txt"
    path.write_text("say x times=1\n----\n")
    monkeypatch.setenv("LAKEKEEPER_REWRITE_GOLDENS", "1")
    run_golden(path, handle)
    assert path.read_text() == "say x times=1\n----\nx: \n".replace(": \n", ":\n")


@pytest.mark.parametrize("text", ["say x times=1\n", "gap\n----\n----\na\n"])
def test_a_truncated_file_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="----"):
        play(text, handle)
