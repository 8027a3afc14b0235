"""Confirmation prompts, and how failures are reported."""

from __future__ import annotations

import json
import sys

import typer


def require_terminal() -> None:
    """Raise a usage error where no terminal can answer a prompt."""
    if not sys.stdin.isatty():
        raise typer.BadParameter("required without a terminal to confirm at", param_hint="--yes")


def agreed(question: str) -> bool:
    """Ask for confirmation at the terminal; a usage error without one."""
    require_terminal()
    try:
        return typer.confirm(question, err=True)
    except typer.Abort as end:
        if isinstance(end.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        return False  # end of input


def failed(kind: str, message: str, code: int, as_json: bool) -> int:
    """One line on stderr, and an object on stdout with --json; returns the exit code."""
    typer.echo(f"lakekeeper: {message}", err=True)
    if as_json:
        typer.echo(json.dumps({"error": {"type": kind, "message": message}}))
    return code
