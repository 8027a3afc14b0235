"""Which tables' scan tasks are cached. No JVM."""

from __future__ import annotations

import pytest

from lakekeeper_iceberg.planning import kept_tasks


@pytest.mark.parametrize("gib, files", [(1, 50_000), (8, 262_144), (32, 1_048_576)])
def test_a_driver_with_memory_plans_a_large_table_once(gib: int, files: int) -> None:
    """Loss L17."""
    assert kept_tasks(gib << 30) == files
