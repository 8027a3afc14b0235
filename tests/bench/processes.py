"""CPU and memory of the processes of a session: the driver, its JVM, and the Python workers below it."""

from __future__ import annotations

import os
import re
from dataclasses import astuple, dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_MANIFESTS = "iceberg-worker-"  # the kernel cuts "iceberg-worker-pool-0"


@dataclass(frozen=True, slots=True)
class Cpu:
    """Core-seconds since the processes began, those of ended workers included.

    ``manifests``: the part of ``jvm`` in the threads in which Iceberg reads, filters and writes several manifests;
    ``ended``: its part in threads that have ended, such as those in which a vacuum of Iceberg reads manifests;
    ``kernel``: the part of all in the kernel, such as for the first touch of memory.
    """

    driver: float = 0.0
    jvm: float = 0.0
    workers: float = 0.0
    manifests: float = 0.0
    ended: float = 0.0
    kernel: float = 0.0

    @property
    def total(self) -> float:
        return self.driver + self.jvm + self.workers

    def __sub__(self, other: Cpu) -> Cpu:
        pairs = zip(astuple(self), astuple(other), strict=True)
        # Whole ticks, as the kernel counts: the rounding errors of floats could make a part greater than its total.
        return Cpu(*(round((now - before) * _TICKS) / _TICKS for now, before in pairs))


# By process id and start. Spark ends a worker that is idle for a minute, and its parent ignores SIGCHLD, so that the
# kernel adds the CPU of the worker to no other process.
_workers: dict[tuple[int, str], tuple[float, float]] = {}


def cpu() -> Cpu:
    """CPU used by all processes of the session so far; of an ended worker, as much as the last call saw."""
    used = dict.fromkeys(("driver", "jvm", "manifests", "ended", "kernel"), 0.0)
    for pid in _tree():
        stat, kind = _stat(pid), "driver" if pid == os.getpid() else "jvm"
        if kind == "driver" or _name(pid) == "java":
            used[kind] += _seconds(stat[11:15])
            used["kernel"] += _seconds(stat[12:15:2])
            if kind == "jvm":
                used["manifests"] += _of_threads(pid, _MANIFESTS)
                used["ended"] += _seconds(stat[11:13]) - _of_threads(pid)
        elif stat:
            _workers[pid, stat[19]] = _seconds(stat[11:13]), _seconds(stat[12:13])
    used["kernel"] += sum(kernel for _, kernel in _workers.values())
    return Cpu(**used, workers=sum(total for total, _ in _workers.values()))


def _seconds(ticks: list[str]) -> float:
    return sum(map(int, ticks)) / _TICKS


def _of_threads(pid: int, name: str = "") -> float:
    """CPU of the live threads whose names begin so."""
    threads = [f"task/{each.name}/" for each in Path(f"/proc/{pid}/task").glob("*")]
    named = [each for each in threads if _read(pid, f"{each}comm").startswith(name)]
    return sum(_seconds(_stat(pid, each)[11:13]) for each in named)


def peak_of_workers_mb() -> int:
    """The peak memory of a single Python worker so far."""
    return max([0, *(_peak_mb(pid) for pid in _tree()[1:] if _name(pid).startswith("python"))])


def peak_mb() -> tuple[int, int]:
    """The peak memory of this driver and its JVM so far."""
    return _peak_mb(os.getpid()), max([0, *(_peak_mb(pid) for pid in _tree()[1:] if _name(pid) == "java")])


def _peak_mb(pid: int) -> int:
    return max([0, *(int(kb) >> 10 for kb in re.findall(r"VmHWM:\s+(\d+) kB", _read(pid, "status")))])


def _tree() -> list[int]:
    """This process and all below it."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (stat := _stat(int(entry.name))):
            parents[int(entry.name)] = int(stat[1])
    found, frontier = [os.getpid()], [os.getpid()]
    while frontier:
        frontier = [pid for pid, parent in parents.items() if parent in frontier and pid not in found]
        found += frontier
    return found


def _stat(pid: int, thread: str = "") -> list[str]:
    """The fields after the name of a process or of a ``thread`` below it; empty for one that has ended."""
    return _read(pid, f"{thread}stat").rpartition(")")[2].split()


def _name(pid: int) -> str:
    return _read(pid, "comm").strip()


def _read(pid: int, file: str) -> str:
    try:
        return Path(f"/proc/{pid}/{file}").read_text()
    except OSError:
        return ""
