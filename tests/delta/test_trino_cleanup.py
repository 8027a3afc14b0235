"""Nothing is committed beside a Trino server that deletes live files when one of its statements loses."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

import lakekeeper as lk
from lakekeeper.core.config.options import resolve
from lakekeeper.errors import Rejected, Unsupported
from lakekeeper.spi import Observer
from lakekeeper_delta.trino_cleanup import DAY_MS, FIXED
from tests.delta.scene import Scene
from tests.observers import once_at

pytestmark = pytest.mark.delta

VECTORS = {"delta.enableDeletionVectors": "true"}
DELETE = "DELETE FROM {t} WHERE id = 7"


def by_trino(scene: Scene, statement: str, version: int, *, hours_ago: float = 0) -> None:
    """A statement of Spark, whose commit is then changed into one of Trino's."""
    scene.run(statement)
    name = f"{scene.version:020d}.json"
    commit = scene.path / "_delta_log" / name
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    (info,) = (action["commitInfo"] for action in actions if "commitInfo" in action)
    info |= {"clusterId": f"trino-{version}-node1", "userId": "etl", "userName": "etl", "operation": "MERGE"}
    info["timestamp"] -= int(3_600_000 * hours_ago)
    commit.write_text("".join(json.dumps(action) + "\n" for action in actions))
    (commit.parent / f".{name}.crc").unlink(missing_ok=True)


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


def test_no_commit_is_read_if_the_table_is_idle(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    overlapping(scene)
    adapter = scene.adapter()
    adapter.require_writable(resolve())
    later = time.time_ns() + 2 * DAY_MS * 1_000_000
    monkeypatch.setattr("lakekeeper_delta.trino_cleanup.time.time_ns", lambda: later)
    monkeypatch.setattr("lakekeeper_delta.trino_cleanup.commits_of", None)
    adapter.require_writable(resolve())
