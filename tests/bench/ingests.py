"""Simulated tables under ingest for the regret bench: what is written, when, and which keys queries look up.

Sizes, positions and times are drawn once from a seed. Nothing here was chosen by a policy's results: the second set,
``HELD_OUT``, has other seeds and other shapes, and figures are printed for both.

    ingest ─► arrivals, commit by commit (``commit_streams``)   ask(t) ─► positions of point queries after commit t
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from lakekeeper.core.simulation.commit_streams import STREAMS, Arrivals, named_stream
from lakekeeper.core.units import Floats, Ints

MIB = 1 << 20
COMMITS = 500
MINUTE_MS = 60_000
QUERIES = 200
_KEPT = 60_000  # keys that queries are sampled from


@dataclass(frozen=True, eq=False)
class Ingest:
    """One table: its arrivals, and the point queries after each commit.

    place      the code of the partition that all queries filter on; None if queries are spread like the data
    upserts    each commit also has an equality delete for its keys: rows of the keys ``0 … universe`` (see
               ``tests.bench.upserts``)
    """

    name: str
    arrivals: Arrivals
    place: int | None = None
    upserts: bool = False
    _sample: dict[str, Any] = field(default_factory=dict)

    def ask(self, commit: int) -> Floats:
        """Positions of the point queries after a commit: at even quantiles of all data written so far."""
        keys, block = self._kept()
        a = self.arrivals
        upto = int(np.searchsorted(block, a.edges[commit + 1]))
        there = np.sort(keys[:upto])
        if self.place is not None:
            there = there[(there >= 2.0 * self.place) & (there <= 2.0 * self.place + 1)]
        if not len(there):
            return there
        shares = (np.arange(QUERIES) + 0.5) / QUERIES
        return np.asarray(there[(shares * len(there)).astype(np.int64)])

    def _kept(self) -> tuple[Floats, Ints]:
        """Some keys of each block, in order, and the number of the block."""
        if not self._sample:
            keys = self.arrivals.keys
            if keys is None:
                raise AssertionError("ingests have keys")
            few = max(1, keys.size // _KEPT)
            rng = np.random.default_rng(1)
            at = np.argsort(rng.random(keys.shape), axis=1)[:, : max(2, keys.shape[1] // few)]
            picked = np.take_along_axis(keys, at, axis=1)
            known = ~np.isnan(picked.ravel())
            self._sample["keys"] = picked.ravel()[known]
            self._sample["block"] = np.repeat(np.arange(len(keys)), picked.shape[1])[known]
        return self._sample["keys"], self._sample["block"]


def arrivals_of(
    keys: Floats,
    size: int | Ints = 128 * MIB,
    *,
    files: int = 1,
    present: int = 0,
    edges: Ints | None = None,
    at_ms: Ints | None = None,
    place: Ints | None = None,
    digits: tuple[int, ...] = (),
) -> Arrivals:
    """Arrivals of B blocks with (B, K) keys, ``files`` per commit unless ``edges`` are given."""
    keys = np.sort(keys, axis=1)
    n = len(keys)
    where = np.zeros(n, np.int64) if place is None else place
    if place is not None:
        keys = keys + 2.0 * place[:, None]  # each partition in a range of its own
    return Arrivals(
        name="",
        edges=np.arange(0, n + 1, files, dtype=np.int64) if edges is None else edges,
        lo=keys[:, 0].copy(),
        hi=keys[:, -1].copy(),
        rows=np.full(n, keys.shape[1], np.int64),
        bytes=np.full(n, size, np.int64) if isinstance(size, int) else size,
        place=where,
        places=tuple((f"p={i}", 0) for i in range(int(where.max()) + 1)) if place is not None else (("", 0),),
        keys=keys,
        present=present,
        at_ms=at_ms,
        digits=digits,
    )


def uneven(rng: np.random.Generator, commits: int) -> Ints:
    """Random commit times: a minute apart on average, with eight quiet hours after each sixteen."""
    at = np.cumsum(rng.exponential(MINUTE_MS, commits))
    return np.asarray(at + (at // (16 * 60 * MINUTE_MS)) * 8 * 60 * MINUTE_MS + MINUTE_MS, np.int64)


# ------------------------------------------------------------------------------------------------ the streams


def named(name: str, seed: int, commits: int = COMMITS) -> Arrivals:
    """One of the six streams of ``lakekeeper simulate``, with full files."""
    return named_stream(name, commits, seed=seed)


def wide(seed: int, size: int | Ints, commits: int = COMMITS, keys: int = 128) -> Arrivals:
    """Each commit is one file over the whole key."""
    rng = np.random.default_rng(seed)
    return arrivals_of(rng.random((commits, keys)), size, at_ms=uneven(rng, commits))


def lognormal(seed: int, median: int, spread: float) -> Arrivals:
    """Files over the whole key, of random sizes."""
    rng = np.random.default_rng(seed + 100)
    size = np.maximum(rng.lognormal(np.log(median), spread, COMMITS), 10_000).astype(np.int64)
    return wide(seed, np.minimum(size, 480 * MIB))


def mixed(seed: int) -> Arrivals:
    """Small files, and occasionally one large load."""
    rng = np.random.default_rng(seed + 100)
    size = np.where(rng.random(COMMITS) < 0.02, 400 * MIB, MIB).astype(np.int64)
    return wide(seed, size)


def hot(seed: int, cold: int, low: float, high: float, commits: int = 300) -> Arrivals:
    """A large table in the order of its key; all commits fall into one hundredth of it."""
    rng = np.random.default_rng(seed)
    there = (np.arange(cold)[:, None] + rng.random((cold, 16))) / cold
    fresh = low + (high - low) * rng.random((commits, 16))
    edges = np.concatenate([[0], cold + np.arange(commits + 1)])
    return arrivals_of(np.concatenate([there, fresh]), present=1, edges=edges)


def drift(seed: int, width: float = 0.1) -> Arrivals:
    """Commits cover a tenth of the key, at a position that moves over it and back."""
    rng = np.random.default_rng(seed)
    centre = 0.5 + 0.45 * np.sin(2 * np.pi * 2.5 * np.arange(COMMITS) / COMMITS)
    keys = centre[:, None] + width * (rng.random((COMMITS, 128)) - 0.5)
    return arrivals_of(np.clip(keys, 0, 1), at_ms=uneven(rng, COMMITS))


def zipf(seed: int, power: float, values: int = 2000) -> Arrivals:
    """Few keys have most of the rows; the hot keys are anywhere."""
    rng = np.random.default_rng(seed)
    weight = np.arange(1, values + 1, dtype=np.float64) ** -power
    drawn = rng.choice(values, size=(COMMITS, 128), p=weight / weight.sum())
    return arrivals_of(rng.permutation(values)[drawn] / values)


def compound(seed: int, digits: tuple[int, ...]) -> Arrivals:
    """Wide commits under a key of several columns, with some tens of values each."""
    rng = np.random.default_rng(seed)
    ranks = rng.integers(0, int(np.prod(digits)), (COMMITS, 128)).astype(np.float64)
    return arrivals_of(ranks, digits=digits, at_ms=uneven(rng, COMMITS))


def partitions(seed: int, count: int, files: int) -> Arrivals:
    """A table of ``count`` partitions; each commit adds a file to some of them."""
    rng = np.random.default_rng(seed)
    place = np.concatenate([rng.permutation(count)[:files] for _ in range(COMMITS)])
    return arrivals_of(rng.random((len(place), 32)), 32 * MIB, files=files, place=place)


def resting(seed: int, commits: int, idle: int) -> Arrivals:
    """A table that is written for a while, in overlapping ranges, and queried for much longer."""
    written = named_stream("windows", commits, seed=seed)
    edges = np.concatenate([written.edges, np.full(idle, written.edges[-1])])
    return replace(written, edges=edges)


def small_in_order(seed: int, size: int, commits: int = 2 * COMMITS) -> Arrivals:
    """Small files in time order."""
    rng = np.random.default_rng(seed)
    keys = (np.arange(commits)[:, None] + rng.random((commits, 32))) / commits
    return arrivals_of(keys, size, at_ms=uneven(rng, commits))


def loads(seed: int, files: int, every: int) -> Arrivals:
    """A load of many files over the whole key, occasionally."""
    rng = np.random.default_rng(seed)
    edges = files * -(-np.arange(COMMITS + 1) // every)
    return arrivals_of(rng.random((int(edges[-1]), 64)), edges=edges)


def reversed_time(seed: int) -> Arrivals:
    """History backfilled in reverse order, with late rows."""
    forward = named("late", seed)
    if forward.keys is None:
        raise AssertionError("named streams have keys")
    return arrivals_of(forward.keys.max() - forward.keys[:, ::-1], forward.bytes)


def two_tenants(seed: int) -> Arrivals:
    """Two ranges of the key, one written each minute and one each hour."""
    rng = np.random.default_rng(seed)
    rare = np.arange(COMMITS) % 60 == 0
    keys = np.where(rare[:, None], 0.6, 0.0) + 0.4 * rng.random((COMMITS, 128))
    return arrivals_of(keys, np.where(rare, 480 * MIB, 16 * MIB).astype(np.int64), at_ms=uneven(rng, COMMITS))


def upserts(seed: int, size: int, commits: int = COMMITS) -> Arrivals:
    """A table of 40 full files in the order of its key; each commit has rows for existing keys."""
    rng = np.random.default_rng(seed)
    base = (np.arange(40)[:, None] + (np.arange(512) + 0.5) / 512) / 40
    few = 512 * size // (128 * MIB)  # the sampled keys of a file are proportional to its bytes
    fresh = np.full((commits, 512), np.nan)
    fresh[:, :few] = np.sort(rng.choice(base.ravel(), (commits, few)), axis=1)
    edges = np.concatenate([[0], 40 + np.arange(commits + 1)])
    bytes_ = np.concatenate([np.full(40, 128 * MIB), np.full(commits, size)])
    made = arrivals_of(np.concatenate([base, fresh]), bytes_, present=1, edges=edges)
    return replace(made, hi=np.nanmax(np.concatenate([base, fresh]), axis=1))


def _plain(name: str, make: Callable[[], Arrivals], **more: Any) -> Callable[[], Ingest]:
    return lambda: Ingest(name, make(), **more)


def _named(name: str, seed: int) -> Callable[[], Arrivals]:
    return lambda: named(name, seed)


def _listed(found: Mapping[str, Callable[[], Arrivals]], **more: Any) -> dict[str, Callable[[], Ingest]]:
    return {name: _plain(name, make, **more) for name, make in found.items()}


INGESTS: Mapping[str, Callable[[], Ingest]] = MappingProxyType(
    _listed({name: _named(name, 0) for name in STREAMS})
    | _listed(
        {
            "small files": lambda: wide(1, MIB, 2 * COMMITS, 64),
            "medium files": lambda: wide(2, 16 * MIB),
            "lognormal files": lambda: lognormal(3, 16 * MIB, 1.5),
            "mixed files": lambda: mixed(4),
            "hot range": lambda: hot(5, 10_000, 0.50, 0.51),
            "drift": lambda: drift(6),
            "zipf": lambda: zipf(7, 1.1),
            "2 columns": lambda: compound(8, (20, 1000)),
            "3 columns": lambda: compound(9, (12, 20, 1000)),
            "4 columns": lambda: compound(10, (6, 10, 20, 1000)),
            "rest": lambda: resting(11, COMMITS // 2, 2 * COMMITS),
            "small, in order": lambda: small_in_order(12, MIB // 4),
        }
    )
    | {
        "partitions": _plain("partitions", lambda: partitions(13, 300, 10), place=7),
        "upserts": _plain("upserts", lambda: upserts(14, 8 * MIB), upserts=True),
    }
)
"""The streams that the bench reports on."""

HELD_OUT: Mapping[str, Callable[[], Ingest]] = MappingProxyType(
    _listed({f"{name}, other seed": _named(name, 5) for name in ("wide", "late", "windows")})
    | _listed(
        {
            "tiny files": lambda: wide(21, MIB // 8, 2 * COMMITS, 64),
            "files of 48 MiB": lambda: wide(22, 48 * MIB),
            "lognormal, wider": lambda: lognormal(23, 4 * MIB, 2.2),
            "hot range in 3,000": lambda: hot(24, 3_000, 0.10, 0.13),
            "drift, narrow": lambda: drift(25, 0.02),
            "zipf, steep": lambda: zipf(26, 1.6),
            "2 columns, few values": lambda: compound(27, (3, 50)),
            "3 columns, many values": lambda: compound(28, (400, 30, 30)),
            "rest after 100": lambda: resting(29, 100, 1000),
            "loads of 40": lambda: loads(30, 40, 50),
            "reversed time": lambda: reversed_time(31),
            "two tenants": lambda: two_tenants(32),
        }
    )
    | {
        "40 partitions": _plain("40 partitions", lambda: partitions(33, 40, 3), place=3),
        "upserts of 2 MiB": _plain("upserts of 2 MiB", lambda: upserts(34, 2 * MIB), upserts=True),
    }
)
"""The further streams, reported separately."""

ALL: Mapping[str, Callable[[], Ingest]] = MappingProxyType({**INGESTS, **HELD_OUT})
