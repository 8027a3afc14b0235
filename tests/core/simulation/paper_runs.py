"""Tables on paper for simulations, and runs over them."""

from __future__ import annotations

from lakekeeper.core.config.options import resolve
from lakekeeper.core.model.blocks import Snapshot, make_blocks
from lakekeeper.core.model.keys import ClusterKey, KeyColumn
from lakekeeper.core.planning.policy import Policy
from lakekeeper.core.simulation.commit_streams import named_stream
from lakekeeper.core.simulation.simulate import SimulationReport, simulate

MIB = 1 << 20


KEY = ClusterKey((KeyColumn(("k",), "int", "1"),))


OPTIONS = resolve()


def run(
    stream: str, policy: Policy, commits: int = 100, *, final: bool = True, every: int = 10
) -> SimulationReport:
    return simulate(named_stream(stream, commits), [policy], OPTIONS, every=every, final=final)


def table(
    lo: list[int], hi: list[int], at_s: list[float], level: list[int] | None = None, partition: str = ""
) -> Snapshot:
    """Blocks of 128 MiB at these seconds."""
    n = len(lo)
    levels = level or [0] * n
    columns = {
        "path": [f"f{i}" for i in range(n)],
        "rows": [1000] * n,
        "bytes": [128 * MIB] * n,
        "partition": [partition] * n,
        "level": levels,
        "key_id": [KEY.key_id if one else "" for one in levels],
        "lo": [lo],
        "hi": [hi],
        "null_count": [[0] * n],
        "exact": [[True] * n],
        "added_at": [int(t * 1000) + 1_700_000_000_000 for t in at_s],
    }
    return Snapshot("db.t", "memory", 3, "uuid", "0", KEY, make_blocks(columns, KEY))
