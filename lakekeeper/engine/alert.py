"""Runs a command when something needs attention: a table that failed or is parked, a pattern without tables."""

from __future__ import annotations

import json
import logging
import shlex
import subprocess

from lakekeeper.core.scheduling.auto_report import AutoReport
from lakekeeper.errors import reason

_LOG = logging.getLogger("lakekeeper")
_PATIENCE_S = 30.0


class Alerts:
    """Alerts of one service: one for each table and pattern, and another only after a recovery."""

    def __init__(self, command: str | None) -> None:
        self._command = shlex.split(command) if command else []
        self._known: set[str] = set()

    def after(self, report: AutoReport) -> None:
        """Run the command with what is newly wrong as JSON on its standard input; a failure is a warning."""
        tables = {t.table: t.to_dict() for t in report.tables if t.status in ("failed", "parked")}
        patterns = {p.pattern: p.to_dict() for p in report.patterns if p.status != "matched"}
        new = (tables.keys() | patterns.keys()) - self._known
        self._known = tables.keys() | patterns.keys()
        if not new or not self._command:
            return
        alert = {
            "tables": [plain for name, plain in tables.items() if name in new],
            "patterns": [plain for name, plain in patterns.items() if name in new],
        }
        try:
            subprocess.run(
                self._command,
                input=json.dumps(alert),
                text=True,
                capture_output=True,
                check=True,
                timeout=_PATIENCE_S,
            )
        except (OSError, subprocess.SubprocessError) as error:
            _LOG.warning("the alert command failed: %s", reason(error))
