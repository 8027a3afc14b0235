"""A cached snapshot is refreshed from new commits only, and equals a full read."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.engine.table_session import TableSession
from lakekeeper.testing.contents import contents
from tests.faults.storage import faulty_storage
from tests.formats.lakes import Lake

Step = Callable[[Lake, str, random.Random], object]


def append(lake: Lake, name: str, rng: random.Random) -> None:
    start = rng.randrange(10_000)
    rows = lake.spark.range(start, start + rng.randrange(1, 40))
    part = rng.choice(["'a b'", "'x%y'", "NULL", "'ü/1'"])
    lake.append(name, rows.selectExpr("id", "cast(id % 50 AS INT) k", "concat('v', id) v", f"{part} p"))


def three_appends(lake: Lake, name: str, rng: random.Random) -> None:
    for _ in range(3):
        append(lake, name, rng)


def sql(text: str) -> Step:
    def run(lake: Lake, name: str, rng: random.Random) -> object:
        return lake.spark.sql(text.format(t=name, n=rng.randrange(50), v=rng.randrange(1000))).collect()

    return run


def rewrite(lake: Lake, name: str, rng: random.Random) -> object:
    return lake.table(name).recluster("k", policy=rng.choice(["full", "ranges"]))


def compact(lake: Lake, name: str, rng: random.Random) -> object:
    return lake.table(name).compact(policy="sizes", options={"min-input-files": 2})


def metadata(lake: Lake, name: str, _: random.Random) -> object:
    """A checkpoint, or merged manifests."""
    return lake.table(name).compact_metadata()


def forget(lake: Lake, name: str, _: random.Random) -> object:
    """Expiry of snapshots; on Delta, a vacuum of files."""
    return lake.table(name).vacuum(
        retention_hours=0, allow_unsafe_retention=True, options={"vacuum.max-share": 1}
    )


def back(lake: Lake, name: str, rng: random.Random) -> object:
    """A rollback, or Delta's RESTORE, to one of the last two versions."""
    version = rng.choice(lake.versions(name)[-2:])
    if lake.iceberg:
        catalog, _, rest = name.partition(".")
        return lake.spark.sql(f"CALL {catalog}.system.set_current_snapshot('{rest}', {version}L)").collect()
    return lake.spark.sql(f"RESTORE TABLE {name} TO VERSION AS OF {version}").collect()


COMMON: list[Step] = [
    append,
    append,
    append,
    sql("DELETE FROM {t} WHERE k = {n}"),
    sql("DELETE FROM {t} WHERE id % 97 = {n}"),
    sql("DELETE FROM {t} WHERE p = 'a b'"),
    rewrite,
    compact,
    metadata,
]
RARE: list[Step] = [
    forget,
    back,
    sql("UPDATE {t} SET v = 'u' WHERE k = {n}"),
    sql("ALTER TABLE {t} ADD COLUMN c{v} INT"),
    sql("ALTER TABLE {t} SET TBLPROPERTIES ('lakekeeper.depth-threshold' = '{n}.5')"),
]


def said(snapshot: Snapshot) -> tuple[object, ...]:
    rewritten = None if snapshot.rewritten is None else snapshot.rewritten.tolist()
    return contents(snapshot), snapshot.commits_ms.tolist(), rewritten


@pytest.mark.parametrize("seed", range(4))
def test_a_refresh_equals_a_full_read_after_any_history(lake: Lake, seed: int) -> None:
    rng = random.Random(seed)
    name = lake.create("id BIGINT, k INT, v STRING, p STRING", partitioned="p" if seed % 2 else "")
    append(lake, name, rng)
    adapter = lake.adapter(name)
    kept: dict[tuple[str, ...] | None, Snapshot] = {
        columns: adapter.snapshot(columns) for columns in (("k",), ("v", "k"), None)
    }
    brought = 0
    for _ in range(8):
        steps = [rng.choice(COMMON) for _ in range(rng.randrange(1, 3))]
        steps += [rng.choice(RARE)] if rng.random() < 0.4 else []
        for step in steps:
            step(lake, name, rng)
        for columns, snapshot in kept.items():
            found = adapter.refresh(snapshot, columns)
            whole = lake.adapter(name).snapshot(columns)
            if found is not None:
                assert said(found) == said(whole), (seed, steps, columns)
                brought += found is not snapshot
            kept[columns] = found or whole
    assert brought > 8, "the test never refreshed a snapshot"


@pytest.mark.parametrize(
    "step, most",
    [
        (append, 2),
        (sql("DELETE FROM {t} WHERE id = 3"), 3),
        (three_appends, 6),
    ],
    ids=["append", "delete", "three appends"],
)
def test_a_refresh_opens_only_new_files(lake: Lake, step: Step, most: int) -> None:
    """Files of the log or the metadata that a new plan opens, besides the table's own pointer to them."""
    rng = random.Random(0)
    name = lake.create("id BIGINT, k INT, v STRING, p STRING")
    for _ in range(4):  # Delta writes no checkpoint before its tenth version
        append(lake, name, rng)
    lake.spark.sql(f"INSERT INTO {name} VALUES (3, 3, 'v3', NULL), (4, 3, 'v4', NULL)")
    session = TableSession(lake.adapter(name))
    session.snapshot(("k",))
    old = {path.name for path in log_files(lake, name)}
    step(lake, name, rng)
    with faulty_storage(lake.spark) as storage:
        storage.arm(lake.home(name), "open")
        refreshed = session.snapshot(("k",))
        opened = [Path(call.split()[-1]).name for call in storage.disarm()]
        storage.arm(lake.home(name), "open")
        whole = lake.adapter(name).snapshot(("k",))
        all_opened = [Path(call.split()[-1]).name for call in storage.disarm()]
    assert contents(refreshed) == contents(whole)
    assert [each for each in opened if each in old] == []
    assert [each for each in all_opened if each in old], "a full read opens old files"
    logs = [each for each in opened if each.endswith((".json", ".avro")) and "metadata" not in each]
    assert 0 < len(set(logs)) <= most, opened
    assert not [each for each in opened if each.endswith(".parquet")], "no data file is opened"


def log_files(lake: Lake, name: str) -> list[Path]:
    """The commits of a Delta log; the manifests of an Iceberg table."""
    home = lake.home(name)
    if lake.iceberg:
        return [path for path in (home / "metadata").glob("*.avro") if not path.name.startswith("snap-")]
    return list((home / "_delta_log").glob("*.json"))
