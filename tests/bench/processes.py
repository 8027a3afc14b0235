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
    """Core-seconds since the processes began, ended children included.

    ``manifests``: the part of ``jvm`` in the threads in which Iceberg reads, filters and writes several manifests.
    """

    driver: float = 0.0
    jvm: float = 0.0
    workers: float = 0.0
    manifests: float = 0.0

    @property
    def total(self) -> float:
        return self.driver + self.jvm + self.workers

    def __sub__(self, other: Cpu) -> Cpu:
        mine, its = astuple(self), astuple(other)
        return Cpu(*(now - before for now, before in zip(mine, its, strict=True)))


def cpu() -> Cpu:
    """CPU used by all processes of the session so far."""
    used = dict.fromkeys(("driver", "jvm", "workers", "manifests"), 0.0)
    for pid in _tree():
        kind = "driver" if pid == os.getpid() else "jvm" if _name(pid) == "java" else "workers"
        used[kind] += sum(map(int, _stat(pid)[11:15])) / _TICKS
        if kind == "jvm":
            used["manifests"] += _of_manifests(pid)
    return Cpu(**used)


def _of_manifests(pid: int) -> float:
    threads = [f"task/{each.name}/" for each in Path(f"/proc/{pid}/task").glob("*")]
    named = [each for each in threads if _read(pid, f"{each}comm").startswith(_MANIFESTS)]
    return sum(int(ticks) for each in named for ticks in _stat(pid, each)[11:13]) / _TICKS


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
