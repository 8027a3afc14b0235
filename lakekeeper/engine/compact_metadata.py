"""Compacts the metadata that planning opens file by file."""

from __future__ import annotations

from typing import Any

from lakekeeper.core.config.options import Options
from lakekeeper.core.model.report import MetadataReport
from lakekeeper.engine.clock import Clock
from lakekeeper.spi import Adapter


def compact_metadata(
    adapter: Adapter[Any], options: Options, *, dry_run: bool, clock: Clock
) -> MetadataReport:
    """Let the format compact its metadata, or predict it. Raises Unsupported before any write, CommitError after."""
    started_ms = clock.now_ms()
    if not dry_run:
        adapter.require_writable(options)
    done = adapter.storage.compact_metadata(dry_run=dry_run)
    return MetadataReport(
        table=adapter.table,
        dry_run=dry_run,
        files_before=done.files_before,
        files_after=done.files_after,
        version=done.version,
        ended=done.reason,
        duration_ms=clock.now_ms() - started_ms,
    )
