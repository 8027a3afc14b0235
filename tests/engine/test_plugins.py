"""Adapters and policies are found by name, and errors say what to install for a missing one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pytest

from lakekeeper.core.config.options import resolve
from lakekeeper.core.planning.planner import make_plan
from lakekeeper.core.planning.policies.sizes import SIZES
from lakekeeper.core.planning.policy import Env
from lakekeeper.engine import plugins
from lakekeeper.engine.plugins import find_policies
from lakekeeper.errors import AdapterError, OptionError
from lakekeeper.testing.drawing import parse_blocks, parse_key


def _installed(monkeypatch: pytest.MonkeyPatch, *found: tuple[str, str]) -> None:
    points = EntryPoints(EntryPoint(name, value, plugins.ADAPTERS) for name, value in found)

    def entry_points(**wanted: Any) -> EntryPoints:
        return points.select(**wanted)

    monkeypatch.setattr(plugins, "entry_points", entry_points)
    plugins.known_entry_points.cache_clear()


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    """Removes what a test installed."""
    yield
    plugins.known_entry_points.cache_clear()


def test_a_package_that_is_installed_later_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    _installed(monkeypatch)
    with pytest.raises(AdapterError, match="no adapter for format 'delta' is installed"):
        plugins.find_format("delta", "db.t")
    points = EntryPoints([EntryPoint("delta", "lakekeeper_delta:FORMAT", plugins.ADAPTERS)])
    monkeypatch.setattr(plugins, "entry_points", points.select)
    assert plugins.find_format("delta", "db.t").name == "delta"


def test_policies_come_in_the_given_order() -> None:
    assert [p.name for p in plugins.find_policies(["sizes", "ranges"])] == ["sizes", "ranges"]


def test_an_unknown_policy_names_the_nearest() -> None:
    with pytest.raises(
        OptionError,
        match=r"adaptive, deletes, full, peaks, ranges, sizes, universal \(did you mean 'ranges'\?\)",
    ):
        plugins.find_policies(["rnages"])


def test_a_format_with_an_adapter_of_ours_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    _installed(monkeypatch, ("iceberg", "lakekeeper_iceberg:FORMAT"))
    with pytest.raises(
        AdapterError, match=r"db\.t: no adapter for format 'delta'.*lakekeeper-spark\[delta\]"
    ):
        plugins.find_format("delta", "db.t")


def test_an_unknown_format_names_the_installed_ones() -> None:
    with pytest.raises(AdapterError, match=r"'parquet' is installed \(installed: delta, iceberg\)") as raised:
        plugins.find_format("parquet", "db.t")
    assert "[parquet]" not in str(raised.value)


def test_an_adapter_that_does_not_load_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    _installed(monkeypatch, ("delta", "lakekeeper_no_such_package:FORMAT"))
    with pytest.raises(AdapterError, match=r"lakekeeper_no_such_package.*lakekeeper-spark\[delta\]"):
        plugins.find_format("delta", "db.t")


def test_two_packages_for_one_format_are_both_named(monkeypatch: pytest.MonkeyPatch) -> None:
    _installed(monkeypatch, ("delta", "one:FORMAT"), ("delta", "two:FORMAT"))
    with pytest.raises(AdapterError, match=r"one:FORMAT, two:FORMAT"):
        plugins.find_format("delta", "db.t")


BLOCKS = """\
L0 a 1--2 10MB part=p=1
L0 b 1--2 10MB part=p=1
L0 c 1--2 10MB part=p=2
L0 d 1--2 10MB part=p=2
"""


THEIRS = """
from dataclasses import dataclass
from lakekeeper.core.model.plan import Skip
from lakekeeper.core.model.reason import Reason

@dataclass(frozen=True)
class Lazy:
    name: str = "lazy"
    def choose(self, snapshot, candidates, options, env):
        return [Skip(candidates, Reason.of("sleeping", "due in {wait_ms:ms}", wait_ms=7_200_000))]

LAZY = Lazy()
"""


def test_a_third_party_package_is_found_by_its_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result of installing it: a module, and a metadata folder that names the entry point."""
    (tmp_path / "lazy_policy.py").write_text(THEIRS)
    info = tmp_path / "lazy_policy-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lazy-policy\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[lakekeeper.policies]\nlazy = lazy_policy:LAZY\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        lazy, sizes = find_policies(["lazy", "sizes"])
        assert sizes is SIZES
        plan = make_plan(parse_blocks(BLOCKS, parse_key("k:int")), [lazy], resolve(), Env())
        assert [(left.reason.code, str(left.reason)) for left in plan.left] == [
            ("sleeping", "due in 2 hours")
        ]
        with pytest.raises(OptionError, match="did you mean 'lazy'"):
            find_policies(["lasy"])
    finally:
        sys.modules.pop("lazy_policy", None)
