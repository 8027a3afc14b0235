"""Recognition of files that only Delta writers make: by folder, name and kind. Pure text, for table-driven tests.

writer       file name
Spark        part-00000-<uuid>.c000.snappy.parquet    cdc-00000-<uuid>.c000.snappy.parquet
delta-rs     part-00000-<uuid>-c000.snappy.parquet
Flink        part-<uuid>-0.snappy.parquet
Trino        20260102_030405_00006_abcde-<uuid>
all          deletion_vector_<uuid>.bin

Spark names files of plain Parquet tables like Delta's: these names count only in folders that a writer of this table
makes: of a partition, a random prefix, the change data feed, or a run.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from lakekeeper.core.model.run_folders import LEVEL_FOLDERS, is_run_folder

_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_CODEC = r"(?:\.(?:snappy|gz|lzo|br|lz4|lz4raw|lz4_raw|zstd))?"
_NAMES = re.compile(
    rf"(?:part|cdc)-\d{{5,}}-{_UUID}[.-]c\d{{3,}}{_CODEC}\.parquet"
    rf"|part-{_UUID}-\d+{_CODEC}\.parquet"
    rf"|\d{{8}}_\d{{6}}_\d{{5}}_[a-z0-9]{{5}}-{_UUID}"
    rf"|deletion_vector_{_UUID}\.bin"
)
_CHANGES = "_change_data"
_LEVEL = re.compile(LEVEL_FOLDERS)


@dataclass(frozen=True, slots=True)
class Folders:
    """Folders that a table's writers make: of its partition columns, of random prefixes of this length (0: none)."""

    columns: Collection[str] = ()
    prefix: int = 0

    def has(self, step: str) -> bool:
        """Whether a step of a path is such a folder."""
        if step == _CHANGES or is_run_folder(step):
            return True
        column, equals, _ = step.partition("=")
        if equals and column in self.columns:
            return True
        return len(step) == self.prefix and step.isascii() and step.isalnum()


def recognised(path: str, folders: Folders) -> bool:
    """Whether a Delta writer made the file. ``path`` is relative to the table, and decoded."""
    *steps, name = path.split("/")
    if steps and is_run_folder(steps[0]) and _LEVEL.fullmatch("/".join(steps[1:3])):
        del steps[1:3]
    return _NAMES.fullmatch(name) is not None and all(map(folders.has, steps))
