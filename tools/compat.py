"""``make compat``: test the wheel on each release line of Spark, in fresh environments; print the results.

    python tools/compat.py                    all release lines
    python tools/compat.py --line 4.0         one release line
    python tools/compat.py --quick            all but the contract of adapters

Each release line gets a virtual environment below ``build/compat`` with the wheel, its PySpark, and the libraries of
the tests. The tests run in a copy of their own, so that the package comes from the wheel and not from the repository.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / "compat"
sys.path.insert(0, str(ROOT))

from lakekeeper.spark.lines import LINES, Line  # noqa: E402 - from the repository, before it is installed

# The Python to test each release line with, so that several versions are covered; if it is missing, the running one.
PYTHONS = {"4.1": "3.13", "4.0": "3.12", "3.5": "3.10"}
# PySpark runs functions on Arrow batches, and so columnar merges, only beside pandas.
FOR_TESTS = (
    "deltalake>=1.6,<2", "hypothesis>=6.150", "pandas>=2.2,<3", "pyiceberg[pyarrow,sql-sqlite]~=0.12.0",
    "pytest>=9,<10", "setuptools<81",
)  # fmt: skip
SLICES = {
    "contract": ("tests/contract/test_delta.py", "tests/iceberg/test_contract.py"),
    "surface": ("tests/formats/test_surface.py", "tests/formats/test_versions.py"),
    "races": ("tests/formats/test_races.py",),
    "vacuum": ("tests/formats/test_vacuum.py",),
    "command": ("tests/spark/test_command.py",),
}
QUICK = ("surface", "races", "vacuum", "command")
_FORMATS = ("delta", "iceberg")


@dataclass
class Count:
    """Results of the tests of one cell of the table."""

    passed: int = 0
    failed: int = 0

    def __str__(self) -> str:
        return (
            f"{self.failed} of {self.passed + self.failed} FAILED" if self.failed else f"{self.passed} passed"
        )


def main() -> int:
    """Test the release lines; 1 if a test failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--line", action="append", choices=[line.name for line in LINES], help="only this release line"
    )
    parser.add_argument("--quick", action="store_true", help="only what takes a few minutes")
    parser.add_argument("--keep", action="store_true", help="use existing environments")
    given = parser.parse_args()
    lines = [line for line in LINES if not given.line or line.name in given.line]
    wheel = build_wheel()
    rows, bad = [], False
    for line in lines:
        python = environment(line, wheel, keep=given.keep)
        what = QUICK if given.quick else tuple(SLICES)
        started = time.monotonic()
        counts, code = run_tests(line, python, what)
        bad |= code != 0 or not counts
        rows += [(line, python_version(python), *cell) for cell in sorted(counts.items())]
        print(f"Spark {line.spark}: {time.monotonic() - started:,.0f} s, pytest returned {code}", flush=True)
    print(table(rows))
    return int(bad)


def build_wheel() -> Path:
    """The wheel of the repository as it is."""
    shutil.rmtree(BUILD / "wheel", ignore_errors=True)
    run(
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        str(BUILD / "wheel"),
        str(ROOT),
    )
    (wheel,) = (BUILD / "wheel").glob("*.whl")
    return wheel


def environment(line: Line, wheel: Path, *, keep: bool) -> Path:
    """The Python of a virtual environment with the wheel and the PySpark of the release line."""
    place = BUILD / line.name
    python = place / "bin" / "python"
    if not (keep and python.exists()):
        shutil.rmtree(place, ignore_errors=True)
        run(interpreter(PYTHONS[line.name]), "-m", "venv", str(place))
    # delta-spark is the Python half of Delta, which the tests of Delta import; its jar is downloaded as for every user.
    pins = (f"pyspark=={line.spark}", f"delta-spark=={line.version('delta')}")
    run(str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *pins, *FOR_TESTS)
    run(str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall", str(wheel))
    run(str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel))
    return python


def interpreter(wanted: str) -> str:
    """A Python of this version if there is one, else the one that runs this."""
    found = shutil.which(f"python{wanted}")
    works = found and subprocess.run([found, "--version"], capture_output=True, check=False).returncode == 0
    return found if found and works else sys.executable


def python_version(python: Path) -> str:
    """Such as ``3.12``."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    return subprocess.run(
        [str(python), "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


def run_tests(line: Line, python: Path, what: tuple[str, ...]) -> tuple[dict[tuple[str, str], Count], int]:
    """(what, format) → results, and pytest's exit code; of parametrized tests, the slice of the day is run."""
    place = BUILD / f"tests-{line.name}"
    shutil.rmtree(place, ignore_errors=True)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "tests", place / "tests", ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", place)
    results = place / "results.xml"
    files = [file for name in what for file in SLICES[name]]
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "pythonpath=."]
    given = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "SPARK_HOME")}
    code = subprocess.run(
        [*command, f"--junitxml={results}", *files], cwd=place, env=given, check=False
    ).returncode
    return (read_results(results) if results.exists() else {}), code


def read_results(file: Path) -> dict[tuple[str, str], Count]:
    """Results by what is tried and format; skipped tests do not count."""
    named = {Path(each).stem: name for name, files in SLICES.items() for each in files}
    named |= {
        f"{Path(each).parent.name}.{Path(each).stem}": name
        for name, files in SLICES.items()
        for each in files
    }
    counts: dict[tuple[str, str], Count] = defaultdict(Count)
    for case in ET.parse(file).iter("testcase"):  # noqa: S314 - pytest wrote it just now
        if case.find("skipped") is not None:
            continue
        place = str(case.get("classname"))
        what = next(name for stem, name in named.items() if stem in place)
        form = next((form for form in _FORMATS if re.search(form, f"{place} {case.get('name')}")), "both")
        count = counts[what, form]
        if case.find("failure") is None and case.find("error") is None:
            count.passed += 1
        else:
            count.failed += 1
    return dict(counts)


def table(rows: list[tuple[Line, str, tuple[str, str], Count]]) -> str:
    """A row for each release line of Spark, format and slice."""
    lines = [f"{'Spark':8}{'Python':8}{'format':9}{'version':9}{'what':10}result"]
    for line, python, (what, form), count in rows:
        version = line.version(form) if form in line.jars else ""
        lines.append(f"{line.spark:8}{python:8}{form:9}{version:9}{what:10}{count}")
    return "\n".join(lines)


def run(*command: str) -> None:
    """Run a program to its end; raises CalledProcessError."""
    subprocess.run(command, check=True)


if __name__ == "__main__":
    sys.exit(main())
