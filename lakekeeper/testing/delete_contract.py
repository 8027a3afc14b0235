"""The contract of our own deletes and of restores: exactly the matching rows, exactly once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lakekeeper.core.config.options import Options, resolve
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.delete.row_delete import delete_rows
from lakekeeper.engine.trash.drop_partition import drop_rows
from lakekeeper.engine.trash.entries import entries
from lakekeeper.engine.trash.restore import restore
from lakekeeper.errors import Conflict
from lakekeeper.spi import Adapter, Observer, Prepared
from lakekeeper.testing.harness import ContractTable, Harness, Selected, recluster
from lakekeeper.testing.predicate import parse
from lakekeeper.testing.snapshot_contract import KV, keys
from lakekeeper.testing.values import Row, fingerprint

BATCHES = [keys(1, 4, 7), keys(2, 3, 3), keys(5, 6, 8), keys(3, 9)]
_OPTIONS: Options = resolve({"commit.retry.num-retries": 2})
_PKV = {"p": "int", **KV}
_PROOFS = (
    "p = 1",
    "p = 1 or p = 3",
    "p < 3",
    "p >= 2 and p <= 3",
    "p != 2",
    "p is null",
    "p is not null",
    "p = 1 and k < 5",
    "p = 1 or k = 9",
    "p != 2 or k = 9",
    "k is not null",
    "k >= 0",
    "v = 'v1'",
)


def _placed(p: int | None, *values: Any) -> list[Row]:
    """Rows of one partition."""
    return [{"p": p, **row} for row in keys(*values)]


_PLACES = [_placed(1, 1, 4), _placed(2, 2, None), _placed(3, 9, 5), _placed(None, 7, 8), _placed(1, 3, 6)]


def delete(
    harness: Harness,
    adapter: Adapter[Any],
    where: str,
    race: Callable[[], object] | None = None,
    times: int = 1,
) -> Any:
    """``delete_rows``; a rival does ``race`` before each of the first ``times`` attempts."""
    left = [race] * times if race else []
    return delete_rows(adapter, harness.runner, where, _OPTIONS, observer=_before_attempts(left))


def _before_attempts(left: list[Callable[[], object]]) -> Observer:
    def observe(phase: str, _: object) -> None:
        if phase == "before_commit" and left:
            left.pop()()

    return observe


class DeleteContract(Selected):
    """What our deletes guarantee on a table that others write too."""

    def test_rows_are_deleted_by_us(self, harness: Harness) -> None:
        table = harness.create(KV, BATCHES)
        adapter = table.adapter()
        before = adapter.snapshot(["k"])
        report = delete(harness, adapter, "k = 3 or k > 7")
        assert (report.deleted_rows_count, report.retries) == (5, 0)
        assert fingerprint(table.rows()) == fingerprint(keys(1, 4, 7, 2, 5, 6))
        assert len(table.rows(before.version)) == 11
        assert adapter.changes_since(before).landed(report.run_id) is not None
        assert not adapter.changes_since(before).winners[-1].layout
        again = delete(harness, adapter, "k = 3 or k > 7")
        assert not again.changed

    @pytest.mark.parametrize(
        "rival",
        [
            pytest.param(
                lambda table, harness: recluster(harness, table, run_id="rival-1"), id="our rewrite"
            ),
            pytest.param(lambda table, _: table.delete("k = 9 or k = 1"), id="delete"),
            pytest.param(lambda table, _: table.append(keys(3, 50, 8)), id="append"),
            pytest.param(lambda table, _: table.overwrite(keys(3, 3, 12, 30)), id="overwrite"),
        ],
    )
    def test_our_delete_follows_its_rows(
        self, harness: Harness, rival: Callable[[ContractTable, Harness], object]
    ) -> None:
        """On a table with serializable deletes, the result is as if the rival had committed first."""
        table = harness.create(KV, BATCHES)
        expected = harness.create(KV, BATCHES)
        rival(expected, harness)
        expected.delete("k = 3 or k > 7 and k < 20")
        where = "k = 3 or k > 7 and k < 20"
        report = delete(harness, table.adapter(), where, lambda: rival(table, harness))
        assert fingerprint(table.rows()) == fingerprint(expected.rows())
        assert report.changed
        assert table.leftovers() == set()

    def test_appends_at_each_attempt_do_not_use_its_retries_up(self, harness: Harness) -> None:
        table = harness.create(KV, BATCHES)
        report = delete(harness, table.adapter(), "k = 3", lambda: table.append(keys(3, 20)), times=5)
        assert fingerprint(table.rows()) == fingerprint(keys(1, 4, 7, 2, 5, 6, 8, 9, *[20] * 5))
        assert (report.retries, report.deleted_rows_count) == (5, 8)
        assert table.leftovers() == set()

    def test_only_new_files_are_searched_again(
        self, harness: Harness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        table = harness.create(KV, BATCHES)
        adapter = table.adapter()
        kind, searched = type(adapter.deletes), []
        real = kind.find

        def find(self: Any, snapshot: Any, where: str, paths: Any = None) -> Any:
            searched.append(paths)
            return real(self, snapshot, where, paths)

        monkeypatch.setattr(kind, "find", find)
        delete(harness, adapter, "k = 3", lambda: table.append(keys(3, 20)), times=2)
        assert [len(paths) for paths in searched][1:] == [1, 1]

    def test_a_delete_that_was_prepared_for_an_older_state_loses(self, harness: Harness) -> None:
        table = harness.create(KV, BATCHES)
        adapter = table.adapter()
        snapshot = adapter.snapshot(["k"])
        held = harness.runner.hold(adapter.deletes.find(snapshot, "k = 3"))
        prepared = adapter.deletes.prepare(held, (), snapshot, "run-1")
        assert sum(prepared.rows.values()) == 3
        table.rewrite_foreign()
        rows = fingerprint(table.rows())
        with pytest.raises(Conflict) as lost:
            adapter.deletes.delete([prepared], snapshot, "run-1", "k = 3")
        assert lost.value.winner
        assert fingerprint(table.rows()) == rows
        adapter.deletes.discard([prepared])
        assert fingerprint(table.rows()) == rows
        assert table.leftovers() == set()
        harness.runner.release(held)

    def test_what_metadata_proves_is_true_of_every_row(self, harness: Harness) -> None:
        """By brute force: the predicate is true for each row of a file that is removed as a whole.

        A format's own DELETE is no oracle: Iceberg's takes the partition of NULL for ``p != 2``.
        """
        table = harness.create(_PKV, [], partition_by=["p"])
        held: dict[str, list[Row]] = {}
        for rows in _PLACES:
            table.append(rows)
            [path] = set(table.adapter().snapshot().blocks.path.to_pylist()) - held.keys()
            held[path] = rows
        adapter = table.adapter()
        for where in _PROOFS:
            means = parse(where, {(name,): kind for name, kind in _PKV.items()})
            covered = adapter.deletes.covered(adapter.snapshot(where=where), where)
            whole = {path for path, rows in held.items() if all(means(row) for row in rows)}
            assert covered <= whole, where
            if where.startswith("p ") and "k" not in where:
                assert covered == whole, where

    @pytest.mark.parametrize("where", ["p = 1 or k = 9", "p != 2", "p is null"])
    def test_files_leave_with_their_rows_and_others_keep_theirs(self, harness: Harness, where: str) -> None:
        table = harness.create(_PKV, _PLACES, partition_by=["p"])
        means = parse(where, {(name,): kind for name, kind in _PKV.items()})
        kept = fingerprint([row for row in table.rows() if not means(row)])
        delete(harness, table.adapter(), where)
        assert fingerprint(table.rows()) == kept

    def test_partitions_leave_without_a_look_at_their_rows(
        self, harness: Harness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        table = harness.create(_PKV, _PLACES, partition_by=["p"])
        table.delete("k = 4")
        adapter = table.adapter()
        kind = type(adapter.deletes)
        monkeypatch.setattr(kind, "find", lambda *_args: pytest.fail("no row was to be looked for"))
        report = delete(harness, adapter, "p = 1 or p is null")
        assert (report.deleted_rows_count, report.unread_data_files_count) == (5, 3)
        assert fingerprint(table.rows()) == fingerprint([*_placed(2, 2, None), *_placed(3, 9, 5)])

    def test_dropped_rows_come_back_once(self, harness: Harness) -> None:
        table = harness.create(_PKV, _PLACES, partition_by=["p"])
        table.delete("k = 4")
        adapter, rows = table.adapter(), fingerprint(table.rows())
        # Some of the rows are removed with their files, others individually.
        drop_rows(adapter, harness.runner, "p = 1 or k = 9", _OPTIONS, clock=Clock())
        assert len(table.rows()) == len(rows) - 4
        [entry] = entries(adapter).values()
        report = restore(adapter, harness.runner, entry.name, _OPTIONS, clock=Clock())
        assert (report.rows, report.already) == (4, False)
        assert fingerprint(table.rows()) == rows
        assert entries(adapter) == {}
        assert table.leftovers() == set()

    def test_copies_are_appended_once(self, harness: Harness) -> None:
        """Both if the same run commits them again, and if another one does so at the same time."""
        table = harness.create(KV, BATCHES)
        adapter, rows = table.adapter(), fingerprint(table.rows())
        report = delete(harness, adapter, "k = 3")
        assert report.version_after is not None
        then, _ = adapter.restores.around(report.version_after, "k = 3", report.version_after)
        made: list[Prepared] = []
        for _ in range(2):
            held = harness.runner.hold(adapter.deletes.find(then, "k = 3"))
            made.append(adapter.restores.copy(held, (), then, "back-1"))
            harness.runner.release(held)
        table.append(keys(77))
        first, second = (adapter.restores.commit(each, report.version_after, "back-1") for each in made)
        assert (second.version, second.added) == (first.version, ())
        assert set(first.added) == set(made[0].rows)
        adapter.deletes.discard(made[1:])
        assert fingerprint(table.rows()) == fingerprint([*keys(1, 4, 7, 2, 3, 3, 5, 6, 8, 3, 9), *keys(77)])
        assert len(rows) == 11
        assert table.leftovers() == set()
