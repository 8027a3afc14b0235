"""Reads in several threads, which wait for storage or decode without the GIL."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

_THREADS = 8
_NAME = "lakekeeper-rows"
_In = TypeVar("_In")
_Out = TypeVar("_Out")


def in_parallel(work: Callable[[_In], _Out], items: Iterable[_In]) -> list[_Out]:
    """Results in input order."""
    wanted = list(items)
    if len(wanted) <= 1:
        return [work(item) for item in wanted]
    with ThreadPoolExecutor(min(_THREADS, len(wanted)), thread_name_prefix=_NAME) as pool:
        return list(pool.map(work, wanted))


def read_ahead(
    work: Callable[[_In], _Out], items: Iterable[_In], size: Callable[[_In], int], most: int
) -> Iterator[_Out]:
    """Results in input order, one after another, while the next ones are made.

        taken  │ being made, ``most`` bytes together, or one │ not begun

    Closing the iterator waits for those that are being made.
    """
    waiting: deque[tuple[int, Future[_Out]]] = deque()
    ahead = 0
    pool = ThreadPoolExecutor(_THREADS, thread_name_prefix=_NAME)
    try:
        for item in items:
            bytes_ = size(item)
            while waiting and (ahead + bytes_ > most or len(waiting) == _THREADS):
                done, future = waiting.popleft()
                ahead -= done
                yield future.result()
            waiting.append((bytes_, pool.submit(work, item)))
            ahead += bytes_
        while waiting:
            yield waiting.popleft()[1].result()
    finally:
        pool.shutdown(cancel_futures=True)
