"""Text on stdout and stderr: a terminal acts on no control character in it, and no encoding makes it fail."""

from __future__ import annotations

import io
import sys

import typer

from lakekeeper.core.text.controls import visible

_KEPT = "\n\t"


def say(text: str, *, err: bool = False) -> None:
    """Print text that may contain names and messages of others; JSON has no control characters."""
    typer.echo(safe(text), err=err)


def safe(text: str) -> str:
    """Text for a terminal."""
    return visible(text, keep=_KEPT)


def escape_what_cannot_be_encoded() -> None:
    """Let stdout and stderr escape characters that their encoding lacks, instead of raising UnicodeEncodeError."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
