"""Text on stdout and stderr: a terminal acts on no control character in it, and no encoding makes it fail."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import typer

from lakekeeper.core.text.controls import visible

_KEPT = "\n\t"


def say(text: str, *, err: bool = False) -> None:
    """Print text that may contain names and messages of others; JSON has no control characters."""
    typer.echo(safe(text), err=err)


def safe(text: str) -> str:
    """Text for a terminal."""
    return visible(text, keep=_KEPT)


def open_closed_streams() -> None:
    """Open each standard stream that the shell has closed as /dev/null, for this process and those that it starts.

    Otherwise the next file that Python or Java opens gets its descriptor, and receives the stream's output.
    """
    for name in ("stdin", "stdout", "stderr"):  # in this order, each gets the lowest descriptor, its own
        if getattr(sys, name) is None:
            stream = Path(os.devnull).open("r" if name == "stdin" else "w", encoding="utf-8")  # noqa: SIM115 - never closed
            os.set_inheritable(stream.fileno(), True)
            setattr(sys, name, stream)


def escape_what_cannot_be_encoded() -> None:
    """Let stdout and stderr escape characters that their encoding lacks, instead of raising UnicodeEncodeError."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
