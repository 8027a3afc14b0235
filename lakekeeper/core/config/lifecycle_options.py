"""Options of the lifecycle rule of a table."""

from __future__ import annotations

from dataclasses import dataclass

from lakekeeper.core.config.option import option
from lakekeeper.core.units import DAY_MS


@dataclass(frozen=True, slots=True)
class LifecycleOptions:
    """Lifecycle: rows that expire. There is a rule where both options are set."""

    column: str | None = option(
        "lifecycle.column",
        None,
        "Column with the date or time from which the age of a row counts. Rows with NULL do not expire.",
    )
    retain_ms: int | None = option(
        "lifecycle.retain",
        None,
        "Age at which `expire_rows` deletes a row, in whole days of UTC: a row goes at the end of the day on which it "
        "reaches this age. `none`: rows do not expire.",
        unit="time",
        low=DAY_MS,
        high=36_500 * DAY_MS,
        scope="higher",
        none_is_greatest=True,
    )
