"""Adapters and policies are found by name, and what is missing is said with what to install."""

from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints
from typing import Any

import pytest

from lakekeeper.engine import plugins
from lakekeeper.errors import AdapterError, OptionError


def _installed(monkeypatch: pytest.MonkeyPatch, *found: tuple[str, str]) -> None:
    points = EntryPoints(EntryPoint(name, value, plugins.ADAPTERS) for name, value in found)

    def entry_points(**wanted: Any) -> EntryPoints:
        return points.select(**wanted)

    monkeypatch.setattr(plugins, "entry_points", entry_points)


def test_policies_come_in_the_order_asked_for() -> None:
    assert [p.name for p in plugins.find_policies(["sizes", "ranges"])] == ["sizes", "ranges"]


def test_an_unknown_policy_names_the_nearest() -> None:
    with pytest.raises(
        OptionError,
        match=r"adaptive, deletes, full, peaks, ranges, sizes, universal \(did you mean 'ranges'\?\)",
    ):
        plugins.find_policies(["rnages"])


def test_a_format_of_ours_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    _installed(monkeypatch, ("iceberg", "lakekeeper_iceberg:FORMAT"))
    with pytest.raises(
        AdapterError, match=r"db\.t: no adapter for format 'delta'.*lakekeeper-spark\[delta\]"
    ):
        plugins.find_format("delta", "db.t")


def test_a_foreign_format_names_the_formats_that_there_are() -> None:
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
