"""Which delete files apply to no live data file: by sequence numbers alone. No JVM is needed."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakekeeper_iceberg.delete_files import dangling_deletes
from lakekeeper_iceberg.listing import Listing


def listing(seqs: list[int], delete_seq: int) -> Listing:
    """One data file, listed with each of these sequence numbers, and a delete file for it alone."""
    count = len(seqs)
    data = pa.table(
        {"path": ["a"] * count, "seq": seqs, "file_seq": seqs, "spec": [0] * count, "partition": [""] * count}
    )
    delete = {"path": "d", "content": 1, "seq": delete_seq, "spec": 0, "partition": ""}
    deletes = pa.Table.from_pylist(
        [delete | {"referenced": "a", "dv_offset": None, "path_low": None, "path_high": None}]
    )
    return Listing(data, deletes)


@pytest.mark.parametrize("seqs", [[5, 9], [9, 5]])
def test_a_delete_applies_to_either_entry_of_a_file_that_was_added_twice(seqs: list[int]) -> None:
    """By the entry that was listed last, it was removed, and its rows came back."""
    assert dangling_deletes(listing(seqs, 6), frozenset({0})) == set()
    assert dangling_deletes(listing(seqs, 4), frozenset({0})) == {("d", None)}
