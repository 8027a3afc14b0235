"""Formats the help of commands for 80 columns."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand


class Command(TyperCommand):
    """A command whose arguments are listed by name alone: Typer adds the Python type, such as ``<list[str]>``."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        for parameter in self.params:
            if parameter.param_type_name == "argument" and hasattr(parameter, "display_type"):
                parameter.display_type = _untyped  # changes this object alone


def _untyped(_: Any) -> str:
    return ""


def plain_arguments(app: typer.Typer) -> None:
    """Make all commands of ``app`` and of its groups list their arguments by name alone."""
    for command in app.registered_commands:
        command.cls = Command
    for group in app.registered_groups:
        if group.typer_instance is not None:
            plain_arguments(group.typer_instance)
