"""The report of a call that lets a format compact its metadata; tests on real tables cover the formats' part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from lakekeeper.core.config.options import Options, resolve
from lakekeeper.core.model.reason import Reason
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.compact_metadata import compact_metadata
from lakekeeper.errors import Unsupported
from lakekeeper.spi.storage import MetadataChange


@dataclass
class Manifests:
    """An adapter whose table has 40 metadata files, which become 2."""

    writable: bool = True
    table: str = "db.t"
    compacted: int = 0

    @property
    def storage(self) -> Manifests:
        return self

    def require_writable(self, _: Options) -> None:
        if not self.writable:
            raise Unsupported(self.table, "a second driver")

    def compact_metadata(self, *, dry_run: bool) -> MetadataChange:
        self.compacted += not dry_run
        why = Reason.of("merged", "{before:count file} became {after}", before=40, after=2)
        return MetadataChange(40, 2, None if dry_run else 7, why)


def run(adapter: Any, *, dry_run: bool = False) -> Any:
    times = iter((1_000, 1_250))
    clock = Clock(now_ms=lambda: next(times), wait=lambda _: None)
    return compact_metadata(adapter, resolve(), dry_run=dry_run, clock=clock)


def test_the_report_has_the_formats_result_and_the_duration() -> None:
    report = run(Manifests())
    assert (report.table, report.version, report.changed, report.duration_ms) == ("db.t", 7, True, 250)
    assert str(report) == "db.t: 40 files became 2; metadata files: 40 -> 2"
    assert report.to_dict()["ended"]["facts"] == {"before": 40, "after": 2}


def test_a_dry_run_writes_nothing_and_needs_no_permission_to_write() -> None:
    adapter = Manifests(writable=False)
    report = run(adapter, dry_run=True)
    assert (adapter.compacted, report.changed, report.version) == (0, False, None)
    assert "metadata files would be: 40 -> 2" in str(report)


def test_a_table_that_must_not_be_written_is_left_alone() -> None:
    adapter = Manifests(writable=False)
    with pytest.raises(Unsupported, match="a second driver"):
        run(adapter)
    assert adapter.compacted == 0
