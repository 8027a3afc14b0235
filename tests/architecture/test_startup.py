"""Importing lakekeeper, or showing the help of its command, starts nothing and does not load Spark."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["lakekeeper", "lakekeeper.cli"])
def test_pyspark_is_not_imported(module: str) -> None:
    program = f"import sys, {module}; print([m for m in ('pyspark', 'py4j', 'pandas') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
