"""Notes beside a table are untrusted: whatever they say, only files that provably are the table's are deleted."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakekeeper as lk
from lakekeeper.core.model.run_folders import run_folder
from lakekeeper.errors import AdapterError
from lakekeeper.spi import Adapter
from tests.formats.lakes import Lake
from tests.formats.neighbours import ALL, COMPACT, dead_run, files, fill, later
from tests.opening import adapter_of

NOW: Mapping[str, Any] = {"retention_hours": 0, "allow_unsafe_retention": True, "options": ALL}
_RUN = "5f6a3f30ccab40d1"


def write(place: Path, name: str, plain: object) -> None:
    """Write a note, as any program with write access beside the table could."""
    note = place / "_lakekeeper" / name
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text(json.dumps(plain))
    note.with_name(f".{note.name}.crc").unlink(missing_ok=True)


def intent(adapter: Adapter[Any], **changed: Any) -> dict[str, Any]:
    """A rewrite of this table that died long ago."""
    snapshot = adapter.snapshot()
    plain = {
        "run_id": f"{_RUN}-1",
        "kind": "rewrite",
        "at_ms": 1_000,
        "table_uuid": snapshot.table_uuid,
        "read_version": snapshot.version,
        "folders": [],
        "ended": True,
        "parts": 0,
        "timeout_ms": 0,
    }
    return {**plain, **changed}


def entry(adapter: Adapter[Any], name: str = _RUN, **changed: Any) -> dict[str, Any]:
    """An entry in the trash of this table, with one note of moves."""
    snapshot = adapter.snapshot()
    plain = {
        "name": name,
        "kind": "files",
        "at_ms": 1_000,
        "version": snapshot.version,
        "files": 1,
        "bytes": 1,
        "where": "",
        "parts": 1,
        "table_uuid": snapshot.table_uuid,
    }
    return {**plain, **changed}


@pytest.fixture
def name(lake: Lake) -> str:
    return lake.overlapping(3, 20)


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A foreign file whose name looks like that of a writer of either format."""
    place = tmp_path / "ledger" / f"00000-1-{uuid.uuid4()}-00001.parquet"
    place.parent.mkdir()
    place.write_text("live")
    return place


def test_an_intent_deletes_only_in_the_folder_of_its_run(
    spark: SparkSession, lake: Lake, name: str, victim: Path
) -> None:
    """Loss L7."""
    place = lake.home(name)
    adapter = adapter_of(spark, name)
    rows = lake.fingerprint(name)
    own = place / "data" / "notes.parquet"
    own.parent.mkdir(exist_ok=True)
    own.write_text("mine")
    everywhere = [str(place), f"{place}/data", str(victim.parent), f"{place}/../ledger", "/"]
    odd = ["../../ledger-1", "/etc-1", f"{_RUN}-1/../..", "", "x", "lk-1", "a b-1"]
    forged = [
        intent(adapter, folders=everywhere),
        *(intent(adapter, run_id=run, folders=everywhere) for run in odd),
        intent(adapter, table_uuid="../../ledger", folders=everywhere),
        intent(adapter, at_ms="now"),
        intent(adapter, at_ms=-1),
        intent(adapter, timeout_ms=2**70),
        intent(adapter, parts=10**12, kind="vacuum"),
        intent(adapter, kind="scrub", folders=everywhere),
        {"run_id": f"{_RUN}-1"},
        [],
    ]
    for number, plain in enumerate(forged):
        write(place, f"intents/{number:02d}.json", plain)
    before = files(place)
    later(spark, name).vacuum(retention_hours=10_000, options=ALL)
    assert before - files(place) <= {p for p in before if "_lakekeeper" in p.parts}
    assert victim.read_text() == "live"
    assert lake.fingerprint(name) == rows


def test_an_intent_with_a_run_of_another_table_deletes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """Two tables write their data to one folder, which an operator allows; a forged note beside one harms neither."""
    ice = Lake(spark, "iceberg-v3")
    shared = {"write.data.path": f"file:{tmp_path}/bulk"}
    one, other = (fill(ice, ice.create("id bigint, k int, v string", properties=shared), 3, 20) for _ in "ab")
    report = lk.table(spark, other).compact(options=COMPACT)
    rows = ice.fingerprint(other)
    place = ice.home(one)
    adapter = adapter_of(spark, one)
    write(place, "intents/00.json", intent(adapter, run_id=report.run_ids[0]))
    done = later(spark, one).vacuum(options={**ALL, "vacuum.allowed-locations": f"file:{tmp_path}"})
    assert done.settled_runs == report.run_ids
    assert ice.fingerprint(other) == rows


@pytest.mark.parametrize("kind", ["list", "foreign"])
def test_a_list_of_files_to_delete_is_not_trusted(
    spark: SparkSession, lake: Lake, name: str, victim: Path, kind: str
) -> None:
    table, place = lk.table(spark, name), lake.home(name)
    adapter = adapter_of(spark, name)
    rows = lake.fingerprint(name)
    orphan = place / "data" / f"00000-9-{uuid.uuid4()}-00001.parquet"
    orphan = orphan if lake.iceberg else place / f"part-00000-{uuid.uuid4()}-c000.snappy.parquet"
    own = place / "docs" / "readme.md"
    own.parent.mkdir()
    for path in (orphan, own):
        path.write_text("x")
    forged = intent(
        adapter, run_id=_RUN, kind="vacuum", parts=1, at_ms=time.time_ns() // 1_000_000, ended=False
    )
    if kind == "foreign":
        forged["table_uuid"] = str(uuid.uuid4())
    listed = [p for p in files(place) if "_lakekeeper" not in p.parts]
    write(place, "intents/64.json", forged)
    write(place, f"vacuum/{_RUN}/list-0000.json", [f"file:{p}" for p in (*listed, victim)])
    before = files(place)
    report = table.vacuum(options=ALL)
    gone = {orphan} if kind == "list" else set()
    assert before - files(place) - {p for p in before if "_lakekeeper" in p.parts} == gone
    assert lake.fingerprint(name) == rows
    assert victim.exists()
    assert own.exists()
    assert report.plan is not None
    if kind == "list":
        assert "only an earlier vacuum's list names it" in report.plan.spared[f"file:{own}"]


def test_emptying_the_trash_deletes_only_files_inside_the_entry(
    spark: SparkSession, lake: Lake, name: str, victim: Path
) -> None:
    """Loss L7: emptying the trash deleted any path in a note."""
    table, place = lk.table(spark, name), lake.home(name)
    adapter = adapter_of(spark, name)
    rows = lake.fingerprint(name)
    bin_ = place / "_lakekeeper" / "trash"
    data = [p for p in files(place) if p.suffix == ".parquet"]
    log = [p for p in files(place) if {"metadata", "_delta_log"} & set(p.parts)]
    other = bin_ / "0123456789abcdef" / "0" / "x.parquet"
    other.parent.mkdir(parents=True)
    other.write_text("another entry's")
    inside = bin_ / _RUN / "0" / "y.parquet"
    inside.parent.mkdir(parents=True)
    inside.write_text("this entry's")
    targets = [
        *data,
        *log,
        victim,
        other,
        place / "_lakekeeper" / "vacuum" / "cursor.json",
        f"{bin_}/{_RUN}/../../../{data[0].name}",
        f"{bin_}/{_RUN}/../0123456789abcdef/0/x.parquet",
        f"{bin_}/{_RUN}",
    ]
    source, note = f"file:{place}/data/gone.parquet", f"trash/{_RUN}/moves-0000.json"
    good = [source, f"file:{inside}", 1]
    write(place, "trash/00.json", entry(adapter))
    write(place, note, [good])
    for number, wrong in enumerate(("../../data", "a/b", "..", ""), 1):
        write(place, f"trash/{number:02d}.json", entry(adapter, wrong))
    before = files(place)
    assert [e.name for e in table.trash()] == [_RUN]
    for target in targets:
        write(place, note, [good, [source, f"file:{target}", 1]])
        with pytest.raises(AdapterError, match="the list of its files is gone or damaged"):
            table.empty_trash(all_entries=True)
        assert before <= files(place), target
    write(place, note, [good])
    table.empty_trash(all_entries=True)
    notes = {p for p in before if p.suffix == ".json" and p.parent in (bin_, bin_ / _RUN)}
    assert before - files(place) - notes == {inside}
    assert victim.exists()
    assert lake.fingerprint(name) == rows


def test_a_restore_moves_files_only_from_the_entry_into_the_table(
    spark: SparkSession, lake: Lake, name: str, victim: Path
) -> None:
    table, place = lk.table(spark, name), lake.home(name)
    adapter = adapter_of(spark, name)
    rows = lake.fingerprint(name)
    bin_ = place / "_lakekeeper" / "trash" / _RUN / "0"
    bin_.mkdir(parents=True)
    for letter in "abc":
        (bin_ / letter).write_text("forged")
    newest = max(
        (p for p in files(place) if "_delta_log" in p.parts or p.suffix == ".json"), key=lambda p: p.name
    )
    moves = [
        [f"file:{newest.parent}/00000000000000000099.json", f"file:{bin_}/a", 1],
        [f"file:{victim.parent}/b.parquet", f"file:{bin_}/b", 1],
        [f"file:{place}/_lakekeeper/intents/00.json", f"file:{bin_}/c", 1],
    ]
    stolen = [[f"file:{place}/stolen", f"file:{source}", 1] for source in (victim, newest)]
    write(place, "trash/00.json", entry(adapter))
    before = {p for p in files(place) if p.suffix != ".json" or "_lakekeeper" not in p.parts}
    for listed, why in (
        (moves, "3 of its 3 files belong to places where this call must not write"),
        ([*moves, stolen[0]], "the list of its files is gone or damaged"),
        ([*moves, stolen[1]], "the list of its files is gone or damaged"),
    ):
        write(place, f"trash/{_RUN}/moves-0000.json", listed)
        with pytest.raises(AdapterError, match=why):
            table.restore(_RUN)
        assert before <= files(place)
    assert sorted(p.name for p in bin_.iterdir() if not p.name.startswith(".")) == ["a", "b", "c"]
    assert victim.exists()
    assert lake.fingerprint(name) == rows


def test_a_property_does_not_widen_what_may_be_deleted(spark: SparkSession, victim: Path) -> None:
    """Loss L7: with one property set, the service deleted another user's files with its own rights."""
    ice = Lake(spark, "iceberg-v2")
    name = ice.overlapping(3, 20)
    place = ice.home(name)
    for key in ("write.data.path", "write.object-storage.path", "write.metadata.path"):
        spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('{key}' = 'file:{victim.parent}')")
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('write.object-storage.enabled' = 'true')")
    table = lk.table(spark, name)
    adapter = adapter_of(spark, name)
    folder = run_folder(adapter_of(spark, name).snapshot().table_uuid, f"{_RUN}-1")
    run = victim.parent / folder / "none" / "L0" / victim.name
    run.parent.mkdir(parents=True)
    run.write_text("live")
    write(place, "intents/00.json", intent(adapter, folders=[str(victim.parent)]))
    write(place, "trash/00.json", entry(adapter))
    target = f"file:{place}/_lakekeeper/trash/{_RUN}/1/{victim.name}"
    write(
        place, f"trash/{_RUN}/moves-0000.json", [[f"file:{victim}", target, 1], [target, f"file:{victim}", 1]]
    )
    report = later(spark, name).vacuum(options=ALL)
    assert "vacuum.allowed-locations" in str(report)
    later(spark, name).vacuum(orphans=True, options=ALL)
    with pytest.raises(AdapterError, match="the list of its files is gone or damaged"):
        table.empty_trash(all_entries=True)
    assert (victim.read_text(), run.read_text()) == ("live", "live")


def test_slots_full_of_forged_notes_block_no_run(spark: SparkSession, lake: Lake, name: str) -> None:
    table, place = lk.table(spark, name), lake.home(name)
    adapter = adapter_of(spark, name)
    for number in range(72):
        plain = intent(adapter, run_id=f"{number}-1", ended=False, table_uuid=str(uuid.uuid4()))
        write(place, f"intents/{number:02d}.json", plain if number % 2 else {"half": "written"})
    assert table.compact(options=COMPACT).commits == 1
    assert table.vacuum(**NOW).deleted_files_count > 0


def test_a_dead_run_is_still_settled(spark: SparkSession, lake: Lake, name: str) -> None:
    """The checks above do not prevent a vacuum from settling real dead runs."""
    dead_run(spark, name)
    [folder] = [p for p in lake.home(name).rglob("lk*") if p.is_dir()]
    assert files(folder)
    report = later(spark, name).vacuum(options=ALL)
    assert len(report.settled_runs) == 1
    assert report.deleted_by_kind["orphan"][0] > 0
    assert not folder.exists()
