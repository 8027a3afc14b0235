"""The settings of automatic runs, checked and unpacked from options."""

from __future__ import annotations

from dataclasses import dataclass, field
from zoneinfo import ZoneInfo

from lakekeeper.core.config.options import Options
from lakekeeper.core.config.run_options import HeavyOptions
from lakekeeper.core.scheduling.quiet_hours import EXAMPLES, QuietHours, parse_quiet_hours
from lakekeeper.errors import OptionError


@dataclass(frozen=True, slots=True)
class AutoSettings:
    """From confs: the tables (names or patterns), the verbs in order, the seconds between passes, the tables at once.

    quiet_hours            when nothing is started
    heavy                  the Spark application of heavy tasks
    budget_*               limits on all tables together, in bytes rewritten and in core-seconds; None: no limit
    """

    tables: tuple[str, ...]
    verbs: tuple[str, ...]
    pause_seconds: float
    at_once: int = 1
    quiet_hours: tuple[QuietHours, ...] = ()
    budget_bytes: int | None = None
    budget_bytes_per_day: int | None = None
    budget_core_seconds: int | None = None
    budget_core_seconds_per_day: int | None = None
    alert_command: str | None = None
    heavy: HeavyOptions = field(default_factory=HeavyOptions)


def settings_from(options: Options) -> AutoSettings:
    """Check and unpack the ``auto.*`` options; raises OptionError naming what is missing or wrong."""
    auto = options.auto
    if not auto.tables:
        raise OptionError(
            "auto.tables", "", "table names or patterns, e.g. ice.db.*; set spark.lakekeeper.auto.tables"
        )
    return AutoSettings(
        tables=auto.tables,
        verbs=auto.verbs,
        pause_seconds=auto.every_ms / 1000,
        at_once=auto.max_concurrent_tables,
        quiet_hours=tuple(map(_quiet_hours, auto.quiet_hours)),
        budget_bytes=auto.budget_bytes,
        budget_bytes_per_day=auto.budget_bytes_per_day,
        budget_core_seconds=auto.budget_core_seconds,
        budget_core_seconds_per_day=auto.budget_core_seconds_per_day,
        alert_command=auto.alert_command,
        heavy=options.heavy,
    )


def _quiet_hours(text: str) -> QuietHours:
    try:
        window = parse_quiet_hours(text)
        ZoneInfo(window.zone)
    except (ValueError, OSError, KeyError):  # an unknown zone is a KeyError
        raise OptionError("auto.quiet-hours", text, f"days, hours and a time zone, e.g. {EXAMPLES}") from None
    return window
