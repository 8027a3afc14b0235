"""``lakekeeper auto``: passes over many tables, until it is stopped.

On the first SIGTERM or SIGINT, work in progress is committed and nothing more is started; a second one interrupts: jobs
are cancelled, and uncommitted work is discarded.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from lakekeeper.cli.metrics import Watched, metrics_handler
from lakekeeper.cli.output import say
from lakekeeper.cli.page_server import PageSettings, ServicePages, page_handler
from lakekeeper.cli.server import serving
from lakekeeper.cli.setup import Setup
from lakekeeper.core.config.options import Options
from lakekeeper.engine.alert import Alerts
from lakekeeper.engine.auto_settings import AutoSettings, settings_from
from lakekeeper.engine.merge.backoff import Backoffs
from lakekeeper.engine.watch import Watch
from lakekeeper.errors import OptionError, reason
from lakekeeper.recording import FleetMemory, session_store
from lakekeeper.redaction import without_user
from lakekeeper.spark.application import has_ended
from lakekeeper.spark.interrupts import INTERRUPTED, current

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakekeeper.heavy.lane import Lane


def repeat(
    setup: Setup,
    tables: tuple[str, ...],
    *,
    every: str | None,
    once: bool,
    dry_run: bool,
    metrics: str | None = None,
    page: PageSettings | None = None,
) -> int:
    """Run passes with a pause between them; the exit code of the last one, or 130 if a signal cut it short.

    Returns too when Spark has ended: its supervisor starts the service again, with a new application.

    ``metrics`` is the address of the metrics, which programs read; ``page`` has the settings of the page for people.
    """
    page = page or PageSettings(None)
    page.check()
    given: dict[str, Any] = {"auto.tables": tables or None, "auto.every": every}
    options = setup.check(given)
    settings = settings_from(options)
    if not setup.silent:
        _say(f"lakekeeper auto: {', '.join(map(without_user, settings.tables))}; {', '.join(settings.verbs)}")
    watched = Watched(settings.pause_seconds)
    pages = ServicePages(page, watched, Watch(), options.history, int(settings.pause_seconds * 1000))
    with (
        serving("--metrics", metrics, metrics_handler(watched)) as served,
        serving("--ui", page.address, page_handler(pages)) as shown,
    ):
        if served and not setup.silent:
            _say("lakekeeper auto: metrics at http://{}:{}/metrics".format(*served))
        if shown and not setup.silent:
            _say("lakekeeper auto: page at http://{}:{}/".format(*shown))
        return _passes(setup, options, settings, pages, once=once, dry_run=dry_run)


def _passes(
    setup: Setup,
    options: Options,
    settings: AutoSettings,
    pages: ServicePages,
    *,
    once: bool,
    dry_run: bool,
) -> int:
    from lakekeeper import fleet

    spark = setup.session()
    memory = FleetMemory(session_store(spark, options.history))
    backoffs = None if once else Backoffs.between(settings.pause_seconds)
    alerts = Alerts(settings.alert_command)
    with current().draining() as stopped, fleet.heavy_lane(spark, settings) as lane:
        service = _Service(setup, spark, settings, memory, pages.watched, pages.watch, alerts, backoffs, lane)
        while True:
            code, whole = service.one_pass(stopped.is_set, dry_run=dry_run)
            if not whole and stopped.is_set():
                return INTERRUPTED
            if not whole or (code and not once and has_ended(spark)):
                _say(
                    "lakekeeper auto: Spark has ended, so that every further pass would fail; start it again"
                )
                return code or 1
            if once or stopped.wait(settings.pause_seconds):
                return code


@dataclass(frozen=True)
class _Service:
    """State shared by all passes; ``backoffs`` carries lost races to the next pass, and is None for a single pass."""

    setup: Setup
    spark: SparkSession
    settings: AutoSettings
    memory: FleetMemory
    watched: Watched
    watch: Watch
    alerts: Alerts
    backoffs: Backoffs | None
    lane: Lane | None

    def one_pass(self, stopping: Callable[[], bool], *, dry_run: bool) -> tuple[int, bool]:
        """Run one pass: its exit code, and whether every table was processed."""
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
                    memory=self.memory,
                    over=lambda: has_ended(self.spark),
                    watch=self.watch,
                    lane=self.lane,
                )
        except OptionError:
            raise  # the option would be invalid in the next pass too
        except Exception as error:
            if self.backoffs is None:
                raise
            # A catalog that does not respond now may respond in the next pass.
            text = reason(error)
            self.watched.failed(text)
            _print_line(json.dumps({"error": {"type": text.partition(":")[0], "message": text}}))
            _say(f"lakekeeper auto: {text}")
            return 1, True
        self.watched.ended(report)
        if not dry_run and not has_ended(self.spark):  # else what failed, failed with Spark
            self.alerts.after(report)
        _print_line(report.to_json())
        if not setup.silent and not setup.as_json:
            _say(str(report))
        return report.exit_code, not report.cut_short


def _print_line(text: str) -> None:
    """Print a line on stdout. A disk that is full may have room at the next pass; a reader that has left ends us."""
    try:
        typer.echo(text)
    except BrokenPipeError:
        raise
    except OSError as error:
        _say(f"lakekeeper auto: a line on stdout is lost: {reason(error)}")


def _say(text: str) -> None:
    """Print on stderr, which may be on the same full disk."""
    try:
        say(text, err=True)
    except BrokenPipeError:
        raise
    except OSError:
        return  # the message is lost, the service goes on
