"""Options of statistics."""

from __future__ import annotations

from dataclasses import dataclass

from lakekeeper.core.config.option import option


@dataclass(frozen=True, slots=True)
class StatisticsOptions:
    """Statistics."""

    min_changed_ratio: float = option(
        "statistics.min-changed-ratio",
        0.1,
        "Statistics of an Iceberg table are computed again once this share of its rows was added or deleted since. "
        "0: for each snapshot. Delta Lake keeps statistics for each file; only missing ones are computed.",
        unit="of the table's rows",
        low=0.0,
        high=1.0,
        scope="higher",
    )
