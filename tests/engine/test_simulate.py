"""Simulations of an existing table: they change nothing in it."""

from __future__ import annotations

import pytest

from lakekeeper.engine.simulate import Course, simulate_table
from lakekeeper.errors import OptionError
from tests.engine.scene import groups_apart, overlapping


def test_the_commits_of_a_table_are_replayed_and_nothing_is_changed() -> None:
    scene = overlapping(batches=12)
    found = []
    scene.untouched(
        lambda: found.append(simulate_table(scene.adapter, scene.request("full"), Course(every=4)))
    )
    report = found[0]
    assert (report.commits, report.ingested_files, report.tasks) == (12, 12, 3)
    assert report.ingested_bytes == int(scene.adapter.snapshot().blocks.bytes.sum())
    assert report.write_amplification == pytest.approx((4 + 8 + 12) / 12, rel=0.05)
    assert report.key == "(k)"
    assert report.depth_at_end < report.course.untouched[-1]


def test_more_commits_continue_from_the_current_table() -> None:
    scene = groups_apart()
    scene.run("full")
    scene.table.append([{"k": 5, "v": "a"}, {"k": 900, "v": "b"}])
    scene.table.append([{"k": 7, "v": "a"}, {"k": 950, "v": "b"}])
    report = simulate_table(scene.adapter, scene.request("ranges"), Course(commits=20))
    assert (report.commits, report.ingested_files) == (20, 20)
    assert report.files_at_end > 0
    assert "commits like its last 2" in report.ingest


def test_a_stream_takes_the_options_of_the_table() -> None:
    scene = overlapping()
    course = Course(stream="wide", commits=20)
    report = simulate_table(scene.adapter, scene.request("ranges"), course)
    assert report.ingested_bytes == 20 * 1024, "files of the target size"


@pytest.mark.parametrize("wrong", [{"every": 0}, {"commits": -1}, {"commits": 10**6}])
def test_counts_out_of_range_are_named(wrong: dict[str, int]) -> None:
    with pytest.raises(OptionError, match=next(iter(wrong))):
        Course(**wrong)  # type: ignore[arg-type]  # counts only


def test_a_table_of_merged_blocks_only_has_no_history() -> None:
    scene = overlapping()
    scene.run("full")
    with pytest.raises(
        OptionError, match=r"the name of a stream, since .* too few commits to replay: files of 0"
    ):
        simulate_table(scene.adapter, scene.request(), Course())
