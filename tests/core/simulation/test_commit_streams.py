"""Named streams of commits: the same on every machine."""

from __future__ import annotations

import numpy as np
import pytest

from lakekeeper.core.simulation.commit_streams import STREAMS, Uniform, named_stream
from lakekeeper.errors import OptionError


def _splitmix(state: int) -> int:
    z = (state + 0x9E3779B97F4A7C15) % 2**64
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % 2**64
    return z ^ (z >> 31)


def test_numbers_are_even_and_the_same_on_every_machine() -> None:
    drawn = Uniform(7)(100_000)
    assert _splitmix(1234567) == 6457827717110365317, "the published test vector"
    assert drawn[:2].tolist() == [
        (_splitmix((7 << 40) + i * 0x9E3779B97F4A7C15) >> 11) / 2**53 for i in (0, 1)
    ]
    assert drawn.mean() == pytest.approx(0.5, abs=0.005)
    assert np.histogram(drawn, 20)[0].min() > 4700
    assert np.corrcoef(drawn[1:], drawn[:-1])[0, 1] == pytest.approx(0, abs=0.01)
    assert abs(Uniform(7)(50) - Uniform(8)(50)).min() > 0


def test_the_streams_match_their_names() -> None:
    commits = 400
    spread = {}
    for name in STREAMS:
        keys = named_stream(name, commits).keys
        assert keys is not None
        assert keys.min() >= 0
        spread[name] = keys
    step = np.arange(commits)[:, None] / commits
    assert np.median(np.ptp(spread["wide"], axis=1)) > 0.97
    assert 0.03 < (spread["late"] < step).mean() < 0.06
    assert (spread["jitter"] < step).mean() == pytest.approx(1 - 0.21, abs=0.1)
    assert (spread["time"][1:, 0] > spread["time"][:-1, -1]).all()
    assert np.median(np.ptp(spread["windows"], axis=1)) < 0.2
    assert (np.median(spread["backfill"], axis=1) < step[:, 0]).mean() == pytest.approx(0.1, abs=0.02)


@pytest.mark.parametrize(
    "stream, commits, seed, names",
    [("wid", 10, 0, "did you mean 'wide'"), ("wide", 0, 0, "1 to 100,000"), ("wide", 10, -1, "seed")],
)
def test_an_unknown_stream_is_named(stream: str, commits: int, seed: int, names: str) -> None:
    with pytest.raises(OptionError, match=names):
        named_stream(stream, commits, seed=seed)
