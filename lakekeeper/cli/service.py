"""``lakekeeper auto``: passes over many tables, until it is told to stop.

The first SIGTERM or SIGINT lets what is under way be committed and starts nothing more; a second one
interrupts at once: jobs are cancelled, and nothing that was not committed is in a table.
"""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from lakekeeper.cli.setup import Setup
from lakekeeper.engine.auto import AutoSettings, settings_from
from lakekeeper.engine.hot import Backoffs
from lakekeeper.errors import OptionError, reason

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def repeat(setup: Setup, tables: tuple[str, ...], *, every: str | None, once: bool, dry_run: bool) -> int:
    """Passes with a pause between them; the exit code of the last one."""
    asked: dict[str, Any] = {"auto.tables": ",".join(tables) or None, "auto.every": every}
    settings = settings_from(setup.check(asked))
    if not setup.quiet:
        typer.echo(f"lakekeeper auto: {', '.join(settings.tables)}; {', '.join(settings.verbs)}", err=True)
    spark = setup.session()
    service = _Service(setup, spark, settings, None if once else Backoffs.between(settings.pause_seconds))
    with stop_on_signal() as stopped:
        while True:
            code = service.one_pass(stopped.is_set, dry_run=dry_run)
            if once or stopped.wait(settings.pause_seconds):
                return code


@dataclass(frozen=True)
class _Service:
    """What all passes share; ``backoffs`` is what one remembers for the next, None where there is no next."""

    setup: Setup
    spark: SparkSession
    settings: AutoSettings
    backoffs: Backoffs | None

    def one_pass(self, stopping: Callable[[], bool], *, dry_run: bool) -> int:
        from lakekeeper import fleet

        setup = self.setup
        try:
            with setup.progress() as progress:
                report = fleet.one_pass(
                    self.spark,
                    self.settings,
                    dry_run=dry_run,
                    observer=progress,
                    stopping=stopping,
                    backoffs=self.backoffs,
                )
        except OptionError:
            raise  # it would be as wrong at the next pass
        except Exception as error:
            if self.backoffs is None:
                raise
            # A catalog that is down now may be up at the next pass.
            text = reason(error)
            typer.echo(json.dumps({"error": {"type": text.partition(":")[0], "message": text}}))
            typer.echo(f"lakekeeper auto: {text}", err=True)
            return 1
        typer.echo(report.to_json())
        if not setup.quiet and not setup.as_json:
            typer.echo(str(report), err=True)
        return report.exit_code


@contextmanager
def stop_on_signal() -> Iterator[threading.Event]:
    """An event that the first SIGTERM or SIGINT sets; a second one raises KeyboardInterrupt.

    Only the main thread may set handlers: elsewhere (a test, an embedding program) the event just stays unset.
    """
    event = threading.Event()

    def told(_number: int, _frame: object) -> None:
        if event.is_set():
            raise KeyboardInterrupt
        event.set()

    if threading.current_thread() is not threading.main_thread():
        yield event
        return
    before = {number: signal.signal(number, told) for number in _SIGNALS}
    try:
        yield event
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
