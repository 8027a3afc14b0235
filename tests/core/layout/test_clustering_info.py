"""The figures of clustering information."""

from __future__ import annotations

from hypothesis import given, settings

from lakekeeper.core.layout.clustering_info import measure
from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.testing.strategies import snapshots
from tests.sampling import fewer


@settings(max_examples=fewer(50), derandomize=True, deadline=None)
@given(snapshots())
def test_information_adds_up(snapshot: Snapshot) -> None:
    found = measure(snapshot)
    assert found.total_partition_count == len(snapshot.blocks)
    assert sum(found.partition_depth_histogram.values()) == found.total_partition_count
    assert sum(found.levels.values()) == found.total_partition_count
    assert found.average_depth >= (1.0 if len(snapshot.blocks) else 0.0)
    assert found.max_depth <= found.total_partition_count
    assert found.total_constant_partition_count <= found.total_partition_count
