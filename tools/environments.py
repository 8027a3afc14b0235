"""A wheel of the repository as it is, and an environment for each release line of Spark, below ``build/compat``.

An environment has what a user installs, the wheel and PySpark; `add_libraries` adds what the tests import.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / "compat"
sys.path.insert(0, str(ROOT))

from lakekeeper.spark.lines import NEWEST, Line  # noqa: E402 - from the repository, before it is installed

# The Python to test each release line with, so that several versions are covered; if it is missing, the running one.
PYTHONS = {"4.1": "3.13", "4.0": "3.12", "3.5": "3.10"}
OLDEST = "3.5"  # the line with the oldest libraries that pyproject.toml admits; the others get the newest
FOR_TESTS = (
    "deltalake>=1.6,<2", "hypothesis>=6.150", "pyiceberg[pyarrow,sql-sqlite]~=0.12.0", "pytest>=9,<10",
    "setuptools<81",
)  # fmt: skip


def build_wheel() -> Path:
    """The wheel of the repository as it is."""
    place = BUILD / "wheel"
    shutil.rmtree(place, ignore_errors=True)
    run(*_pip(sys.executable), "wheel", "--quiet", "--no-deps", "--wheel-dir", str(place), str(ROOT))
    (wheel,) = place.glob("*.whl")
    return wheel


def environment(line: Line, wheel: Path, *, keep: bool = False) -> Path:
    """The Python of a virtual environment with the wheel and the PySpark of the line, installed as the pages say.

    An environment that is kept gets the new wheel, and still has what was added to it.
    """
    place = BUILD / line.name
    python = place / "bin" / "python"
    if not (keep and python.exists()):
        shutil.rmtree(place, ignore_errors=True)
        run(interpreter(PYTHONS[line.name]), "-m", "venv", str(place))
    else:
        run(*_pip(python), "uninstall", "--quiet", "--yes", "lakekeeper-spark")
    wanted = [f"{wheel}[spark,delta,iceberg]"] if line == NEWEST else [str(wheel), f"pyspark=={line.spark}"]
    run(*_pip(python), "install", "--quiet", *wanted, *oldest(line))
    return python


def add_libraries(line: Line, python: Path) -> None:
    """Install what the tests import beside the wheel."""
    # delta-spark is the Python half of Delta, which the tests of Delta import; its jar is downloaded as for every user.
    pins = (f"pyspark=={line.spark}", f"delta-spark=={line.version('delta')}")
    run(*_pip(python), "install", "--quiet", *pins, *oldest(line), *FOR_TESTS)


def oldest(line: Line) -> list[str]:
    """The requirements that pin the package's dependencies to the versions that it admits first, on one line."""
    text = (ROOT / "pyproject.toml").read_text().partition("\ndependencies = [")[2].partition("]")[0]
    floors = re.findall(r'^ *"([\w-]+)>=([\d.]+)', text, re.MULTILINE)
    return [f"{name}=={floor}.*" for name, floor in floors] if line.name == OLDEST else []


def interpreter(wanted: str) -> str:
    """A Python of this version if there is one, else the one that runs this."""
    found = shutil.which(f"python{wanted}")
    works = found and subprocess.run([found, "--version"], capture_output=True, check=False).returncode == 0
    return found if found and works else sys.executable


def python_version(python: Path) -> str:
    """Such as ``3.12``."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def run(*command: str) -> None:
    """Run a program to its end; raises CalledProcessError."""
    subprocess.run(command, check=True)


def _pip(python: Path | str) -> tuple[str, ...]:
    return (str(python), "-m", "pip", "--disable-pip-version-check")
