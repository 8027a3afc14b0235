"""The plan of a vacuum: order, batches, spared files and the brake, all on values."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.reason_code import Code
from lakekeeper.core.units import HOUR_MS
from lakekeeper.core.vacuum.path_guard import Grounds
from lakekeeper.core.vacuum.retention import Kept, Ref, Version, Versions
from lakekeeper.core.vacuum.vacuum_plan import (
    Dead,
    Doomed,
    FileInfo,
    Garbage,
    VacuumPlan,
    batches,
    brake,
    by_partition,
    digest,
    plan_vacuum,
    proof,
)
from lakekeeper.core.vacuum.vacuum_report import VacuumReport
from lakekeeper.errors import RetentionError

GROUNDS = Grounds(("file:/t",), ("metadata",))
VERSIONS = Versions("u", (Version(1, 0), Version(2, 1, 1)), (Ref("main", 2),), False, HOUR_MS, live_bytes=100)
KEPT = Kept({2: Reason.of(Code.NEWEST_VERSION)}, (1,), (), HOUR_MS, 0)


def planned(*dead: Dead, live: int | None = 100, **more: Any) -> VacuumPlan:
    """A plan over files of 10 bytes each; a name with ``missing`` or ``link`` makes the file that."""
    found = {
        d.path: None if "missing" in d.path else FileInfo(d.path, 10, 1, link="link" in d.path) for d in dead
    }
    versions = replace(VERSIONS, live_bytes=live)
    garbage = Garbage(dead, outside=more.pop("outside", ()))
    return plan_vacuum("t", versions, KEPT, garbage, found, GROUNDS, **more)


def dead(path: str, kind: str = "data", order: int = 1, partition: str = "") -> Dead:
    return Dead(path, kind, order, order, partition)


def test_oldest_first_and_each_file_once() -> None:
    plan = planned(dead("/t/c", order=3), dead("/t/b", order=1), dead("/t/a", order=1), dead("/t/c", order=2))
    assert [f.path for f in plan.files] == ["/t/a", "/t/b", "/t/c"]
    assert plan.bytes == 30
    assert plan.by_kind() == {"data": (3, 30)}


def test_one_reason_more_is_not_several() -> None:
    kept = {n: Reason.of(Code.TAG, name=str(n)) for n in range(9)}
    assert "and 1 more reason\n" in f"{replace(planned(), kept=kept)}\n"


def test_the_command_that_restores_is_one_for_a_shell() -> None:
    table = "ice.db.`my-table`"
    report = VacuumReport(table, False, 1, deleted_files_count=1, trash="abc")
    assert f"restore with: lakekeeper trash restore '{table}' abc\n" in str(report)


def test_files_that_must_not_be_deleted_are_spared_with_the_reason() -> None:
    plan = planned(
        dead("/t/a"),
        dead("/t/../u/x"),
        dead("/etc/passwd"),
        dead("/t/metadata/x.avro"),
        dead("/t/metadata/m.avro", "manifest"),
        dead("/t/link"),
        dead("/t/missing"),
        dead("/t/used"),
        outside=("s3://other/x",),
        spared={"/t/used": "db.clone uses it"},
    )
    assert [f.path for f in plan.files] == ["/t/a", "/t/metadata/m.avro"]
    assert plan.spared == {
        "s3://other/x": "it is outside the table's location",
        "/t/../u/x": "its path has steps that are not plain names",
        "/etc/passwd": "it is outside the table's location",
        "/t/metadata/x.avro": "it is in metadata, from which this step deletes nothing",
        "/t/link": "it is reached through a symbolic link",
        "/t/used": "db.clone uses it",
    }
    assert plan.gone_before == 1
    text = str(plan)
    assert "/etc/passwd: it is outside" in text
    assert "already gone: 1 file" in text
    assert "1 version kept, 1 expired" in text


def stray(path: str) -> Dead:
    """A file that the log does not explain."""
    return Dead(path, "orphan", -1, 9, logged=False)


def test_the_brake_weighs_files_that_the_log_does_not_explain_and_refuses_when_unsure() -> None:
    half = [stray(f"/t/{i}") for i in range(10)]
    brake(planned(*half), 0.5)  # 100 of 200 bytes
    with pytest.raises(
        RetentionError,
        match=r"11 files of 110 bytes that the log does not explain would be deleted, 52% of the table's bytes",
    ) as refused:
        brake(planned(*half, stray("/t/x")), 0.5)
    assert "options={'vacuum.max-share': 1}" in str(refused.value)
    assert "--option vacuum.max-share=1" in str(refused.value)
    brake(planned(*half, stray("/t/x")), 1.0)
    brake(planned(*half, replace(stray("/t/metadata/m"), kind="manifest")), 0.5)
    with pytest.raises(RetentionError, match="not known"):
        brake(planned(stray("/t/a"), live=None), 0.5)
    brake(planned(live=None), 0.5)
    with pytest.raises(RetentionError):
        brake(planned(stray("/t/a"), live=0), 0.99)


def test_the_brake_ignores_garbage_that_the_log_names() -> None:
    plan = planned(*(dead(f"/t/{i}") for i in range(99)), live=None)
    brake(plan, 0.0)
    assert (len(plan.files), plan.unexplained) == (99, ())


def doomed(version: int, count: int, partition: str = "", kind: str = "data") -> list[Doomed]:
    return [Doomed(f"/t/{partition}{version}-{i}", kind, 1, version, partition) for i in range(count)]


def test_batches_end_with_a_version_once_they_are_large_enough() -> None:
    files = [*doomed(1, 2), *doomed(2, 3), *doomed(3, 1), *doomed(4, 9)]
    cut = [[f.version for f in batch] for batch in batches(files, least=4, most=6)]
    # 1 and 2 make 5: enough; 3 alone is too few, so 4 joins it, up to the maximum
    assert cut == [[1, 1, 2, 2, 2], [3, 4, 4, 4, 4, 4], [4, 4, 4, 4]]


@given(st.lists(st.integers(1, 5), max_size=60), st.integers(1, 10), st.integers(1, 10))
def test_batches_hold_all_files_in_order_and_are_never_too_large(
    versions: list[int], least: int, most: int
) -> None:
    files = [f for i, v in enumerate(sorted(versions)) for f in doomed(v, 1, str(i))]
    cut = list(batches(files, least, most))
    assert [f for batch in cut for f in batch] == files
    assert all(1 <= len(batch) <= most for batch in cut)


def test_partitions_are_separate_and_metadata_is_last() -> None:
    files = [
        *doomed(1, 1, "a=1"),
        *doomed(1, 1, "a=2"),
        *doomed(2, 1, "a=1"),
        *doomed(0, 1, "a=1", "manifest"),
    ]
    parts = by_partition(files)
    assert [[f.version for f in part] for part in parts.values()] == [[1, 2], [1], [0]]


def test_the_proof_has_a_range_for_consecutive_versions_of_a_reason() -> None:
    """With a commit in ten seconds and a retention of seven days, its 60,480 entries were 8 MB in each vacuum."""
    within, newest = Reason.of(Code.WITHIN_RETENTION, branch="main"), Reason.of(Code.NEWEST_VERSION)
    kept = dict.fromkeys((*range(100, 60580), 7, 9, 10), within) | {300: newest}
    text = proof(replace(planned(), kept=kept, gone=(1, 2, 3, 5)), "run", 7)
    record = json.loads(text)
    assert len(text) < 2_000
    assert record["gone"] == ["1-3", "5"]
    assert record["kept"] == [
        {**within.to_dict(), "versions": ["7", "9-10", "100-299", "301-60579"]},
        {**newest.to_dict(), "versions": ["300"]},
    ]


def test_the_proof_lists_what_was_examined_and_what_will_be_deleted() -> None:
    plan = planned(dead("/t/b"), dead("/t/a"), dead("/t/metadata/m", "manifest"))
    record = json.loads(proof(plan, "run", 7))
    assert (record["run_id"], record["at_ms"], record["files"], record["bytes"]) == ("run", 7, 3, 30)
    assert record["kept"] == [{**Reason.of(Code.NEWEST_VERSION).to_dict(), "versions": ["2"]}]
    assert record["gone"] == ["1"]
    assert record["by_kind"] == {"data": [2, 20], "manifest": [1, 10]}
    assert record["sha256"] == digest(["/t/metadata/m", "/t/a", "/t/b"])
    assert digest(["a"]) != digest(["b"])
    plain = json.loads(json.dumps(plan.to_dict()))
    assert [f["path"] for f in plain["files"]] == ["/t/a", "/t/b", "/t/metadata/m"]
