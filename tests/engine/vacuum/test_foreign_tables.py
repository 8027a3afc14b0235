"""Another table inside or around this one: when unsure, files stay, and the search for orphans is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from lakekeeper.engine.vacuum.foreign_tables import Neighbours
from lakekeeper.errors import AdapterError, RetentionError


@dataclass
class Catalog:
    """A storage that finds these tables, or does not answer; counts the queries and the runs they are for."""

    found: Sequence[str] = ()
    down: bool = False
    calls: list[tuple[str, ...] | None] = field(default_factory=list)

    def foreign_tables(self, runs: Sequence[str] | None = None) -> Sequence[str]:
        self.calls.append(None if runs is None else tuple(runs))
        if self.down:
            raise AdapterError("503 Slow Down")
        return self.found


def beside(catalog: Any) -> Neighbours:
    return Neighbours("db.t", catalog)


def test_a_table_on_its_own_may_be_listed() -> None:
    neighbours = beside(Catalog())
    neighbours.refuse_orphans()
    assert neighbours.around(["r-1"]) == ""


def test_another_table_forbids_orphans_and_holds_the_files_of_dead_runs() -> None:
    four = Catalog([f"s3://lake/t/{n}" for n in range(4)])
    with pytest.raises(RetentionError, match=r"s3://lake/t/0, .*t/2 and 1 more.*nothing was deleted"):
        beside(four).refuse_orphans()
    why = beside(four).around(["r-1"])
    assert (
        why
        == "another table is inside or around this one (s3://lake/t/0, s3://lake/t/1, s3://lake/t/2 and 1 more)"
    )


def test_a_failed_query_never_means_that_there_is_no_table() -> None:
    with pytest.raises(AdapterError, match="503"):
        beside(Catalog(down=True)).refuse_orphans()
    assert "is not known (503 Slow Down)" in beside(Catalog(down=True)).around([])


def test_the_catalog_is_queried_once_unless_further_runs_come() -> None:
    catalog = Catalog()
    neighbours = beside(catalog)
    for runs in (["a", "b"], ["a"], [], ["b", "a"]):
        assert neighbours.around(runs) == ""
    assert catalog.calls == [("a", "b")]
    neighbours.around(["a", "c"])
    assert catalog.calls == [("a", "b"), ("a", "c")]


def test_a_query_for_the_whole_table_covers_later_ones() -> None:
    catalog = Catalog()
    neighbours = beside(catalog)
    for _ in range(3):
        neighbours.refuse_orphans()
        assert neighbours.around(["a", "b"]) == ""
    assert catalog.calls == [None]


def test_a_query_for_some_runs_does_not_cover_the_whole_table() -> None:
    catalog = Catalog()
    neighbours = beside(catalog)
    neighbours.around(["a"])
    catalog.found = ["s3://lake/t/inner"]
    with pytest.raises(RetentionError, match="inner"):
        neighbours.refuse_orphans()
