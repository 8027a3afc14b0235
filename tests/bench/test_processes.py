"""The CPU of a session's processes, as the benches count it."""

from __future__ import annotations

import subprocess
import sys

from tests.bench.processes import Cpu, cpu

_BUSY = "import time\nwhile time.process_time() < 0.2: pass\nprint('done', flush=True)\ninput()"


def test_the_cpu_of_an_ended_worker_is_still_counted() -> None:
    before = cpu()
    worker = subprocess.Popen([sys.executable, "-c", _BUSY], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with worker:
        assert worker.stdout is not None
        worker.stdout.readline()
        while_alive = (cpu() - before).workers
        worker.kill()
    assert while_alive > 0.1
    assert (cpu() - before).workers == while_alive


def test_the_kernels_part_is_counted_of_a_worker() -> None:
    """Each page of fresh memory is the kernel's work."""
    before = cpu()
    touched = _BUSY.replace("pass", "bytearray(64 << 20)")
    worker = subprocess.Popen([sys.executable, "-c", touched], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with worker:
        assert worker.stdout is not None
        worker.stdout.readline()
        spent = cpu() - before
        worker.kill()
    assert 0 < spent.kernel <= spent.total


def test_a_difference_is_whole_ticks() -> None:
    """0.1 + 0.2 - 0.1 is more than 0.2 in floats, so that a part was greater than its total."""
    spent = Cpu(workers=0.1 + 0.2, kernel=0.1 + 0.2) - Cpu(workers=0.1, kernel=0.1)
    assert (spent.workers, spent.kernel) == (0.2, 0.2)
