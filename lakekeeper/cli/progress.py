"""Progress on stderr, fed by the engine's observer: a bar at a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lakekeeper.core.text.formatting import counted, size

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from typing_extensions import Self  # in typing from Python 3.11 on


class Progress:
    """An observer. It is also called from worker threads, and must never raise: an error would halt the run."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._lock = threading.Lock()
        self.bar: Bar | None = None
        self._task: Any = None
        self._groups = self._finished = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end_bar()

    def say(self, text: str) -> None:
        """Print one line, whatever the display is."""
        if not self._quiet:
            sys.stderr.write(text + "\n")
            sys.stderr.flush()

    def __call__(self, phase: str, info: Mapping[str, Any]) -> None:
        # If stderr is closed or the display fails, only the progress is lost, not the run.
        with self._lock, contextlib.suppress(Exception):
            show = getattr(self, f"_{phase}", None)
            if show is not None and not self._quiet:
                show(info)

    def _planned(self, info: Mapping[str, Any]) -> None:
        self._end_bar()
        if "tasks" not in info:
            self.say(f"{info['table']}: {counted(info['files'], 'file')} to delete, {size(info['bytes'])}")
            return
        self._groups, self._finished = int(info["tasks"]), 0
        if not self._groups:
            return
        text = (
            f"{info['table']}: round {info['round']}, {counted(self._groups, 'group')}, {size(info['bytes'])}"
        )
        self.say(text)
        if sys.stderr.isatty():
            self._begin_bar()

    def _written(self, info: Mapping[str, Any]) -> None:
        self._finished += 1
        if self.bar is not None:
            self.bar.advance(self._task)
            return
        wrote = f"{counted(info['rows'], 'row')}, {size(info['bytes'])}"
        self.say(f"{info['table']}: written {self._finished:,} of {self._groups:,} ({wrote})")

    def _committed(self, info: Mapping[str, Any]) -> None:
        if self._finished >= self._groups:
            self._end_bar()
        if "rows" in info:
            what = f"{counted(info['rows'], 'row')} deleted"
        elif "removed_delete_files" in info:
            what = f"{counted(info['removed_delete_files'], 'delete file')} removed"
        else:
            what = f"{counted(info['rewrites'], 'group')}"
        self.say(f"{info['table']}: committed version {info['version']}, {what}")

    def _deleted(self, info: Mapping[str, Any]) -> None:
        self._finished += int(info["files"])
        self.say(f"{info['table']}: {counted(self._finished, 'file')} deleted")

    def _conflict(self, info: Mapping[str, Any]) -> None:
        dropped, replayed = info.get("dropped"), info.get("replayed")
        parts = [f"{counted(replayed, 'group')} replayed"] if replayed else []
        parts += [f"{counted(dropped, 'group')} dropped"] if dropped else []
        what = " and ".join(parts) or "trying again"
        self.say(f"{info['table']}: another commit came first, {what}: {info['reason']}")

    def _begin_bar(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("  {task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self.bar = Progress(*columns, console=Console(stderr=True))
        self._task = self.bar.add_task("rewriting", total=self._groups)
        self.bar.start()

    def _end_bar(self) -> None:
        bar, self.bar = self.bar, None
        if bar is not None:
            bar.stop()
