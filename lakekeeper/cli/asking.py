"""Confirmation prompts, and how failures are reported."""

from __future__ import annotations

import json
import sys
from contextlib import suppress

import typer

from lakekeeper.cli.output import safe, say
from lakekeeper.redaction import redacted


class _NoTerminalError(typer.BadParameter):
    """A usage error whose message names the option itself."""

    def format_message(self) -> str:
        return self.message


def require_terminal() -> None:
    """Raise a usage error if there is no terminal to answer a prompt."""
    if not sys.stdin.isatty():
        raise _NoTerminalError("--yes is required because there is no terminal to confirm at")


def agreed(question: str) -> bool:
    """Ask for confirmation at the terminal; raises a usage error without a terminal."""
    require_terminal()
    try:
        return typer.confirm(safe(question), err=True)
    except typer.Abort as end:
        if isinstance(end.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        return False  # end of input


def failed(kind: str, message: str, code: int, as_json: bool) -> int:
    """Report a failure as one line on stderr, and with --json as an object on stdout; returns the exit code.

    Secrets in the message are hidden, as in a conf for which ``--conf`` was forgotten.
    """
    message = redacted(message)
    say(f"lakekeeper: {message}", err=True)
    if as_json:
        with suppress(OSError):  # stdout may be what failed
            typer.echo(json.dumps({"error": {"type": kind, "message": message}}))
    return code
