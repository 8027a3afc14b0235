"""Keys along a curve, end to end on the memory adapter."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from lakekeeper.core.layout.clustering_info import measure
from lakekeeper.core.layout.space_filling_curve import CURVES
from lakekeeper.core.planning.planner import make_plan
from lakekeeper.core.planning.policy import Env
from lakekeeper.engine.merge.boundary_store import note_name
from lakekeeper.engine.merge.planning import look
from lakekeeper.testing.lake import MemoryTable, Settings
from lakekeeper.testing.memory import Lake
from lakekeeper.testing.values import Row
from tests.engine.scene import Scene

COMMITS = 12
SIDE = 1000
OPTIONS = {"max-rows-per-file": 20, "target-file-size-bytes": 1 << 20}
IN_RANGES = {"single-task-bytes": 2048, "target-file-size-bytes": 2048}
LARGE = {"max-rows-per-file": "none", "target-file-size-bytes": 128 << 20}


def some_rows(rng: random.Random, count: int) -> list[Row]:
    return [{"a": rng.randrange(SIDE), "b": rng.randrange(SIDE), "v": i} for i in range(count)]


def scene(layout: str, *, columns: Sequence[str] = ("a", "b"), settings: Settings | None = None) -> Scene:
    made = Scene(Lake().create("db.t", {"a": "int", "b": "int", "v": "int"}, settings=settings))
    rng = random.Random(5)
    for _ in range(COMMITS):
        made.table.append(some_rows(rng, 100))
    made.table.set_key(columns, layout)
    return made


def files_read(made: Scene, **box: tuple[int, int]) -> int:
    """Files whose bounds intersect a box, by the files' own statistics."""
    schema = made.table.current.schema
    read = 0
    for entry in made.table.current.files.values():
        bounds = {name: entry.file.statistics[schema.find(name).field_id] for name in box}
        read += all(bounds[name].hi >= lo and bounds[name].lo <= hi for name, (lo, hi) in box.items())
    return read


def mean_read(made: Scene, *names: str, width: int) -> float:
    rng = random.Random(9)
    starts = [[rng.randrange(SIDE - width) for _ in names] for _ in range(60)]
    return sum(
        files_read(made, **{n: (s, s + width) for n, s in zip(names, start, strict=True)}) for start in starts
    ) / len(starts)


@pytest.mark.parametrize("layout", CURVES)
@pytest.mark.parametrize("stored", [True, False], ids=["own ranges", "boxes"])
def test_ranges_of_the_second_column_read_fewer_files_than_under_a_linear_key(
    layout: str, stored: bool
) -> None:
    settings = Settings(stores_curve=stored)
    linear, curved = scene("linear"), scene(layout, settings=settings)
    before = curved.table.fingerprint()
    for made in (linear, curved):
        assert made.run(final=True, options=OPTIONS).ended.code == "nothing_left"
    assert curved.table.fingerprint() == before
    assert len(curved.table.current.files) <= 75
    assert mean_read(curved, "b", width=10) < 0.5 * mean_read(linear, "b", width=10)
    assert mean_read(curved, "a", "b", width=100) < mean_read(linear, "a", "b", width=100)


@pytest.mark.parametrize("policy", ["adaptive", "ranges", "peaks"])
@pytest.mark.parametrize("layout", CURVES)
@pytest.mark.parametrize("stored", [True, False], ids=["own ranges", "boxes"])
def test_a_second_run_is_a_no_op(layout: str, stored: bool, policy: str) -> None:
    made = scene(layout, settings=Settings(stores_curve=stored))
    assert made.run(policy, final=True, options=OPTIONS).changed
    made.untouched(lambda: made.run(policy, final=True, options=OPTIONS))


@pytest.mark.parametrize("cuts", [False, True], ids=["one task", "ranges"])
def test_one_run_is_one_line_on_the_curve(cuts: bool) -> None:
    """Whether it was sorted as a whole or cut into ranges: adjacent files share one position at most."""
    made = scene("hilbert")
    made.run(options={**OPTIONS, **(IN_RANGES if cuts else {})})
    snapshot = look(made.adapter, made.request())
    assert (snapshot.blocks.curve_id >= 0).all()
    information = measure(snapshot)
    assert information.max_depth <= 2
    assert information.levels == {1: len(snapshot.blocks)}
    assert "hilbert curve" in information.notes
    assert "boxes" not in information.notes


def test_the_task_holds_its_cuts_on_the_curve() -> None:
    made = scene("hilbert")
    request = made.request(options={**OPTIONS, **IN_RANGES})
    (task,) = make_plan(look(made.adapter, request), request.policies, request.options, Env()).tasks
    assert len(task.cuts) > 3
    assert list(task.cuts) == sorted(set(task.cuts))
    assert type(task).from_json(task.to_json()) == task


def test_boundaries_are_stored_once_and_kept() -> None:
    made = scene("hilbert")
    key = made.adapter.snapshot().key
    assert key is not None
    made.run(dry_run=True, options=OPTIONS)
    assert made.table.notes == {}
    made.run(options=OPTIONS)
    first = dict(made.table.notes)
    assert set(first) == {note_name(key.key_id, 0)}
    made.table.append(some_rows(random.Random(6), 100))
    made.run(options=OPTIONS)
    assert made.table.notes == first


def test_lost_boundaries_lose_no_row_and_are_derived_again() -> None:
    made = scene("hilbert")
    made.run(final=True, options=OPTIONS)
    before = made.table.fingerprint()
    made.table.notes.clear()
    made.table.append(some_rows(random.Random(7), 100))
    expected = len(before) + 100
    report = made.run(final=True, options=OPTIONS)
    assert report.ended.code == "nothing_left"
    assert len(made.table.fingerprint()) == expected
    made.untouched(lambda: made.run(options=OPTIONS))


@pytest.mark.parametrize("damage", ["torn", '"a"', "1180591620717411303424"])
def test_unreadable_boundaries_are_ignored(damage: str) -> None:
    made = scene("hilbert")
    key = made.adapter.snapshot().key
    assert key is not None
    kinds = [column.kind for column in key.columns]
    plain = {"key_id": key.key_id, "generation": 0, "kinds": kinds, "columns": [["X"]] * len(kinds)}
    text = damage if damage == "torn" else json.dumps(plain).replace('"X"', damage)
    made.table.notes[note_name(key.key_id, 0)] = text
    made.run(options=OPTIONS)
    assert set(made.table.notes) == {note_name(key.key_id, g) for g in (0, 1)}
    assert made.table.notes[note_name(key.key_id, 0)] == text


def test_the_boundaries_stored_first_apply_to_both_runs() -> None:
    """Another run stored its boundaries between our plan and our first write: we plan again with those."""
    made, other = scene("hilbert"), scene("hilbert")
    other.table.append(some_rows(random.Random(8), 300))
    other.run(options=OPTIONS)
    (theirs,) = other.table.notes.items()

    class Late(type(made.adapter.notes)):  # type: ignore[misc]  # its class is not public
        def keep(self, name: str, text: str) -> str:
            made.table.notes.setdefault(*theirs)
            return str(super().keep(name, text))

    notes = Late(made.table)
    adapter = made.adapter

    class Adapted:
        def __getattr__(self, name: str) -> Any:
            return notes if name == "notes" else getattr(adapter, name)

    made.adapter = Adapted()  # type: ignore[assignment]  # the adapter with other notes
    made.run(options=OPTIONS)
    assert made.table.notes == dict([theirs])
    snapshot = look(adapter, made.request())
    assert snapshot.boundaries is not None
    assert snapshot.boundaries.to_json() == theirs[1]
    assert (snapshot.blocks.curve_id >= 0).all()


def test_a_table_that_outgrows_its_boundaries_gets_new_ones_and_converges() -> None:
    made = scene("hilbert")
    made.run(final=True, options=OPTIONS)
    for day in range(1, 6):
        for part in range(3):
            grown = [{**r, "a": r["a"] + day * SIDE} for r in some_rows(random.Random(3 * day + part), 100)]
            made.table.append(grown)
        assert made.run(final=True, options=OPTIONS).ended.code == "nothing_left"
    assert len(made.table.notes) > 1
    made.untouched(lambda: made.run(final=True, options=OPTIONS))


def test_a_concurrent_delete_is_replayed_on_the_curve() -> None:
    made = scene("hilbert")

    def race(phase: str, info: Any) -> None:
        if phase == "before_commit" and len(made.table.versions) == 2 + COMMITS:
            made.table.delete("a < 100")

    rows = len(made.table.rows())
    report = made.run(options=OPTIONS, observer=race)
    assert report.replayed_rows_count > 0
    assert len(made.table.rows()) == rows - report.replayed_rows_count
    snapshot = look(made.adapter, made.request())
    assert (snapshot.blocks.curve_id >= 0).all()


def test_new_files_are_placed_on_the_curve_beside_old_ones() -> None:
    """A mixed table: merged blocks by their ranges, appended ones by their boxes, along one curve."""
    made = scene("hilbert")
    made.run(options=OPTIONS)
    made.table.append([{"a": i, "b": i, "v": 0} for i in range(20)])
    snapshot = look(made.adapter, made.request())
    assert sorted(set(snapshot.blocks.curve_id.tolist())) == [-1, 0]
    assert "1 block by its bounding box" in measure(snapshot).notes


def test_nulls_and_nan_are_merged_like_other_values() -> None:
    table = Lake().create("db.t", {"x": "float", "s": "string"})
    rng = random.Random(1)
    for _ in range(8):
        values = [None, float("nan"), -0.0, 0.0, 1.5, float("inf")]
        rows = [{"x": rng.choice(values), "s": rng.choice(["", "a", "é", None])} for _ in range(40)]
        table.append(rows)
    table.set_key(("x", "s"), "hilbert")
    made = Scene(table)
    before = table.fingerprint()
    report = made.run(final=True, options=OPTIONS)
    assert report.rewritten_data_files_count >= 8
    assert table.fingerprint() == before


def test_level_0_for_blocks_of_another_layout() -> None:
    made = scene("linear")
    made.run(final=True, options=OPTIONS)
    made.table.set_key(("a", "b"), "hilbert")
    snapshot = look(made.adapter, made.request())
    assert snapshot.blocks.level.max() > 0
    assert set(snapshot.blocks.level_under(snapshot.key).tolist()) == {0}


def test_a_key_given_in_the_call_may_have_a_layout() -> None:
    made = scene("linear")
    request = replace(made.request(), columns=("a", "b"), layout="zorder")
    snapshot = look(made.adapter, request)
    assert str(snapshot.key) == "zorder(a, b)"


REKEY = {**OPTIONS, "single-task-bytes": 1024}


def test_a_changed_key_is_applied_step_by_step() -> None:
    """Never as one full rewrite: each run rewrites a share and reports why the rest waits, until all is rewritten."""
    made = scene("linear")
    made.run(final=True, options=OPTIONS)
    made.table.set_key(("a", "b"), "hilbert")
    before, size = made.table.fingerprint(), sum(e.file.bytes for e in made.table.current.files.values())
    request = made.request(options=REKEY)
    plan = make_plan(look(made.adapter, request), request.policies, request.options, Env())
    assert 0 < plan.input_bytes <= 0.25 * size
    (waits,) = [left for left in plan.left if "key_change" in left.reason.codes]
    assert waits.bytes >= 0.7 * size
    assert "clustered by another key" in str(plan)
    assert "key-change-ratio" in str(plan)
    first = made.run(options=REKEY)
    assert first.rewritten_bytes_count <= 0.25 * size
    report = made.run(final=True, options=REKEY)
    assert report.rounds > 3
    assert report.ended.code == "nothing_left"
    assert made.table.fingerprint() == before
    snapshot = look(made.adapter, made.request())
    assert snapshot.key is not None
    assert {b.key_id for b in snapshot.blocks} == {snapshot.key.key_id}


def test_full_applies_a_changed_key_at_once() -> None:
    made = scene("linear")
    made.run(final=True, options=OPTIONS)
    made.table.set_key(("b",), "linear")
    assert made.plan("full", options=REKEY).input_files == len(made.table.current.files)


@pytest.mark.parametrize("layout", CURVES)
def test_texts_that_share_their_truncated_prefix_are_not_merged_each_day(layout: str) -> None:
    """Without stored ranges: the bounds of all files are one prefix, and no merge can make them narrower."""
    settings = Settings(truncate=16, stores_curve=False, byte_scale=1 << 18)
    made = Scene(MemoryTable("db.t", {"url": "string", "ts": "int", "v": "string"}, settings=settings))
    rng = random.Random(1)
    for _ in range(12):
        urls = [f"https://www.example.com/{rng.randrange(100):03d}" for _ in range(40)]
        made.table.append([{"url": url, "ts": rng.randrange(10_000), "v": "x" * 10} for url in urls])
    made.table.set_key(["url", "ts"], layout)
    rewritten = []
    for _ in range(5):
        made.later(days=1)
        rewritten.append(made.run("adaptive", options=LARGE).rewritten_data_files_count)
    assert rewritten[0] > 0
    assert rewritten[1:] == [0, 0, 0, 0]


@pytest.mark.parametrize("kind", ["date", "timestamp"])
def test_a_sentinel_among_the_values_does_not_derive_boundaries_each_day(kind: str) -> None:
    """Files with both kinds of rows look evenly spread up to the year 9999, in another way after each rewrite."""
    settings = Settings(byte_scale=1 << 18)
    made = Scene(MemoryTable("db.t", {"id": "int", "valid_to": kind, "v": "string"}, settings=settings))
    first, last = (
        (dt.date(2024, 1, 1), dt.date(9999, 12, 31))
        if kind == "date"
        else (
            dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc),
            dt.datetime(9999, 12, 31, tzinfo=dt.timezone.utc),
        )
    )
    rng = random.Random(1)
    for _ in range(20):
        made.table.append(
            [
                {
                    "id": rng.randrange(10**6),
                    "valid_to": last if rng.random() < 0.7 else first + dt.timedelta(rng.randrange(700)),
                    "v": "x" * rng.randrange(8, 12),
                }
                for _ in range(60)
            ]
        )
    made.table.set_key(["id", "valid_to"], "hilbert")
    rewritten = []
    for _ in range(10):
        made.later(days=1)
        rewritten.append(made.run("adaptive", options=LARGE).rewritten_data_files_count)
    assert rewritten[0] > 0
    assert rewritten[5:] == [0, 0, 0, 0, 0]
    assert len(made.table.notes) <= 2
