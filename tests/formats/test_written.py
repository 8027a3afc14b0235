"""Outputs that another engine deleted as orphans, as Trino's remove_orphan_files may, are not committed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from lakekeeper.errors import Rejected
from tests.formats.lakes import Lake


def test_missing_outputs_are_not_committed(lake: Lake) -> None:
    """Findings on engines, 2.5: such a table could no longer be read."""
    name = lake.overlapping(4, 200)
    table = lake.table(name)
    table.cluster_by("k")
    rows, versions = lake.fingerprint(name), lake.versions(name)

    def remove(phase: str, _: Mapping[str, Any]) -> None:
        if phase == "before_commit":
            outputs = [path for path in lake.home(name).rglob("*.parquet") if "/lk" in str(path)]
            assert outputs
            for path in outputs:
                path.unlink()

    with pytest.raises(Rejected, match="new files are gone: "):
        table.recluster(observer=remove)
    assert lake.versions(name) == versions
    assert lake.fingerprint(name) == rows
    assert table.recluster().changed
    assert lake.fingerprint(name) == rows
