"""The contract of ``statistics`` and ``bloom_filters``: what is due is found, and is done once."""

from __future__ import annotations

from lakekeeper.testing.harness import RUN, Harness, Selected, needs, recluster
from lakekeeper.testing.optional_methods import extra
from lakekeeper.testing.snapshot_contract import KV, keys
from lakekeeper.testing.values import fingerprint

ALL = 1 << 40
"""More bytes than a table of a test has."""


class StatisticsContract(Selected):
    """What the calls that change no row do for readers."""

    @needs("append_undescribed")
    def test_statistics_are_computed_once(self, harness: Harness) -> None:
        table = harness.create(KV, [])
        for number in (1, 2):
            extra(table).append_undescribed(keys(number, number + 5))
        table.delete("k = 6")
        rows, files = fingerprint(table.rows()), sorted(table.adapter().snapshot().blocks.path.to_pylist())
        statistics = table.adapter().statistics
        due = statistics.find(["k"], 0.1)
        assert due.files > 0
        assert due.bytes > 0
        made = statistics.compute(due, ALL, RUN)
        assert (made.files, made.rest.files) == (due.files, 0)
        assert statistics.landed(made, RUN) is None
        version = statistics.commit(made, RUN)
        assert version is not None
        assert table.adapter().statistics.landed(made, RUN) == version
        assert table.adapter().statistics.find(["k"], 0.1).files == 0
        assert fingerprint(table.rows()) == rows
        assert sorted(table.adapter().snapshot().blocks.path.to_pylist()) == files
        assert table.leftovers() == set()

    @needs("append_undescribed")
    def test_statistics_of_files_that_are_gone_are_discarded(self, harness: Harness) -> None:
        table = harness.create(KV, [])
        extra(table).append_undescribed(keys(1, 6))
        statistics = table.adapter().statistics
        made = statistics.compute(statistics.find(["k"], 0.1), ALL, RUN)
        table.overwrite(keys(3))
        statistics.discard(made)
        assert statistics.landed(made, RUN) is None
        assert fingerprint(table.rows()) == fingerprint(keys(3))
        assert table.leftovers() == set()

    @needs("filter_column")
    def test_files_without_a_filter_are_found_until_they_are_rewritten(self, harness: Harness) -> None:
        table = harness.create(KV, [keys(1, 2), keys(3)])
        assert table.adapter().bloom_filters.columns() == ()
        extra(table).filter_column("v")
        filters = table.adapter().bloom_filters
        assert filters.columns() == ("v",)
        files = {block.path: block.bytes for block in table.adapter().snapshot().blocks}
        assert filters.missing({}) == frozenset()
        assert filters.missing(files) == frozenset(files)
        recluster(harness, table)
        files = {block.path: block.bytes for block in table.adapter().snapshot().blocks}
        assert table.adapter().bloom_filters.missing(files) == frozenset()
