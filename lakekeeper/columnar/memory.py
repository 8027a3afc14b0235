"""How a worker takes memory from the kernel: with few page faults.

To take 4 KB that the process returned before costs a fault: up to 7 µs on a virtual machine whose host reclaims free
memory.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

_SET_THP_DISABLE, _GET_THP_DISABLE = 41, 42  # prctl(2)
_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # mallopt(3)
_DEFAULTS = {_TRIM_THRESHOLD: 128 * 1024, _MMAP_MAX: 65_536}


@contextmanager
def few_page_faults() -> Iterator[None]:
    """Keep freed memory in the process until the end, in small pages. Without effect except on Linux with glibc."""
    with _small_pages(), _kept():
        yield


@contextmanager
def _kept() -> Iterator[None]:
    """Let Arrow and NumPy share one heap, from which nothing returns to the kernel before the end.

    Arrow's allocator returns what was free for 10 ms, and glibc each large array: the pages of one batch were returned,
    and taken again for the next. Half a merge of 700 MB had 770,000 faults, and has 260,000 now: 9% of its CPU.
    """
    mallopt, trim = _of_libc("mallopt"), _of_libc("malloc_trim")
    if mallopt is None or trim is None:
        yield
        return
    pool = pa.default_memory_pool()
    mallopt(_MMAP_MAX, 0)
    mallopt(_TRIM_THRESHOLD, 2**31 - 1)
    pa.set_memory_pool(pa.system_memory_pool())
    try:
        yield
    finally:
        pa.set_memory_pool(pool)
        for option, value in _DEFAULTS.items():
            mallopt(option, value)
        trim(0)


@contextmanager
def _small_pages() -> Iterator[None]:
    """Keep the kernel from backing this process with huge pages.

    Arrow's allocator asks for them. The kernel then looks for two contiguous megabytes, and compacts memory or takes
    what was never touched, where small pages that were just freed would do. The first merge of a worker, 250 MB, took
    3.7 seconds of the kernel in this way on a virtual machine, and 0.8 without; later ones differ little.
    """
    prctl = _of_libc("prctl")
    if prctl is None or prctl(_GET_THP_DISABLE, 0, 0, 0, 0) != 0:
        yield
        return
    prctl(_SET_THP_DISABLE, 1, 0, 0, 0)
    try:
        yield
    finally:
        prctl(_SET_THP_DISABLE, 0, 0, 0, 0)


def _of_libc(name: str) -> Callable[..., Any] | None:
    return getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None
