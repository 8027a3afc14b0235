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
from typing import TYPE_CHECKING, Any

import typer

from lakekeeper.cli.setup import Setup
from lakekeeper.engine.auto import AutoReport, settings_from
from lakekeeper.errors import OptionError

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
    with stop_on_signal() as stopped:
        while True:
            code = _one_pass(setup, spark, tables, stopped.is_set, dry_run=dry_run, go_on=not once)
            if once or stopped.wait(settings.pause_seconds):
                return code


def _one_pass(
    setup: Setup,
    spark: SparkSession,
    tables: tuple[str, ...],
    stopping: Callable[[], bool],
    *,
    dry_run: bool,
    go_on: bool,
) -> int:
    from lakekeeper.api import run

    try:
        with setup.progress() as progress:
            report: AutoReport = run(
                spark, tables or None, dry_run=dry_run, observer=progress, stopping=stopping
            )
    except OptionError:
        raise  # it would be as wrong at the next pass
    except Exception as error:
        if not go_on:
            raise
        # A catalog that is down now may be up at the next pass.
        text = next(iter(str(error).splitlines()), "")
        typer.echo(json.dumps({"error": {"type": type(error).__name__, "message": text}}))
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
