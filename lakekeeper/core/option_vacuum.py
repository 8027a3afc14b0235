"""Options of vacuum; part of :mod:`lakekeeper.core.option_table`."""

from __future__ import annotations

from lakekeeper.core.option import Option

VACUUM_OPTIONS: tuple[Option, ...] = (
    Option(
        "auto.max-concurrent-tables",
        int,
        1,
        "tables",
        "How many tables automatic runs maintain side by side.",
        1,
        256,
        scope="session",
    ),
    Option(
        "retention-hours",
        float,
        -1.0,
        "hours",
        "Versions that were the newest within this time are kept; -1: what the table itself says, else 168 (Delta) or "
        "120 (Iceberg).",
        -1,
        876_000,
    ),
    Option("retain-last", int, 1, "versions", "The least number of versions that are kept.", 1, 1 << 31),
    Option(
        "vacuum.max-share",
        float,
        0.5,
        "of the table's bytes",
        "A vacuum that would delete more than this stops and says so.",
        0.0,
        1.0,
    ),
    Option(
        "vacuum.min-batch-delete-size",
        int,
        100,
        "files",
        "A batch of deletes goes on to the next version until it has so many.",
        1,
        100_000,
    ),
    Option("vacuum.max-batch-delete-size", int, 1_000, "files", "The most files in one delete.", 1, 100_000),
    Option(
        "vacuum.max-concurrent-deletes",
        int,
        4,
        "partitions",
        "Partitions whose files are deleted side by side.",
        1,
        256,
    ),
    Option(
        "vacuum.max-deletes-per-second",
        int,
        0,
        "files",
        "The most files deleted in a second, so that queries keep their share of the storage; 0: no limit.",
        0,
        1_000_000,
    ),
    Option(
        "vacuum.intent-timeout-hours",
        float,
        24.0,
        "hours",
        "A rewrite that registered longer ago is taken for dead: what it read is no longer kept for it, and what it "
        "left is looked for. It commits nothing after that.",
        1,
        8_760,
    ),
    Option(
        "vacuum.orphan-grace-hours",
        float,
        72.0,
        "hours",
        "Files that no version names are left alone until they are this old: somebody may be writing them.",
        24,
        8_760,
    ),
    Option(
        "vacuum.trash-retention-hours",
        float,
        168.0,
        "hours",
        "How long files stay in the recycle bin before they are deleted for good.",
        1,
        87_600,
    ),
    Option(
        "vacuum.streaming-checkpoints",
        str,
        "",
        "",
        "Checkpoint folders of streams that read the table, comma-separated: versions they have yet to read are kept.",
    ),
)
