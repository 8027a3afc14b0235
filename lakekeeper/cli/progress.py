"""Progress on stderr, fed by the engine's observer: a bar at a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakekeeper.cli.output import safe
from lakekeeper.core.text.formatting import counted, size

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from typing_extensions import Self  # in typing from Python 3.11 on


_CHANGES = (
    ("rows", "row", " deleted"),
    ("restored_rows", "row", " restored"),
    ("removed_delete_files", "delete file", " removed"),
    ("files", "file", " with new statistics"),
    ("rewrites", "group", ""),
)
"""What a commit reports, first match first: the name of its count, and how it is shown."""


@dataclass(slots=True, eq=False)
class _Run:
    """The counts of one run: groups of the round, groups that are written, files that are deleted."""

    groups: int = 0
    written: int = 0
    deleted: int = 0


class Progress:
    """An observer. It is also called from worker threads, and must never raise: an error would halt the run.

    One display may observe several runs, even at the same time: the bar is that of the run that was planned last.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._lock = threading.Lock()
        self.bar: Bar | None = None
        self._task: Any = None
        self._runs: dict[tuple[str, str], _Run] = {}
        self._shown: _Run | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end_bar()

    def say(self, text: str) -> None:
        """Print one line, whatever the display is."""
        if not self._quiet:
            sys.stderr.write(safe(text) + "\n")
            sys.stderr.flush()

    def __call__(self, phase: str, info: Mapping[str, Any]) -> None:
        # If stderr is closed or the display fails, only the progress is lost, not the run.
        with self._lock, contextlib.suppress(Exception):
            show = getattr(self, f"_{phase}", None)
            if show is not None and not self._quiet:
                key = (info["table"], info.get("run_id", ""))
                show(info, self._runs.setdefault(key, _Run()))

    def _planned(self, info: Mapping[str, Any], run: _Run) -> None:
        self._end_bar()
        if "tasks" not in info:
            files = counted(info["files"], "file")
            what = f"{files} to delete" if "plan" in info else f"{files} without statistics"
            self.say(f"{info['table']}: {what}, {size(info['bytes'])}")
            return
        run.groups, run.written = int(info["tasks"]), 0
        if not run.groups:
            return
        text = (
            f"{info['table']}: round {info['round']}, {counted(run.groups, 'group')}, {size(info['bytes'])}"
        )
        self.say(text)
        if sys.stderr.isatty():
            self._begin_bar(run)

    def _written(self, info: Mapping[str, Any], run: _Run) -> None:
        if "rows" not in info:  # statistics
            return
        run.written += 1
        if self.bar is not None and run is self._shown:
            self.bar.advance(self._task)
            return
        wrote = f"{counted(info['rows'], 'row')}, {size(info['bytes'])}"
        self.say(f"{info['table']}: written {run.written:,} of {run.groups:,} ({wrote})")

    def _committed(self, info: Mapping[str, Any], run: _Run) -> None:
        if run is self._shown and run.written >= run.groups:
            self._end_bar()
        changes = (f", {counted(info[of], what)}{done}" for of, what, done in _CHANGES if of in info)
        self.say(f"{info['table']}: committed version {info['version']}{next(changes, '')}")

    def _deleted(self, info: Mapping[str, Any], run: _Run) -> None:
        run.deleted += int(info["files"])
        self.say(f"{info['table']}: {counted(run.deleted, 'file')} deleted")

    def _conflict(self, info: Mapping[str, Any], _: _Run) -> None:
        dropped, replayed = info.get("dropped"), info.get("replayed")
        parts = [f"{counted(replayed, 'group')} replayed"] if replayed else []
        parts += [f"{counted(dropped, 'group')} dropped"] if dropped else []
        what = " and ".join(parts) or "trying again"
        self.say(f"{info['table']}: another commit came first, {what}: {info['reason']}")

    def _begin_bar(self, run: _Run) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("  {task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self.bar = Progress(*columns, console=Console(stderr=True))
        self._task = self.bar.add_task("rewriting", total=run.groups)
        self._shown = run
        self.bar.start()

    def _end_bar(self) -> None:
        bar, self.bar, self._shown = self.bar, None, None
        if bar is not None:
            bar.stop()
