"""AddFiles that the driver reads from a small log are those of Delta's own state, field by field."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakekeeper_delta.file_marks import vector_id
from lakekeeper_delta.known_state import LARGE_LOG, add_files
from lakekeeper_delta.log_files import Unlike
from lakekeeper_delta.named_adds import named_adds, replayed
from lakekeeper_delta.native import Log
from tests.delta.by_hand import ByHand
from tests.delta.scene import Scene
from tests.delta.vectors import VECTOR, VECTORS
from tests.oracles.spark_jobs import no_job
from tests.rewrites import recluster

_ACTIONS = st.tuples(st.sampled_from(["add", "remove", "other"]), st.sampled_from("abcd"), VECTORS)


@given(st.lists(st.lists(_ACTIONS, max_size=5), max_size=6), st.sets(st.sampled_from("abcd")))
def test_the_last_action_of_a_wanted_file_counts(history: list[list[Any]], wanted: set[str]) -> None:
    size = iter(range(1000))
    live: dict[tuple[str, str], int] = {}
    texts, named = [], set()
    for actions in history:
        lines = []
        for kind, path, vector in actions:
            file = {"path": path, "size": next(size), "deletionVector": vector, "dataChange": True}
            if file["size"] % 2:  # another writer's order
                file = {"partitionValues": {"path": "x"}, **dict(reversed(file.items()))}
            apart = (", ", ": ") if file["size"] % 3 else (",", ":")
            lines.append(json.dumps({kind: file if kind != "other" else {"add": file}}, separators=apart))
            if kind == "other" or path not in wanted:
                continue
            identity = path, vector_id(vector)
            named.add(identity)
            live.pop(identity, None)
            if kind == "add":
                live[identity] = file["size"]
        texts.append("\n".join(lines).encode())
    found, touched = replayed(texts, wanted)
    assert {(add["path"], vector_id(add["deletionVector"])): add["size"] for add in found} == live
    assert touched == named
    assert not any(add["dataChange"] for add in found)


@pytest.mark.parametrize("path", ["file:/a/x.parquet", "/a/x.parquet", "a//x.parquet", "a%3a.parquet"])
@pytest.mark.parametrize("kind", ["add", "remove"])
def test_a_path_with_several_spellings(path: str, kind: str) -> None:
    with pytest.raises(Unlike):
        replayed([json.dumps({kind: {"path": path}}).encode()], {"a"})


KINDS: dict[str, tuple[str, dict[str, str]]] = {
    "vectors": ("k INT, p STRING, v STRING", {"delta.enableDeletionVectors": "true"}),
    "row ids": ("k INT, p STRING, v STRING", {"delta.enableRowTracking": "true"}),
    "mapped columns": ("k INT, `p` STRING, `v` STRING", {"delta.columnMapping.mode": "name"}),
    "parsed statistics": (
        "k INT, p STRING, v STRING",
        {"delta.checkpoint.writeStatsAsStruct": "true", "delta.enableDeletionVectors": "true"},
    ),
}
STEPS = (
    "INSERT INTO {t} SELECT /*+ COALESCE(1) */ cast(id AS INT), 'x', concat('v', id) FROM range(40, 50)",
    "DELETE FROM {t} WHERE k = 25",
    "INSERT INTO {t} SELECT cast(id AS INT), null, 'ü \"\\'\\\\' FROM range(5)",
    "UPDATE {t} SET v = 'v3' WHERE k = 3",
    "DELETE FROM {t} WHERE p = 'y'",
    "OPTIMIZE {t}",
)


def _plain(log: Log, adds: Any) -> dict[str, Any]:
    """Each AddFile's fields; Spark makes no map of the empty object that some writers leave for tags."""
    found = {str(add.path()): json.loads(str(add.json()))["add"] for add in log.jvm.items(adds)}
    return {path: {**add, "tags": add.get("tags") or None} for path, add in found.items()}


@pytest.mark.delta
@pytest.mark.parametrize("checkpoints", ["100", "2"], ids=["commits", "a checkpoint"])
@pytest.mark.parametrize("kind", KINDS)
def test_they_are_those_of_delta(scene: Scene, kind: str, checkpoints: str) -> None:
    columns, properties = KINDS[kind]
    scene.create(
        columns, more="PARTITIONED BY (p)", properties={**properties, "delta.checkpointInterval": checkpoints}
    )
    for p, low in (("x", 0), ("a b%/c", 20), ("y", 20)):
        values = f"SELECT cast(id AS INT), '{p}', concat('v', id) FROM range({low}, {low + 10})"
        scene.run(f"INSERT INTO {{t}} {values}")
    log = scene.log()
    for step in ("", *STEPS, "ours"):
        if step == "ours":
            recluster(scene)
        elif step:
            scene.run(step)
        state = log.latest()
        expected = _plain(log, state.snapshot.allFiles().collectAsList())
        plain = named_adds(log, state, [*expected, "gone.parquet"], LARGE_LOG)
        assert plain is not None, step
        found = _plain(log, log.add_files(plain))
        assert found == expected, step
    segment = state.snapshot.logSegment()
    assert (checkpoints == "2") == (int(segment.checkpointProvider().topLevelFiles().size()) > 0)


@pytest.mark.delta
def test_a_small_log_takes_no_spark_job(table: ByHand) -> None:
    names = [table.add(f"{n}.parquet", [n]) for n in range(3)]
    table.commit(*names)
    log = table.scene.log()
    state = log.latest()
    with no_job(table.scene.spark, "adds"):
        found = add_files(log, state, ["0.parquet", "2.parquet"])
    assert sorted(str(add.path()) for add in found) == ["0.parquet", "2.parquet"]


@pytest.mark.delta
@pytest.mark.parametrize("why", ["two live vectors", "a path with two spellings", "a large log"])
def test_what_is_left_to_delta(table: ByHand, why: str) -> None:
    one = table.add("one.parquet")
    table.commit(one)
    if why == "two live vectors":
        table.commit({"add": {**one["add"], "deletionVector": VECTOR}})
    elif why == "a path with two spellings":
        table.commit({"add": {**one["add"], "path": "./two.parquet"}})
    log = table.scene.log()
    most = 10 if why == "a large log" else LARGE_LOG
    assert named_adds(log, log.latest(), ["one.parquet"], most) is None


@pytest.mark.delta
def test_a_checkpoint_without_statistics_as_text_is_left_to_delta(scene: Scene) -> None:
    stats = {"writeStatsAsStruct": "true", "writeStatsAsJson": "false"}
    settings = {f"delta.checkpoint.{name}": value for name, value in stats.items()}
    scene.create("k INT", properties={**settings, "delta.checkpointInterval": "1"})
    scene.run("INSERT INTO {t} SELECT id FROM range(5)")
    log = scene.log()
    state = log.latest()
    paths = [str(add.path()) for add in log.jvm.items(state.snapshot.allFiles().collectAsList())]
    assert named_adds(log, state, paths, LARGE_LOG) is None
    assert int(add_files(log, state, paths).size()) == len(paths) > 0
