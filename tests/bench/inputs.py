"""Inputs of the benchmark: the same rows for every contestant, written once as Parquet and then appended.

folder/commit-0000/part-0.parquet   k double, id bigint, payload string      one file of one commit

Besides the named streams there are two with a load before the first counted commit:

    hot range    200 files in the order of the key; all commits fall into a hundredth of it
    upserts      40 files with each key once; a commit has new rows for some of these keys
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakekeeper.core.simulation.commit_streams import Arrivals, named_stream
from lakekeeper.core.units import Floats
from tests.bench.ingests import arrivals_of

ROW_BYTES = 84  # in a file: a double, a bigint, 64 random digits
_SAMPLED = 128  # keys of a file that queries are sampled from


@dataclass(frozen=True)
class Inputs:
    """A stream on disk; ``arrivals`` has a sample of its keys, from which queries are drawn.

    With ``upserts`` a commit replaces the rows with its keys.
    """

    folder: Path
    stream: str
    commits: int
    files: int
    arrivals: Arrivals
    rows: int
    bytes: int
    id_sum: int
    digest: int
    upserts: bool = False

    def parts(self, commit: int) -> list[str]:
        """The files of one commit."""
        return [str(p) for p in sorted((self.folder / f"commit-{commit:04d}").glob("*.parquet"))]


def _hot_range(rng: np.random.Generator, commits: int, count: int) -> tuple[Floats, int]:
    cold = 200
    there = (np.arange(cold)[:, None] + rng.random((cold, count))) / cold
    return np.concatenate([there, 0.5 + 0.01 * rng.random((commits, count))]), cold


def _upserts(rng: np.random.Generator, commits: int, count: int) -> tuple[Floats, int]:
    loaded = 40
    keys = np.arange(loaded * count) / (loaded * count)
    fresh = np.stack([rng.choice(keys, count, replace=False) for _ in range(commits)])
    return np.concatenate([keys.reshape(loaded, count), fresh]), loaded


LOADED: Mapping[str, Callable[[np.random.Generator, int, int], tuple[Floats, int]]] = MappingProxyType(
    {"hot range": _hot_range, "upserts": _upserts}
)
"""Streams with a load: the keys of its files and of each later commit's file, and the number of its files."""


def _arrivals(stream: str, commits: int, files: int, file_bytes: int, count: int) -> Arrivals:
    if stream not in LOADED:
        return named_stream(stream, commits, files=files, file_bytes=file_bytes, keys=count)
    if files != 1:
        raise SystemExit(f"{stream}: a commit is one file")
    keys, loaded = LOADED[stream](np.random.default_rng(7), commits, count)
    edges = np.concatenate([[0], loaded + np.arange(commits + 1)])
    return arrivals_of(keys, file_bytes, present=1, edges=edges)


def write_inputs(folder: Path, stream: str, commits: int, files: int, file_bytes: int) -> Inputs:
    """Write a named stream as files of about ``file_bytes``, with unsorted rows."""
    count = max(_SAMPLED, file_bytes // ROW_BYTES)
    arrivals = _arrivals(stream, commits, files, file_bytes, count)
    keys = arrivals.keys
    if keys is None:
        raise AssertionError("streams have keys")
    rng = np.random.default_rng(7)
    digest = id_sum = size = 0
    for block, sorted_keys in enumerate(keys):
        commit = int(np.searchsorted(arrivals.edges, block, side="right")) - 1
        part = block - int(arrivals.edges[commit])
        k = rng.permutation(sorted_keys)
        ids = np.arange(block * count, (block + 1) * count, dtype=np.int64)
        where = folder / f"commit-{commit:04d}" / f"part-{part:03d}.parquet"
        where.parent.mkdir(parents=True, exist_ok=True)
        text = rng.bytes(32 * count).hex()
        payload = [text[i : i + 64] for i in range(0, len(text), 64)]
        pq.write_table(pa.table({"k": k, "id": ids, "payload": payload}), where, compression="snappy")
        digest ^= fingerprint(k, ids)
        id_sum += int(ids.sum())
        size += where.stat().st_size
    sample = keys[:, :: max(1, count // _SAMPLED)]
    sampled = replace(arrivals, keys=np.ascontiguousarray(sample))
    upserts, rows = stream == "upserts", len(keys) * count
    return Inputs(folder, stream, arrivals.commits, files, sampled, rows, size, id_sum, digest, upserts)


def fingerprint(
    k: np.ndarray[tuple[int], np.dtype[np.float64]], ids: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> int:
    """A number independent of row order: a row that is lost, doubled or changed changes it."""
    mixed = k.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15) ^ ids.astype(np.uint64) * np.uint64(
        0xBF58476D1CE4E5B9
    )
    mixed ^= mixed >> np.uint64(29)
    return int(np.bitwise_xor.reduce(mixed * np.uint64(0x94D049BB133111EB)))
