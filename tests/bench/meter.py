"""The cost of some work in a session: CPU of its tasks, CPU of its JVM, and the memory of its tasks.

Tasks either read a table's files (sampling, sorting and writing included) or its log: the first is the cost of merging,
the second the cost of planning, even if there is nothing to merge. Iceberg's own procedures plan in the driver.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.bench.processes import cpu

# How plans name scans of data files. Scans of logs: DeltaLogFileIndex, Delta Table State, ice.db.t.entries.
_DATA = ("TahoeBatchFileIndex", "IcebergStagedScan")


@dataclass
class Meter:
    """Sums over all measured blocks.

    task_seconds   CPU of the tasks (executorCpuTime) and of their Python workers, in which columnar merges run
    merge_seconds  CPU of the tasks whose SQL execution reads data files of a table, and of Python workers
    jvm_seconds    CPU of the whole JVM: planning, commits, compilation and garbage collection too
    peak_bytes     the peak execution memory of the tasks of one stage
    """

    spark: Any
    task_seconds: float = 0.0
    merge_seconds: float = 0.0
    jvm_seconds: float = 0.0
    peak_bytes: int = 0

    def __post_init__(self) -> None:
        self._last = -1

    @contextmanager
    def running(self) -> Iterator[None]:
        """Measure the block."""
        self._stages()
        before = cpu()
        yield
        used = cpu() - before
        self.jvm_seconds += used.jvm
        self.task_seconds += used.workers
        self.merge_seconds += used.workers
        stages = self._stages()
        merging = self._merging() if stages else set()
        for number, seconds, peak in stages:
            self.task_seconds += seconds
            self.merge_seconds += seconds if number in merging else 0.0
            self.peak_bytes = max(self.peak_bytes, peak)

    def _merging(self) -> set[int]:
        """Numbers of the stages of all executions that read data files."""
        found: set[int] = set()
        store = self.spark._jsparkSession.sharedState().statusStore()
        executions = store.executionsList()
        for i in range(executions.size()):
            execution = executions.apply(i)
            plan = str(execution.physicalPlanDescription())
            if any(scan in plan for scan in _DATA):
                found.update(map(int, re.findall(r"\d+", str(execution.stages()))))
        return found

    def _stages(self) -> list[tuple[int, float, int]]:
        """(number, CPU seconds, peak execution memory) of the stages that ended since the last call."""
        context = self.spark.sparkContext
        scala = context._jsc.sc()
        scala.listenerBus().waitUntilEmpty()
        jvm = context._jvm
        doubles = context._gateway.new_array(jvm.double, 0)
        stages = scala.statusStore().stageList(None, False, False, doubles, jvm.java.util.ArrayList())
        found, newest = [], self._last
        for i in range(stages.size()):
            stage = stages.apply(i)
            number = int(stage.stageId())
            if number <= self._last:
                continue
            newest = max(newest, number)
            found.append((number, int(stage.executorCpuTime()) / 1e9, int(stage.peakExecutionMemory())))
        self._last = newest
        return found
