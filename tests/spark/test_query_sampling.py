"""Reading queries takes a small share of their time, and the sampled queries represent all of them."""

from __future__ import annotations

import random

import pytest

from lakekeeper.spark import query_sampling
from lakekeeper.spark.query_sampling import Sampling


class Bench:
    """Queries that take the given seconds in turn, and the sums of the weights of the sampled ones."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, cost: float, *lasting: float) -> None:
        self.now, self.cost, self.lasting = 0.0, cost, lasting
        monkeypatch.setattr(query_sampling, "perf_counter", lambda: self.now)
        self.sampling = Sampling(draw=random.Random(7).random)
        self.weights = [0.0] * len(lasting)

    def run(self, count: int) -> None:
        for number in range(count):
            kind = number % len(self.lasting)
            weight = self.sampling.weight(self.lasting[kind])
            self.weights[kind] += weight
            if weight:
                with self.sampling.reading():
                    self.now += self.cost


def test_a_session_of_few_queries_is_read_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch, 1.0, 0.001)
    bench.run(query_sampling.ALWAYS)
    assert bench.sampling.read == query_sampling.ALWAYS
    assert bench.weights == [query_sampling.ALWAYS]


def test_long_queries_are_all_read(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch, 0.005, 10.0)
    bench.run(1_000)
    assert bench.weights == [1_000]


@pytest.mark.parametrize("lasting", [(0.1,), (0.02, 0.5), (0.01, 0.01, 0.01, 3.0)])
def test_short_queries_are_sampled_and_each_kind_keeps_its_weight(
    monkeypatch: pytest.MonkeyPatch, lasting: tuple[float, ...]
) -> None:
    bench = Bench(monkeypatch, 0.005, *lasting)
    count = 40_000
    bench.run(count)
    sampling = bench.sampling
    first = query_sampling.ALWAYS * bench.cost  # always read
    assert sampling.read_s - first <= 1.1 * query_sampling.SHARE * sampling.queries_s
    assert sampling.read > query_sampling.ALWAYS
    for weight in bench.weights:
        assert weight == pytest.approx(count / len(lasting), rel=0.15)
