"""An interrupted call stops its jobs and commits nothing, and the next call succeeds."""

from __future__ import annotations

import _thread
from collections.abc import Mapping
from typing import Any

import pytest

from tests.formats.lakes import Lake
from tests.oracles.spark_jobs import Phases


def test_an_interrupt_stops_the_work_and_commits_nothing(lake: Lake) -> None:
    name = lake.overlapping(5, 200)
    table = lake.table(name)
    table.cluster_by("k")
    rows, versions, phases = lake.fingerprint(name), lake.versions(name), Phases()

    def interrupt(phase: str, info: Mapping[str, Any]) -> None:
        phases(phase, info)
        if phase == "read":  # a worker thread calls this while the main thread waits
            _thread.interrupt_main()

    with pytest.raises(KeyboardInterrupt):
        table.recluster(observer=interrupt)

    scala: Any = lake.spark.sparkContext._jsc.sc()
    scala.listenerBus().waitUntilEmpty()  # the status store learns of job ends asynchronously
    tracker = lake.spark.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(j) for j in tracker.getJobIdsForGroup(phases.run_id)]
    assert "RUNNING" not in {job.status for job in jobs if job is not None}
    assert "committed" not in phases.names
    assert lake.versions(name) == versions
    assert lake.fingerprint(name) == rows
    assert table.recluster().changed
    assert lake.fingerprint(name) == rows
