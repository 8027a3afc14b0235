"""The tests of this folder run on demand (-m cluster, make cluster): they take minutes."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "cluster" in str(config.option.markexpr):
        return
    left = [item for item in items if item.path.is_relative_to(Path(__file__).parent)]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in left]
