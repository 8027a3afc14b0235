"""The import contracts hold, and each of them breaks on a planted violation.

A contract that cannot break protects nothing: a wrong module name in it would stay unnoticed.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_VERDICT = re.compile(r"^(.+?) (KEPT|BROKEN)", re.MULTILINE)
_LINT = "import sys; from importlinter.cli import lint_imports_command as lint; sys.exit(lint(sys.argv[1:]))"

# Contract id, its name, the module that breaks it, the import that does.
VIOLATIONS = [
    ("layers", "1 imports run one way", "lakekeeper/core/model/keys.py", "import lakekeeper.spi"),
    ("layers", "1 imports run one way", "lakekeeper/spi/adapter.py", "import lakekeeper.engine"),
    ("layers", "1 imports run one way", "lakekeeper/api.py", "import lakekeeper.cli"),
    ("layers", "1 imports run one way", "lakekeeper/arguments.py", "import lakekeeper.api"),
    ("layers", "1 imports run one way", "lakekeeper/opening.py", "import lakekeeper.fleet"),
    ("layers", "1 imports run one way", "lakekeeper/workloads.py", "import lakekeeper.opening"),
    ("layers", "1 imports run one way", "lakekeeper/dropped_tables.py", "import lakekeeper.statements"),
    ("layers", "1 imports run one way", "lakekeeper/errors.py", "from lakekeeper.core.model import blocks"),
    (
        "core-layers",
        "1 inside the core",
        "lakekeeper/core/model/plan.py",
        "import lakekeeper.core.cost.prediction",
    ),
    (
        "core-layers",
        "1 inside the core",
        "lakekeeper/core/layout/depth.py",
        "import lakekeeper.core.planning.planner",
    ),
    (
        "planning-layers",
        "1 inside planning",
        "lakekeeper/core/planning/policy.py",
        "import lakekeeper.core.planning.policies.full",
    ),
    (
        "engine-layers",
        "1 inside the engine",
        "lakekeeper/engine/merge/job.py",
        "def late():\n    import lakekeeper.engine.vacuum.job",
    ),
    (
        "acyclic",
        "1 no package has a circle",
        "lakekeeper/core/model/keys.py",
        "import lakekeeper.core.model.blocks",
    ),
    (
        "acyclic",
        "1 no package has a circle",
        "adapters/lakekeeper_delta/locations.py",
        "import lakekeeper_delta.table",
    ),
    ("pure-core", "2 the core is pure", "lakekeeper/core/model/plan.py", "import time"),
    ("pure-core", "2 the core is pure", "lakekeeper/core/layout/depth.py", "from os import environ"),
    ("pure-core", "2 the core is pure", "lakekeeper/core/planning/policies/ranges.py", "import pyspark.sql"),
    ("pure-core", "2 the core is pure", "lakekeeper/core/model/blocks.py", "def draw():\n    import random"),
    (
        "pure-core",
        "2 the core is pure",
        "lakekeeper/core/workload/workload.py",
        "from zoneinfo import ZoneInfo",
    ),
    ("no-formats", "3 lakekeeper knows no format", "lakekeeper/api.py", "import lakekeeper_delta"),
    (
        "no-formats",
        "3 lakekeeper knows no format",
        "lakekeeper/spark/session.py",
        "from pyiceberg import table",
    ),
    ("adapters", "4 adapters import", "adapters/lakekeeper_delta/__init__.py", "from lakekeeper import api"),
    ("adapters", "4 adapters import", "adapters/lakekeeper_iceberg/__init__.py", "import lakekeeper.engine"),
    (
        "adapters",
        "4 adapters import",
        "adapters/lakekeeper_delta/__init__.py",
        "from lakekeeper.spark import session",
    ),
    (
        "adapters-apart",
        "4 adapters do not",
        "adapters/lakekeeper_iceberg/__init__.py",
        "import lakekeeper_delta",
    ),
    ("spark-free-engine", "5 the engine is free", "lakekeeper/engine/__init__.py", "import pyspark"),
    (
        "spark-free-engine",
        "5 the engine is free",
        "lakekeeper/engine/__init__.py",
        "import lakekeeper.spark.jvm",
    ),
    ("engine-free-spark", "5 spark is free", "lakekeeper/spark/jvm.py", "import lakekeeper.engine"),
]


def _lint(tree: Path, *contracts: str) -> dict[str, str]:
    """Verdict by contract name, as the command line tool gives it for the sources in ``tree``."""
    limits = [part for contract in contracts for part in ("--contract", contract)]
    done = subprocess.run(
        [sys.executable, "-c", _LINT, "--config", "pyproject.toml", "--no-cache", *limits],
        cwd=tree,
        # The copies win over the installed project.
        env=os.environ | {"PYTHONPATH": f"{tree}{os.pathsep}{tree / 'adapters'}", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    verdicts = dict(_VERDICT.findall(done.stdout))
    assert verdicts, done.stdout + done.stderr
    assert (done.returncode == 0) is (set(verdicts.values()) == {"KEPT"}), done.stdout + done.stderr
    return verdicts


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources and their configuration; a test that changes it restores it."""
    root = tmp_path_factory.mktemp("sources")
    unwanted = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in ("lakekeeper", "adapters"):
        shutil.copytree(ROOT / name, root / name, ignore=unwanted)
    shutil.copy(ROOT / "pyproject.toml", root)
    return root


def test_all_contracts_are_kept(tree: Path) -> None:
    verdicts = _lint(tree)
    assert set(verdicts.values()) == {"KEPT"}
    assert {name[0] for name in verdicts} == set("12345")


@pytest.mark.sampled
@pytest.mark.parametrize(
    "contract, name, module, sin", VIOLATIONS, ids=[f"{v[0]}: {v[2]} {v[3].split()[-1]}" for v in VIOLATIONS]
)
def test_a_planted_violation_breaks_its_contract(
    tree: Path, contract: str, name: str, module: str, sin: str
) -> None:
    path = tree / module
    assert path.exists(), f"{module} has moved; plant the violation elsewhere"
    before = path.read_text()
    path.write_text(f"{before}\n\n{sin}\n")
    try:
        verdicts = _lint(tree, contract)
    finally:
        path.write_text(before)
    assert [(found[: len(name)], verdict) for found, verdict in verdicts.items()] == [(name, "BROKEN")]


@pytest.mark.parametrize(
    "package, contract",
    [
        ("lakekeeper", "layers"),
        ("lakekeeper/core", "core-layers"),
        ("lakekeeper/core/planning", "planning-layers"),
        ("lakekeeper/engine", "engine-layers"),
    ],
)
def test_a_module_in_no_layer_breaks_the_layers(tree: Path, package: str, contract: str) -> None:
    (tree / package / "stray.py").write_text('"""Belongs nowhere."""\n')
    assert list(_lint(tree, contract).values()) == ["BROKEN"]


def test_the_core_reads_no_clock() -> None:
    """The contract allows `datetime` as a type; this test finds calls of its clocks."""
    clocks = {"now", "utcnow", "today"}
    calls = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sorted((ROOT / "lakekeeper" / "core").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in clocks
    ]
    assert calls == []


def test_importing_lakekeeper_starts_nothing() -> None:
    """``import lakekeeper`` is cheap: no PySpark, no format, no JVM."""
    heavy = ("pyspark", "py4j", "delta", "pyiceberg")
    code = f"import sys, lakekeeper; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
