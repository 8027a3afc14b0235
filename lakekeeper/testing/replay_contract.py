"""The contract of the row-level half: deletes are found, masked, replayed and made; no row is lost or comes back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from lakekeeper.core.config.options import Options, resolve
from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.planning.rebase import Dropped
from lakekeeper.core.planning.rewrites import Rewrite
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.events import Events
from lakekeeper.engine.merge.committer import Committer, Landed
from lakekeeper.engine.state.leases import registered_run
from lakekeeper.spi import Adapter, Commit
from lakekeeper.testing.harness import (
    Harness,
    Selected,
    needs,
    recluster,
    rewrite,
    task_for,
)
from lakekeeper.testing.snapshot_contract import KV, keys
from lakekeeper.testing.values import fingerprint

BATCHES = [keys(1, 4, 7), keys(2, 3, 3), keys(5, 6, 8), keys(3, 9)]
_OPTIONS: Options = resolve({"commit.quiet-window-ms": 0, "replay.max-deleted-ratio": 1.0})

DELETES = {
    "equal rows of several files": (["k = 3"], 3),
    "a whole file": (["k = 1 or k = 4 or k = 7"], 3),
    "three winners": (["k = 1", "k >= 2 and k <= 5", "k = 8"], 8),
}


def commit(harness: Harness, adapter: Adapter[Any], made: Rewrite, snapshot: Snapshot) -> Landed:
    """What the engine does with a rewrite: rebase, replay, commit."""
    events = Events(adapter.table, "contract")
    run_id, clock, timeout_ms = "contract-1", Clock(), _OPTIONS.vacuum.lease_timeout_ms
    with registered_run(adapter, run_id, snapshot, clock, timeout_ms) as registration:
        committer = Committer(
            adapter, harness.runner, snapshot, run_id, _OPTIONS, events, clock, registration
        )
        return committer.commit([made])


class ReplayContract(Selected):
    """A delete of another writer commits before our rewrite, or our own delete does."""

    @pytest.mark.parametrize("name", DELETES)
    def test_deletes_that_won_are_replayed(self, harness: Harness, name: str) -> None:
        wheres, count = DELETES[name]
        table = harness.create(KV, BATCHES)
        adapter = table.adapter()
        snapshot = adapter.snapshot(["k"])
        made = rewrite(harness, adapter, task_for(snapshot))
        for where in wheres:
            table.delete(where)
        rows = fingerprint(table.rows())
        assert len(rows) == 11 - count
        landed = commit(harness, adapter, made, snapshot)
        assert landed.commit is not None, [d.reason for d in landed.dropped]
        assert [r.replayed for r in landed.kept] == [count]
        assert fingerprint(table.rows()) == rows
        assert fingerprint(table.rows(snapshot.version)) == fingerprint(keys(1, 4, 7, 2, 3, 3, 5, 6, 8, 3, 9))
        assert table.leftovers() == set()

    def test_a_row_that_was_deleted_before_is_not_counted_twice(self, harness: Harness) -> None:
        table = harness.create(KV, BATCHES)
        table.delete("k = 4 or k = 6")
        adapter = table.adapter()
        snapshot = adapter.snapshot(["k"])
        made = rewrite(harness, adapter, task_for(snapshot))
        table.delete("k = 7 or k = 4")
        rows = fingerprint(table.rows())
        landed = commit(harness, adapter, made, snapshot)
        assert [r.replayed for r in landed.kept] == [1]
        assert fingerprint(table.rows()) == rows
        assert len(table.rows()) == 8

    def test_winners_between_attempts_are_replayed_from_what_was_written(self, harness: Harness) -> None:
        """Each attempt loses to one more delete, after its replay and before its commit."""
        table = harness.create(KV, BATCHES)
        adapter = table.adapter()
        snapshot = adapter.snapshot(["k"])
        made = rewrite(harness, adapter, task_for(snapshot))
        left = ["k = 1", "k = 3", "k = 8"]
        real = adapter.commit

        def raced(rewrites: Sequence[Rewrite], snapshot: Snapshot, run_id: str) -> Commit:
            if left:
                table.delete(left.pop(0))
            return real(rewrites, snapshot, run_id)

        adapter.commit = raced  # type: ignore[method-assign]  # a race on this one adapter
        landed = commit(harness, adapter, made, snapshot)
        assert landed.retries == 3
        assert [r.replayed for r in landed.kept] == [5]
        assert fingerprint(table.rows()) == fingerprint(keys(4, 7, 2, 5, 6, 9))
        assert table.leftovers() == set()

    def test_a_foreign_rewrite_of_all_inputs_drops_the_group(self, harness: Harness) -> None:
        table = harness.create(KV, BATCHES)
        adapter = table.adapter()
        snapshot = adapter.snapshot(["k"])
        made = rewrite(harness, adapter, task_for(snapshot))
        table.rewrite_foreign()
        rows, before = fingerprint(table.rows()), table.leftovers()
        landed = commit(harness, adapter, made, snapshot)
        assert landed.commit is None
        assert [type(d) for d in landed.dropped] == [Dropped]
        assert fingerprint(table.rows()) == rows
        assert table.leftovers() <= before

    @needs("row_deletes")
    def test_deletes_stay_deletes_in_the_next_rewrite(self, harness: Harness) -> None:
        table = harness.create(KV, BATCHES)
        adapter = table.adapter()
        snapshot = adapter.snapshot(["k"])
        made = rewrite(harness, adapter, task_for(snapshot))
        table.delete("k = 3")
        commit(harness, adapter, made, snapshot)
        table.delete("k = 5")
        rows = fingerprint(table.rows())
        recluster(harness, table, level=2)
        assert fingerprint(table.rows()) == rows
        assert len(rows) == 7

    def test_tidying_a_tidy_table_commits_nothing(self, harness: Harness) -> None:
        table = harness.create(KV, BATCHES)
        adapter = table.adapter()
        snapshot = adapter.snapshot(["k"])
        assert adapter.deletes.tidy(snapshot, "run-1").version is None
        assert adapter.snapshot(["k"]).version == snapshot.version
