"""Groups within the bounds are filled one block after another."""

from __future__ import annotations

import random

import numpy as np
import pytest

from lakekeeper.core.layout.overlap_groups import fill


@pytest.mark.parametrize("seed", range(60))
def test_parts_are_filled_one_block_after_another(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randrange(30)
    owner = sorted(rng.randrange(4) for _ in range(count))
    size = [rng.randrange(12) for _ in range(count)]
    apart = [rng.random() < 0.2 for _ in range(count)]
    most, files = rng.randint(1, 30), rng.randint(2, 9)
    wanted: list[int] = []
    number, filled, held = -1, 0, 0
    for i in range(count):
        new = not i or owner[i] != owner[i - 1] or apart[i]
        if new or filled + size[i] > most or held + 1 > files:
            number, filled, held = number + 1, 0, 0
        filled, held = filled + size[i], held + 1
        wanted.append(number)
    parts = fill(
        np.array(owner, np.int64),
        np.array(size, np.int64),
        max_bytes=most,
        max_files=files,
        apart=np.array(apart, dtype=np.bool_),
    )
    assert (parts - (parts[0] if count else 0)).tolist() == wanted
