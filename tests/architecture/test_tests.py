"""Tests use public names, import no other test, and mirror the modules that they test."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "tests").rglob("*.py"))
Rule = Callable[[Iterable[ast.AST]], Iterator[str]]
_LOOKED_AT = (ast.Attribute, ast.Call, ast.Import, ast.ImportFrom, ast.Tuple)

OF_OTHERS = {
    "_jvm": "PySpark's way to the JVM",
    "_jsc": "the same",
    "_jdf": "the same",
    "_jsparkSession": "the same",
    "_gateway": "the same",
    "_gateway_client": "py4j's connection, whose calls are guarded",
    "_initialize_context": "where PySpark makes its context",
    "_replace": "of named tuples",
    "_repr_html_": "the protocol of notebooks",
    "_spec_id": "pyiceberg's own writers set it",
    "_exit": "the end of a process",
}
"""Underscored names that belong to other packages."""

_PATCHES = {"setattr", "delattr", "getattr", "patch", "object"}


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """The nodes of a file that the rules check."""
    return tuple(node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, _LOOKED_AT))


@cache
def private(name: str) -> bool:
    """Whether a name, or the last step of a dotted one, is private."""
    last = name.rpartition(".")[2]
    return last.isidentifier() and re.match(r"_[^_]", last) is not None and last not in OF_OTHERS


def private_attributes(found: Iterable[ast.AST]) -> Iterator[str]:
    for node in found:
        if isinstance(node, ast.Attribute) and private(node.attr):
            own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            if not own:
                yield f"line {node.lineno}: .{node.attr}"


def private_imports(found: Iterable[ast.AST]) -> Iterator[str]:
    for node in found:
        if isinstance(node, ast.ImportFrom):
            yield from (f"line {node.lineno}: import {a.name}" for a in node.names if private(a.name))


def patched_private_names(found: Iterable[ast.AST]) -> Iterator[str]:
    """Names in calls that patch or look up by name, and in the (owner, name, replacement) of a seeded bug."""
    for node in found:
        names: list[ast.expr] = []
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            names = node.args[:2] if called in _PATCHES else []
        elif (
            isinstance(node, ast.Tuple) and len(node.elts) == 3 and not isinstance(node.elts[0], ast.Constant)
        ):
            names = node.elts[1:2]
        for name in names:
            if isinstance(name, ast.Constant) and isinstance(name.value, str) and private(name.value):
                yield f"line {name.lineno}: {name.value!r}"


def imported_tests(found: Iterable[ast.AST]) -> Iterator[str]:
    for node in found:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests"):
            modules = [node.module or "", *(alias.name for alias in node.names)]
        elif isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names if alias.name.startswith("tests")]
        else:
            continue
        if any(module.rpartition(".")[2].startswith("test_") for module in modules):
            yield f"line {node.lineno}: {', '.join(modules)}"


@pytest.mark.parametrize("rule", [private_attributes, private_imports, patched_private_names, imported_tests])
def test_all_tests_keep_the_rule(rule: Rule) -> None:
    broken = {str(path.relative_to(ROOT)): list(rule(nodes(path))) for path in FILES}
    assert {path: found for path, found in broken.items() if found} == {}
    assert len(broken) > 200


@pytest.mark.parametrize(
    "rule, source",
    [
        (private_attributes, "lk.table(spark, name)._adapter.snapshot()"),
        (private_attributes, "real = Committer._rebased"),
        (private_imports, "from lakekeeper_delta.commit_times import _times"),
        (patched_private_names, "monkeypatch.setattr(jvm, '_LOCAL', frozenset())"),
        (patched_private_names, "monkeypatch.setattr('lakekeeper.spark.jvm._LOCAL', frozenset())"),
        (patched_private_names, "with patch.object(adapter, '_table', faulty): pass"),
        (patched_private_names, "with patch('lakekeeper_iceberg.commit._kinds', list): pass"),
        (patched_private_names, "bug = [(Committer, '_settle', settle)]"),
        (imported_tests, "from tests.delta.test_refused import ENTRIES"),
        (imported_tests, "from tests.delta import test_refused"),
        (imported_tests, "import tests.delta.test_refused"),
    ],
)
def test_a_planted_violation_is_found(rule: Rule, source: str) -> None:
    assert len(list(rule(ast.walk(ast.parse(source))))) == 1


@pytest.mark.parametrize("source", ["self._table", "spark._jvm", "state._replace(left=1)", "x.__dict__"])
def test_a_name_that_is_not_private_to_another_module_passes(source: str) -> None:
    assert list(private_attributes(ast.walk(ast.parse(source)))) == []


ELSEWHERE = {
    "core/model/result_frame.py": "spark/test_result_frame.py",
    # rendered text: golden files compare it line by line, or the test of the value does
    "core/cost/advice_text.py": "core/cost/test_key_advisor.py",
    "core/layout/clustering_info_text.py": "core/test_goldens.py",
    "core/layout/clustering_info_html.py": "core/test_notebooks.py",
    "core/model/plan_html.py": "core/test_notebooks.py",
    "core/model/report_html.py": "core/test_notebooks.py",
    "core/model/plan_text.py": "core/test_goldens.py",
    "core/vacuum/vacuum_text.py": "engine/vacuum/test_job.py",
    # what all policies have in common
    "core/planning/level_groups.py": "core/planning/policies/test_deletes.py",
    "core/planning/policy.py": "core/planning/test_planner.py",
    # values without behaviour of their own
    "core/config/lifecycle_options.py": "core/config/test_option.py",
    "core/config/statistics_options.py": "core/config/test_option.py",
    "core/config/layout_options.py": "core/config/test_option.py",
    "core/config/run_options.py": "core/config/test_option.py",
    "core/config/vacuum_options.py": "core/config/test_option.py",
    "core/config/removed.py": "core/config/test_options.py",
    "core/model/finding.py": "spark/test_doctor.py",
    "core/model/plan.py": "core/planning/test_plan_properties.py",
    "core/model/plan_table.py": "core/cost/test_prediction.py",
    "core/model/report.py": "engine/merge/test_committer.py",
    "core/units.py": "core/test_goldens.py",
    "core/vacuum/vacuum_report.py": "engine/vacuum/test_job.py",
    "core/vacuum/streams_report.py": "engine/vacuum/test_sinks.py",
    "engine/clock.py": "engine/test_commit_loop.py",
    "engine/merge/request.py": "engine/merge/test_job.py",
    "engine/merge/tally.py": "engine/merge/test_committer.py",
    # parts that only show in the whole to which they belong
    "core/cost/partition_pruning.py": "core/planning/policies/test_adaptive.py",
    "core/cost/read_model.py": "core/cost/test_workload_reads.py",
    "core/cost/unfiltered_keys.py": "core/planning/policies/test_adaptive.py",
    "core/layout/adjacency.py": "core/test_goldens.py",
    "core/scheduling/auto_report.py": "engine/test_sweep.py",
    "engine/auto_settings.py": "engine/test_service.py",
    "engine/table_turn.py": "engine/test_sweep.py",
    "core/workload/plan_scans.py": "engine/test_event_log.py",
    "engine/advise.py": "core/cost/test_key_advisor.py",
    "engine/merge/boundary_store.py": "scenarios/test_curves.py",
    "engine/merge/commit_parts.py": "scenarios/test_hours.py",
    "engine/merge/planning.py": "scenarios/test_placed.py",
}
"""Modules without a test module of their own, and where their tests are."""


def untested(modules: list[Path], tests: set[Path]) -> list[str]:
    """Modules of a package that have no test module at the same place below ``tests``, and no entry in the list."""
    return [
        str(module)
        for module in modules
        if module.parent / f"test_{module.name}" not in tests and str(module) not in ELSEWHERE
    ]


def _below(root: Path, *folders: str) -> list[Path]:
    return sorted(
        path.relative_to(root)
        for folder in folders
        for path in (root / folder).rglob("*.py")
        if path.stem != "__init__"
    )


def test_each_module_of_the_core_and_the_engine_has_its_test_module() -> None:
    modules = _below(ROOT / "lakekeeper", "core", "engine")
    tests = set(_below(ROOT / "tests", "core", "engine"))
    assert untested(modules, tests) == []
    assert untested([Path("core/model/planted.py")], tests) == ["core/model/planted.py"]


def test_the_list_of_modules_that_are_tested_elsewhere_is_true() -> None:
    modules = set(_below(ROOT / "lakekeeper", "core", "engine"))
    assert [name for name in ELSEWHERE if Path(name) not in modules] == []
    assert [place for place in ELSEWHERE.values() if not (ROOT / "tests" / place).is_file()] == []
    own = [
        name for name in ELSEWHERE if (ROOT / "tests" / name).with_name(f"test_{Path(name).name}").exists()
    ]
    assert own == [], "these have a test module of their own now"
