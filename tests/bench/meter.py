"""What a stretch of work costs a session: CPU of its tasks, CPU of its JVM, and the memory that its tasks took."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Meter:
    """Sums over all stretches.

    task_seconds   CPU of the tasks (executorCpuTime)
    jvm_seconds    CPU of the whole JVM: planning, commits, compilation and garbage collection too
    peak_bytes     the most execution memory that the tasks of one stage took at their peaks
    """

    spark: Any
    task_seconds: float = 0.0
    jvm_seconds: float = 0.0
    peak_bytes: int = 0

    def __post_init__(self) -> None:
        self._pid = int(self.spark.sparkContext._jvm.ProcessHandle.current().pid())
        self._last = -1

    @contextmanager
    def running(self) -> Iterator[None]:
        """Measure what happens inside."""
        self._stages()
        before = self._jvm_seconds()
        yield
        self.jvm_seconds += self._jvm_seconds() - before
        for cpu, peak in self._stages():
            self.task_seconds += cpu
            self.peak_bytes = max(self.peak_bytes, peak)

    def _jvm_seconds(self) -> float:
        fields = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def _stages(self) -> list[tuple[float, int]]:
        """(CPU seconds, peak execution memory) of the stages that ended since the last call."""
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
            found.append((int(stage.executorCpuTime()) / 1e9, int(stage.peakExecutionMemory())))
        self._last = newest
        return found
