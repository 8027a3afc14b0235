"""Outputs that another engine removed as orphans, as Trino's remove_orphan_files may, are not committed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lakekeeper.errors import Rejected
from tests.formats.lakes import Lake


def location(lake: Lake, name: str) -> Path:
    rows = lake.spark.sql(f"DESCRIBE TABLE EXTENDED {name}").where("col_name = 'Location'").collect()
    return Path(str(rows[0].data_type).removeprefix("file:"))


def test_outputs_that_are_gone_are_not_committed(lake: Lake) -> None:
    """Findings on engines, 2.5: such a table could not be read any more."""
    name = lake.overlapping(4, 200)
    table = lake.table(name)
    table.cluster_by("k")
    rows, versions = lake.fingerprint(name), lake.versions(name)

    def remove(phase: str, _: Mapping[str, Any]) -> None:
        if phase == "before_commit":
            outputs = [path for path in location(lake, name).rglob("*.parquet") if "/lk" in str(path)]
            assert outputs
            for path in outputs:
                path.unlink()

    with pytest.raises(Rejected, match="new files are gone: "):
        table.recluster(observer=remove)
    assert lake.versions(name) == versions
    assert lake.fingerprint(name) == rows
    assert table.recluster().changed
    assert lake.fingerprint(name) == rows
