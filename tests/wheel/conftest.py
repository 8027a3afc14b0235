"""The tests of this folder run on demand (make tryout): each command starts Spark.

``LAKEKEEPER_USER_ENVIRONMENT`` names a virtual environment with the wheel and a PySpark; ``tools/compat.py`` makes it.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from lakekeeper.spark.lines import required_line
from tests.wheel.user import User


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "wheel" in str(config.option.markexpr):
        return
    left = [item for item in items if item.path.is_relative_to(Path(__file__).parent)]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in left]


@pytest.fixture
def user(tmp_path: Path) -> User:
    """A user in an empty folder, who has the wheel and not the repository."""
    place = Path(os.environ["LAKEKEEPER_USER_ENVIRONMENT"]).resolve()
    script = "import pyspark; print(pyspark.__version__)"
    done = subprocess.run(
        [str(place / "bin" / "python"), "-c", script], capture_output=True, text=True, check=True
    )
    (tmp_path / "empty").mkdir()
    found = User(tmp_path / "empty", place, required_line(done.stdout.strip()))
    owner = found.run(
        "python -c 'import lakekeeper, lakekeeper_delta as d; print(lakekeeper.__file__, d.__file__)'"
    )
    assert all(Path(path).is_relative_to(place) for path in owner.out.split()), owner
    assert found.run("python -c 'import tests'").code == 1
    return found
