"""``make compat``: test the wheel on each release line of Spark, in fresh environments; print the results.

    python tools/compat.py                    all release lines
    python tools/compat.py --line 4.0         one release line
    python tools/compat.py --quick            a few tests
    python tools/compat.py --tryout           only as a new user (make tryout)

Each release line gets a virtual environment below ``build/compat`` with the wheel and its PySpark. First it is tried as
by a new user (``tests/wheel``): the commands of the pages, in an empty folder. Then the libraries of the tests are
added, and the tests run in a copy of their own, so that the package comes from the wheel and not from the repository.
Every case of them runs, unless ``LAKEKEEPER_SAMPLE`` names a day; ``--quick`` runs the slice of the day.
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
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from lakekeeper.spark.lines import LINES, Line  # noqa: E402 - from the repository, before it is installed
from tests.sampling import ALL, VARIABLE  # noqa: E402 - the same
from tools.environments import (  # noqa: E402 - the same
    BUILD,
    add_libraries,
    build_wheel,
    environment,
    python_version,
)

Results = dict[tuple[str, str], "Count"]
TRYOUT = {name: (f"tests/wheel/test_{name}.py",) for name in ("quickstart", "hive", "rest", "submit")}
SLICES = {
    "contract": ("tests/contract/test_delta.py", "tests/iceberg/test_contract.py"),
    "surface": ("tests/formats/test_surface.py", "tests/formats/test_versions.py"),
    "columnar": (
        "tests/columnar/test_merge.py",
        "tests/columnar/test_nested.py",
        "tests/columnar/test_infinite.py",
    ),
    "matching": ("tests/spark/test_row_match.py",),
    "races": ("tests/formats/test_races.py",),
    "vacuum": ("tests/formats/test_vacuum.py",),
    "command": ("tests/spark/test_command.py", "tests/cli/test_help.py"),
    "sql": ("tests/spark/test_result_frame.py", "tests/spark/test_called_in_text.py"),
}
EVERY_CASE = {VARIABLE: os.environ.get(VARIABLE, ALL)}
QUICK = ("surface", "columnar", "races", "vacuum", "command", "sql")
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
    some = parser.add_mutually_exclusive_group()
    some.add_argument("--quick", action="store_true", help="only what takes a few minutes")
    some.add_argument("--tryout", action="store_true", help="only what a new user tries")
    parser.add_argument("--keep", action="store_true", help="use existing environments")
    given = parser.parse_args()
    lines = [line for line in LINES if not given.line or line.name in given.line]
    wheel = build_wheel()
    rows, bad = [], False
    for line in lines:
        python = environment(line, wheel, keep=given.keep)
        parts = [] if given.quick else [try_out(line, python)]
        if not given.tryout:
            add_libraries(line, python)
            what, more = (QUICK, {}) if given.quick else (tuple(SLICES), EVERY_CASE)
            parts.append(run_tests(line, python, what, more))
        for counts, code in parts:
            bad |= code != 0 or not counts
            rows += [(line, python_version(python), *cell) for cell in counts.items()]
    print(table(rows))
    return int(bad)


def try_out(line: Line, python: Path) -> tuple[Results, int]:
    """(part, format) → results of a new user, and pytest's exit code; the tests run here, their commands there."""
    results = BUILD / f"tryout-{line.name}.xml"
    results.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "-m", "wheel", "-p", "no:cacheprovider", "tests/wheel"]
    place = str(python.parents[1])
    return _timed(line, [*command, f"--junitxml={results}"], ROOT, {"LAKEKEEPER_USER_ENVIRONMENT": place})


def run_tests(
    line: Line, python: Path, what: tuple[str, ...], more: Mapping[str, str]
) -> tuple[Results, int]:
    """(what, format) → results, and pytest's exit code, with ``more`` in the environment."""
    place = BUILD / f"tests-{line.name}"
    shutil.rmtree(place, ignore_errors=True)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "tests", place / "tests", ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", place)
    files = [file for name in what for file in SLICES[name]]
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "pythonpath=."]
    command += ["-W", "ignore::DeprecationWarning"]  # the oldest libraries call what newer ones deprecate
    return _timed(line, [*command, f"--junitxml={place / 'results.xml'}", *files], place, more)


def _timed(line: Line, command: list[str], folder: Path, more: Mapping[str, str]) -> tuple[Results, int]:
    """Run pytest; its results and exit code."""
    results = next(Path(word.partition("=")[2]) for word in command if word.startswith("--junitxml="))
    given = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "SPARK_HOME")}
    started = time.monotonic()
    code = subprocess.run(command, cwd=folder, env=given | dict(more), check=False).returncode
    print(f"Spark {line.spark}: {time.monotonic() - started:,.0f} s, pytest returned {code}", flush=True)
    return (read_results(results) if results.exists() else {}), code


def read_results(file: Path) -> Results:
    """Results by what is tried and format; skipped tests do not count."""
    slices = {**SLICES, **TRYOUT}
    named = {Path(each).stem: name for name, files in slices.items() for each in files}
    named |= {
        f"{Path(each).parent.name}.{Path(each).stem}": name
        for name, files in slices.items()
        for each in files
    }
    counts: Results = defaultdict(Count)
    for case in ET.parse(file).iter("testcase"):  # noqa: S314 - pytest wrote it just now
        if case.find("skipped") is not None:
            continue
        place = f"{case.get('classname')} {case.get('name')}"  # a module that fails to import is named by the latter
        what = next((name for stem, name in named.items() if stem in place), "other")
        form = next((form for form in _FORMATS if re.search(form, place)), "both")
        form = "both" if what in TRYOUT else form
        count = counts[what, form]
        if case.find("failure") is None and case.find("error") is None:
            count.passed += 1
        else:
            count.failed += 1
    return dict(sorted(counts.items()))


def table(rows: list[tuple[Line, str, tuple[str, str], Count]]) -> str:
    """A row for each release line of Spark, format and slice."""
    lines = [f"{'Spark':8}{'Python':8}{'format':9}{'version':9}{'what':12}result"]
    for line, python, (what, form), count in rows:
        version = line.version(form) if form in line.jars else ""
        lines.append(f"{line.spark:8}{python:8}{form:9}{version:9}{what:12}{count}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
