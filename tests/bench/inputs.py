"""Inputs of the benchmark: the same rows for every contestant, written once as Parquet and then appended.

folder/commit-0000/part-0.parquet   k double, id bigint, payload string      one file of one commit
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakekeeper.core.streams import Arrivals, named_stream

ROW_BYTES = 84  # of a file: a double, a bigint, 64 random digits
_ASKED = 128  # keys of a file that queries are drawn from


@dataclass(frozen=True)
class Inputs:
    """A stream on disk; ``arrivals`` has a sample of its keys, to draw queries from."""

    folder: Path
    stream: str
    commits: int
    files: int
    arrivals: Arrivals
    rows: int
    bytes: int
    id_sum: int
    digest: int

    def parts(self, commit: int) -> list[str]:
        """The files of one commit."""
        return [str(p) for p in sorted((self.folder / f"commit-{commit:04d}").glob("*.parquet"))]


def write_inputs(folder: Path, stream: str, commits: int, files: int, file_bytes: int) -> Inputs:
    """Write a named stream as files of about ``file_bytes``, rows in no order."""
    count = max(_ASKED, file_bytes // ROW_BYTES)
    arrivals = named_stream(stream, commits, files=files, file_bytes=file_bytes, keys=count)
    keys = arrivals.keys
    if keys is None:
        raise AssertionError("named streams have keys")
    rng = np.random.default_rng(7)
    digest = id_sum = size = 0
    for block, sorted_keys in enumerate(keys):
        commit, part = divmod(block, files)
        k = rng.permutation(sorted_keys)
        ids = np.arange(block * count, (block + 1) * count, dtype=np.int64)
        where = folder / f"commit-{commit:04d}" / f"part-{part}.parquet"
        where.parent.mkdir(parents=True, exist_ok=True)
        text = rng.bytes(32 * count).hex()
        payload = [text[i : i + 64] for i in range(0, len(text), 64)]
        pq.write_table(pa.table({"k": k, "id": ids, "payload": payload}), where, compression="snappy")
        digest ^= fingerprint(k, ids)
        id_sum += int(ids.sum())
        size += where.stat().st_size
    sample = keys[:, :: max(1, count // _ASKED)]
    asked = replace(arrivals, keys=np.ascontiguousarray(sample))
    return Inputs(folder, stream, commits, files, asked, len(keys) * count, size, id_sum, digest)


def fingerprint(
    k: np.ndarray[tuple[int], np.dtype[np.float64]], ids: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> int:
    """A number that does not depend on the order of the rows: one that is lost, doubled or mixed up changes it."""
    mixed = k.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15) ^ ids.astype(np.uint64) * np.uint64(
        0xBF58476D1CE4E5B9
    )
    mixed ^= mixed >> np.uint64(29)
    return int(np.bitwise_xor.reduce(mixed * np.uint64(0x94D049BB133111EB)))
