"""Options of vacuum: what it retains, and how fast it deletes."""

from __future__ import annotations

from dataclasses import dataclass

from lakekeeper.core.config.option import option
from lakekeeper.core.units import DAY_MS, HOUR_MS

_YEAR_MS = 365 * DAY_MS


@dataclass(frozen=True, slots=True)
class VacuumOptions:
    """Vacuum: what it retains, and how fast it deletes."""

    retention_ms: int | None = option(
        "retention-hours",
        None,
        "Vacuum retains the versions that were current within this time. `none`: as the table's own properties say, "
        "else 7 days for Delta and 5 days for Iceberg.",
        unit="hours",
        low=0,
        scope="higher",
    )
    retain_last: int = option(
        "retain-last",
        1,
        "Minimum number of versions that vacuum retains.",
        unit="versions",
        low=1,
        scope="higher",
    )
    max_share: float = option(
        "vacuum.max-share",
        0.5,
        "Vacuum stops before it deletes anything if unexplained files (orphans, and what failed runs left) are more "
        "than this share of the table.",
        unit="of the table's bytes",
        low=0.0,
        high=1.0,
        scope="lower",
    )
    allowed_locations: tuple[str, ...] = option(
        "vacuum.allowed-locations",
        (),
        "Path prefixes outside the table's own location in which its files may be listed and deleted. Properties "
        "such as `write.data.path` allow nothing by themselves.",
        scope="session",
    )
    max_batch: int = option(
        "vacuum.max-batch-delete-size",
        1_000,
        "Maximum number of files in one delete request.",
        unit="files",
        low=1,
        high=100_000,
        scope="lower",
    )
    max_concurrent_deletes: int = option(
        "vacuum.max-concurrent-deletes",
        4,
        "Maximum number of partitions whose files are deleted at the same time.",
        unit="partitions",
        low=1,
        high=256,
        scope="lower",
    )
    max_deletes_per_second: int | None = option(
        "vacuum.max-deletes-per-second",
        None,
        "Maximum number of files deleted per second, so that queries keep their share of the storage. `none`: no "
        "limit.",
        unit="files",
        low=1,
        high=1_000_000,
        scope="lower",
    )
    lease_timeout_ms: int = option(
        "vacuum.intent-timeout-hours",
        DAY_MS,
        "Time after which the registration of a run that does not renew it expires. The run then commits nothing more, "
        "vacuum no longer retains the version that it read, and deletes the files that it left once "
        "`vacuum.orphan-grace-hours` have passed as well.",
        unit="hours",
        low=HOUR_MS,
        high=_YEAR_MS,
        scope="higher",
    )
    orphan_grace_ms: int = option(
        "vacuum.orphan-grace-hours",
        3 * DAY_MS,
        "Minimum age of an orphan, a file that no version names, before vacuum deletes it. A younger one may belong "
        "to a commit in progress.",
        unit="hours",
        low=DAY_MS,
        high=_YEAR_MS,
        scope="higher",
    )
    trash_retention_ms: int = option(
        "vacuum.trash-retention-hours",
        7 * DAY_MS,
        "Time that files stay in the trash before they are deleted for good.",
        unit="hours",
        low=HOUR_MS,
        high=10 * _YEAR_MS,
        scope="higher",
    )
    sink_retention_ms: int = option(
        "vacuum.sink-retention-hours",
        30 * DAY_MS,
        "Time after its last commit within which a stream that writes into an Iceberg table (Flink, Kafka Connect, "
        "Spark) can restart. Until then, vacuum retains the snapshots in which it looks up what it has committed, and, "
        "on both formats, files that no version references and that it may yet commit. 0: no longer than others.",
        unit="hours",
        low=0,
        high=10 * _YEAR_MS,
        scope="higher",
    )
    streaming_checkpoints: tuple[str, ...] = option(
        "vacuum.streaming-checkpoints",
        (),
        "Checkpoint folders of the streams that read the table. Vacuum retains the versions that they have yet to "
        "read.",
        scope="session",
    )
