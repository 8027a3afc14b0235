"""Whether the time of a function grows in step with the length of its text."""

from __future__ import annotations

import time
from collections.abc import Callable

LARGEST = 100_000
_SMALLEST, _STEP = 40, 1.3  # small steps: an exponential function is found before it takes minutes
_LEAST_S = 50e-6  # what a call takes at least, so that the noise of a busy machine does not count
_FACTOR = 40  # a linear function takes about 1; a quadratic one exceeds it well before the largest text


def assert_linear(work: Callable[[str], object], text: Callable[[int], str]) -> None:
    """``work`` takes a time in proportion to the characters of ``text(n)``, which has about ``n`` of them."""
    each = max(_took(work, text(_SMALLEST), tries=5), _LEAST_S) / _SMALLEST
    size = float(_SMALLEST)
    while size < LARGEST:
        size = min(size * _STEP, LARGEST)
        limit = _FACTOR * each * size
        took = _took(work, text(int(size)), tries=3, enough=limit)
        assert took <= limit, (
            f"{int(size)} characters took {took:.2f} s; in proportion, at most {limit:.2f} s"
        )


def _took(work: Callable[[str], object], text: str, tries: int, enough: float = 0.0) -> float:
    """The CPU seconds of the fastest of several calls, or of the first that is fast enough."""
    best = float("inf")
    for _ in range(tries):
        began = time.process_time()
        work(text)
        best = min(best, time.process_time() - began)
        if best <= enough:
            break
    return best
