"""Runs a command when something needs attention: a verb that fails or is parked, a pattern without tables."""

from __future__ import annotations

import json
import logging
import shlex
import subprocess
from pathlib import Path

from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.scheduling.auto_report import AutoReport, TableResult
from lakekeeper.errors import OptionError, reason

_LOG = logging.getLogger("lakekeeper")
PATIENCE_SECONDS = 30.0
"""How long a command may run before it is killed."""


class Alerts:
    """Alerts of one service: one for each table and pattern, and another only after a recovery.

    A table whose failed verb was not attempted, because of quiet hours, a pause or a budget, has not recovered, and
    neither has one that is missing from a pass that could not list all tables.

    Raises OptionError for a command that cannot be split into words.
    """

    def __init__(self, command: str | None) -> None:
        try:
            self._command = shlex.split(command) if command else []
        except ValueError as error:
            # Only its first word: an argument may be an address that is a secret.
            first = f"{(command or '').split()[0]} ..."
            expected = f"a command that a shell can split into words ({error})"
            raise OptionError("auto.alert-command", first, expected) from error
        self._known: set[str] = set()

    def after(self, report: AutoReport) -> None:
        """Run the command with what is newly wrong as JSON on its standard input; a failure is a warning.

        What the command failed to report is new in the next pass, too.
        """
        tables = {t.table: t.to_dict() for t in report.tables if t.needs_attention}
        patterns = {p.pattern: p.to_dict() for p in report.patterns if p.status != "matched"}
        wrong = tables.keys() | patterns.keys()
        new = wrong - self._known
        self._known &= wrong | {t.table for t in report.tables if _not_attempted(t)} | self._unlisted(report)
        if not new or not self._command:
            return
        alert = {
            "tables": [plain for name, plain in tables.items() if name in new],
            "patterns": [plain for name, plain in patterns.items() if name in new],
        }
        try:
            self._run(json.dumps(alert))
        except Exception as error:  # an alert must not end the service
            _LOG.warning("the alert command failed: %s", self._why(error))
        else:
            self._known |= wrong

    def _unlisted(self, report: AutoReport) -> set[str]:
        """What a pass shows nothing of because the tables of some pattern could not be listed."""
        seen = {t.table for t in report.tables} | {p.pattern for p in report.patterns}
        return self._known - seen if any(p.status == "failed" for p in report.patterns) else set()

    def _run(self, text: str) -> None:
        subprocess.run(
            self._command,
            input=text,
            text=True,
            stdout=subprocess.DEVNULL,  # a pipe would be open for as long as a process that the command leaves behind
            stderr=subprocess.DEVNULL,
            check=True,
            timeout=PATIENCE_SECONDS,
        )

    def _why(self, error: Exception) -> str:
        """The reason without the command's arguments, which the texts of these errors contain."""
        program = Path(self._command[0]).name
        if isinstance(error, subprocess.CalledProcessError):
            return f"{program}: exit code {error.returncode}"
        if isinstance(error, subprocess.TimeoutExpired):
            return f"{program}: still running after {PATIENCE_SECONDS:g} s"
        return reason(error)


def _not_attempted(table: TableResult) -> bool:
    """Whether the pass shows nothing of a verb that failed before: it was not planned, or it waits."""
    if any(task.failures and task.state == "queued" for task in table.tasks):
        return True
    left = table.status in ("waiting", "stopped") or Code.PAUSED in table.reason.codes
    return left and not table.tasks
