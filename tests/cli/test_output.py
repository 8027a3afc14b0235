"""The standard streams of the command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_PROGRAM = """
import os, subprocess, sys
from lakekeeper.cli.output import open_closed_streams

open_closed_streams()
with open("data", "w") as data:
    os.write(1, b"out"), os.write(2, b"err"), print("out", flush=True), print("err", file=sys.stderr)
    started = "import os, sys; data = open('more', 'w'); os.write(1, b'out'); os.write(2, b'err'); sys.stdin.read()"
    subprocess.run([sys.executable, "-c", started], check=True, close_fds=True)
    assert sys.stdin.read() == ""
    data.write("rows")
"""


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", ">&- 2>&-", "<&- 2>&-", "<&- >&- 2>&-"])
def test_no_file_gets_the_descriptor_of_a_stream_that_the_shell_has_closed(
    tmp_path: Path, closed: str
) -> None:
    command = ["sh", "-c", f'"$@" {closed}', "sh", sys.executable, "-c", _PROGRAM]
    done = subprocess.run(
        command, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr + done.stdout
    assert (tmp_path / "data").read_text() == "rows"
    assert (tmp_path / "more").read_text() == ""
    assert done.stdout.count("out") == (0 if " >&-" in f" {closed}" else 3)
    assert done.stderr.count("err") == (0 if "2>&-" in closed else 3)
