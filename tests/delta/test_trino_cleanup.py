"""Nothing is committed beside a Trino server that deletes live files when one of its statements loses."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import lakekeeper as lk
from lakekeeper.core.config.options import resolve
from lakekeeper.core.planning.changes import Winner
from lakekeeper.errors import AdapterError, Rejected, Unsupported
from lakekeeper.spi import Observer
from lakekeeper_delta.json_commits import LARGE, Commits, commits_between
from lakekeeper_delta.native import Log
from lakekeeper_delta.trino_cleanup import DAY_MS, FIRST, FIXED
from tests.delta.scene import Scene
from tests.observers import once_at

pytestmark = pytest.mark.delta

VECTORS = {"delta.enableDeletionVectors": "true"}
DELETE = "DELETE FROM {t} WHERE id = 7"


def by_trino(scene: Scene, statement: str, version: int, *, hours_ago: float = 0, padding: int = 0) -> None:
    """A statement of Spark, whose commit is then changed into one of Trino's; ``padding``: bytes to add to it."""
    scene.run(statement)
    name = f"{scene.version:020d}.json"
    commit = scene.path / "_delta_log" / name
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    (info,) = (action["commitInfo"] for action in actions if "commitInfo" in action)
    info |= {"clusterId": f"trino-{version}-node1", "userId": "etl", "userName": "etl", "operation": "MERGE"}
    info["timestamp"] -= int(3_600_000 * hours_ago)
    text = "".join(json.dumps(action) + "\n" for action in actions)
    _write(
        commit, text + json.dumps({"txn": {"appId": "x" * padding, "version": 1}}) + "\n" if padding else text
    )


def _write(commit: Path, text: str) -> None:
    commit.write_text(text)
    (commit.parent / f".{commit.name}.crc").unlink(missing_ok=True)


def overlapping(scene: Scene, properties: dict[str, str] | None = None) -> Scene:
    """Three files over the same range."""
    scene.create("id BIGINT, k INT", properties=VECTORS if properties is None else properties)
    for start in (0, 20, 40):
        rows = scene.spark.range(start, start + 20).selectExpr("id", "cast(id % 10 AS int) AS k")
        rows.coalesce(1).write.format("delta").mode("append").save(str(scene.path))
    return scene


def recluster(scene: Scene, **given: Any) -> Any:
    return lk.table(scene.spark, str(scene.path)).recluster("k", policy="full", **given)


def test_nothing_is_written_after_such_a_server_changed_rows(scene: Scene) -> None:
    """Loss L136: a commit of ours made a statement of Trino lose, which then deleted live files."""
    by_trino(overlapping(scene), DELETE, FIXED - 1)
    before, files = scene.version, scene.data_files()
    opened = lk.table(scene.spark, str(scene.path))
    for call in (
        lambda: recluster(scene),
        lambda: opened.compact(options={"min-input-files": 2}),
        lambda: opened.delete("id = 8"),
        lambda: opened.cluster_by("k"),
    ):
        with pytest.raises(Unsupported, match=r"Trino 481 .*29361.*Upgrade Trino to 482.*fixed-trino=true"):
            call()
    assert (scene.version, scene.data_files()) == (before, files)
    assert recluster(scene, dry_run=True).groups
    assert recluster(scene, options={"fixed-trino": True}).commits == 1
    assert len(scene.spark_rows()) == 59
    assert scene.log_rows() == scene.spark_rows()


CALLS: dict[str, Callable[[lk.Table, Observer], object]] = {
    "recluster": lambda table, late: table.recluster(
        "k", policy="full", observer=late, options={"commit.quiet-window-ms": 0}
    ),
    "delete": lambda table, late: table.delete("id = 8", observer=late),
}


@pytest.mark.parametrize("verb", CALLS)
def test_a_statement_during_a_call_ends_it(scene: Scene, verb: str) -> None:
    """Found by the look before the commit: what the call has written is removed, and no commit is made."""
    overlapping(scene)
    before = scene.data_files()
    late = once_at("before_commit", lambda: by_trino(scene, DELETE, FIXED - 6))
    opened = lk.table(scene.spark, str(scene.path))
    with pytest.raises(Rejected, match="Trino 476 changed rows"):
        CALLS[verb](opened, late)
    assert scene.version == 4
    assert scene.data_files() == before
    assert len(scene.spark_rows()) == 59


@pytest.mark.parametrize(
    "statement, version, hours_ago, properties",
    [
        pytest.param(DELETE, FIXED, 0, VECTORS, id="a server with the fix"),
        pytest.param("INSERT INTO {t} VALUES (90, 1)", FIXED - 1, 0, VECTORS, id="an append"),
        pytest.param(DELETE, FIXED - 1, 25, VECTORS, id="25 hours ago"),
        pytest.param(
            DELETE, FIXED - 1, 0, {"delta.enableDeletionVectors": "false"}, id="no deletion vectors"
        ),
    ],
)
def test_other_commits_of_trino_stop_nothing(
    scene: Scene, statement: str, version: int, hours_ago: float, properties: dict[str, str]
) -> None:
    by_trino(overlapping(scene, properties), statement, version, hours_ago=hours_ago)
    assert recluster(scene).commits == 1


def test_the_statement_is_seen_behind_later_appends(scene: Scene) -> None:
    by_trino(overlapping(scene), DELETE, FIXED - 1, hours_ago=23)
    for _ in range(3):
        scene.run("INSERT INTO {t} VALUES (90, 1)")
    with pytest.raises(Unsupported, match="Trino 481"):
        recluster(scene)


@pytest.mark.parametrize("read", [False, True], ids=["unread", "read by a job before"])
def test_a_large_statement_is_seen(scene: Scene, *, read: bool) -> None:
    """Loss L143: the look ended at a commit of more than 1 MiB, which a statement on a thousand files makes."""
    by_trino(overlapping(scene), DELETE, FIXED - 1, padding=LARGE)
    if read:
        commits_between(scene.log(), scene.version - 1, scene.version)
    with pytest.raises(Unsupported, match="Trino 481"):
        recluster(scene)


def test_the_statement_is_seen_behind_a_large_commit(scene: Scene) -> None:
    by_trino(overlapping(scene), DELETE, FIXED - 1)
    by_trino(scene, "INSERT INTO {t} VALUES (90, 1)", FIXED, padding=LARGE)
    with pytest.raises(Unsupported, match="Trino 481"):
        recluster(scene)


def test_a_large_commit_that_does_not_begin_like_one_of_trino_is_not_read(scene: Scene) -> None:
    """Other writers put the ``commitInfo`` last; all lines of a commit of 10⁶ files would be read for it."""
    by_trino(overlapping(scene), DELETE, FIXED - 1, padding=LARGE)
    commit = scene.path / "_delta_log" / f"{scene.version:020d}.json"
    lines = commit.read_text().splitlines()
    _write(commit, "".join(f"{line}\n" for line in sorted(lines, key=lambda line: "commitInfo" in line)))
    assert recluster(scene).commits == 1


def test_a_process_sees_all_commits_since_its_last_look(scene: Scene) -> None:
    """Beyond the number of commits that the first look reads."""
    overlapping(scene)
    assert recluster(scene).commits == 1
    by_trino(scene, DELETE, FIXED - 1)
    for _ in range(FIRST + 1):
        scene.run("INSERT INTO {t} VALUES (90, 1)")
    with pytest.raises(Unsupported, match="Trino 481"):
        recluster(scene)


@pytest.mark.parametrize("verb", ["delete", "undo"])
def test_a_statement_on_other_files_ends_a_call(scene: Scene, verb: str) -> None:
    """Loss L144: a call that commits on top of the version that it has searched looked for Trino only up to there."""
    scene.create("id BIGINT, k INT, p INT", more="PARTITIONED BY (p)", properties=VECTORS)
    for start, p in ((0, 1), (20, 1), (40, 2)):
        rows = scene.spark.range(start, start + 20).selectExpr("id", "cast(id % 10 AS int) AS k", f"{p} AS p")
        rows.coalesce(1).write.format("delta").mode("append").save(str(scene.path))
    opened = lk.table(scene.spark, str(scene.path))
    [run] = opened.recluster("k", policy="full", where="p = 1").run_ids if verb == "undo" else [""]
    late = once_at(
        "before_commit", lambda: by_trino(scene, "DELETE FROM {t} WHERE p = 2 AND id = 47", FIXED - 6)
    )
    calls: dict[str, Callable[[], object]] = {
        "undo": lambda: opened.undo(run, observer=late),
        "delete": lambda: opened.delete("p = 1 AND id = 28", observer=late),
    }
    with pytest.raises(Rejected, match="Trino 476 changed rows"):
        calls[verb]()
    assert len(scene.spark_rows()) == 59


def test_a_look_that_fails_is_repeated(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loss L154: commits that could not be read just before the commit counted as none by such a server."""
    overlapping(scene)
    read = Commits.newest_first
    failed: list[bool] = []

    def once(self: Commits, log: Log, *given: Any) -> Iterator[Winner]:
        if not failed:
            failed.append(True)
            raise OSError("503 Slow Down")
        return read(self, log, *given)

    def late() -> None:
        by_trino(scene, DELETE, FIXED - 6)
        monkeypatch.setattr(Commits, "newest_first", once)

    opened = lk.table(scene.spark, str(scene.path))
    with pytest.raises(Rejected, match="Trino 476 changed rows"):
        opened.delete("id = 8", observer=once_at("before_commit", late))
    assert failed
    assert scene.version == 4


def test_a_log_that_cannot_be_read_is_an_error(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    overlapping(scene)

    def down(*_: Any) -> Iterator[Winner]:
        raise OSError("503 Slow Down")

    monkeypatch.setattr(Commits, "newest_first", down)
    with pytest.raises(
        AdapterError, match=r"newest commits cannot be read .*503 Slow Down.*nothing was committed"
    ):
        scene.adapter().require_writable(resolve())


def test_no_commit_is_read_if_the_table_is_idle(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    overlapping(scene)
    adapter = scene.adapter()
    adapter.require_writable(resolve())
    later = time.time_ns() + 2 * DAY_MS * 1_000_000
    monkeypatch.setattr("lakekeeper_delta.trino_cleanup.time.time_ns", lambda: later)
    monkeypatch.setattr("lakekeeper_delta.trino_cleanup.commits_of", None)
    adapter.require_writable(resolve())
