"""Another engine's vacuum, such as Trino's, which deletes each old file that the newest version does not reference."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from tests.formats.lakes import Lake

DAY = 86_400


def files_of(lake: Lake, name: str) -> Iterator[Path]:
    """All files below the table's location except the format's own metadata."""
    home = lake.home(name)
    for path in home.rglob("*"):
        if path.is_file() and path.relative_to(home).parts[0] not in ("_delta_log", "metadata"):
            yield path


def foreign_vacuum(lake: Lake, name: str, days: int = 7) -> int:
    """Delete unreferenced files older than the retention; return how many."""
    named = {Path(row.path).name for row in lake.table(name).blocks().select("path").collect()}
    old = [
        path
        for path in files_of(lake, name)
        if path.name not in named and path.stat().st_mtime < time.time() - days * DAY
    ]
    for path in old:
        path.unlink()
    return len(old)


def test_files_in_the_trash_survive_it(lake: Lake) -> None:
    """Findings on engines, 2.4."""
    name = lake.overlapping(3, 50)
    table = lake.table(name)
    table.cluster_by("k")
    version, rows = lake.versions(name)[-1], lake.fingerprint(name)
    assert table.recluster(policy="full").changed
    month_ago = time.time() - 30 * DAY
    for path in files_of(lake, name):
        os.utime(path, (month_ago, month_ago))
    report = table.vacuum(
        trash=True, retention_hours=0, allow_unsafe_retention=True, options={"vacuum.max-share": 1}
    )
    assert report.deleted_files_count >= 3
    foreign_vacuum(lake, name)
    table.restore(report.trash)
    assert lake.fingerprint(name, version) == lake.fingerprint(name) == rows


def test_a_table_without_its_notes_still_works(lake: Lake) -> None:
    name = lake.overlapping(3, 50)
    table = lake.table(name)
    table.cluster_by("k", "id", layout="hilbert")
    rows = lake.fingerprint(name)
    assert table.recluster(policy="full").changed
    shutil.rmtree(lake.home(name) / "_lakekeeper")
    again = lake.table(name)
    assert lake.fingerprint(name) == rows
    again.recluster()
    lake.append(name, lake.spark.table(name).limit(5))
    after = lake.fingerprint(name)
    assert again.recluster(policy="full").changed
    assert lake.fingerprint(name) == after
