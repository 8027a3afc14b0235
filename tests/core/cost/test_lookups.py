"""Which queries are lookups and which blocks they open, against a check of every query on every block."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from lakekeeper.core.cost.lookups import lookups_of
from lakekeeper.core.model.blocks import Snapshot, make_blocks
from lakekeeper.core.model.keys import ClusterKey, KeyColumn
from lakekeeper.core.workload.workload import Scan, Span, collect

KEY = ClusterKey((KeyColumn(("k",), "int", "1"),))

VALUES = st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True)
QUERIES = st.builds(
    lambda values, column, form, key: (values, column, form, key),
    VALUES,
    st.sampled_from(["note", "NOTE", "other"]),
    st.sampled_from(["lookup", "range", "null", "parsed in part"]),
    st.none() | st.integers(0, 49),
)


@settings(deadline=None)
@given(queries=st.lists(QUERIES, min_size=1, max_size=6))
def test_lookups_of_one_column(queries: list[tuple[list[str], str, str, int | None]]) -> None:
    boxes = [(10 * i, 10 * i + 9) for i in range(5)]
    columns = {
        "path": [f"f{i}" for i in range(5)], "rows": [100] * 5, "bytes": [1 << 20] * 5,
        "lo": [[a for a, _ in boxes]], "hi": [[b for _, b in boxes]], "null_count": [[0] * 5], "exact": [[True] * 5],
    }  # fmt: skip
    snapshot = Snapshot("t", "memory", 1, "uuid", "schema", KEY, make_blocks(columns, KEY))
    scans, opened, counts = [], [0] * 5, []
    for values, column, form, key in queries:
        span = {"range": Span("a", None), "null": Span(null=True)}.get(form)
        filters = {column: (span,) if span else tuple(Span(v, v) for v in values)}
        if key is not None:
            filters["k"] = (Span(key, key),)
        scans.append(Scan(0, filters, understood=form != "parsed in part"))
        if form == "lookup" and column.lower() == "note":
            counts.append(len(values))
            for i, (lo, hi) in enumerate(boxes):
                opened[i] += key is None or lo <= key <= hi
    found = lookups_of(snapshot, collect("t", scans, source="test"), ("Note",), 0)
    if not counts:
        assert found is None
        return
    assert found is not None
    assert [round(share * len(scans), 6) for share in found.share.tolist()] == opened
    assert abs(found.values - sum(counts) / len(counts)) < 1e-9


def test_of_two_columns_the_one_with_fewer_values_counts() -> None:
    columns = {"path": ["f"], "rows": [100], "bytes": [1 << 20]}
    snapshot = Snapshot("t", "memory", 1, "uuid", "schema", None, make_blocks(columns, None))
    filters = {"a": (Span(1, 1), Span(2, 2)), "b": (Span(1, 1),)}
    found = lookups_of(snapshot, collect("t", [Scan(0, filters)], source="test"), ("a", "b"), 0)
    assert found is not None
    assert (found.values, found.share.tolist()) == (1.0, [1.0])
