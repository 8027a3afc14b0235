"""Advice on the cluster key: whether another key serves the workload better, by how much, and when it pays back.

    workload ─► columns that queries filter ─► linear keys of one or two of them, curves over two or three
    each key ─► a simulated re-sort of the table ─► files and bytes per query ─► gain ─► work / gain

A key is judged by the table as it would be after one full re-sort. The model assumes that columns are independent of
one another, and that text has many different values, since the statistics of blocks do not show how many there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations, permutations
from typing import Any

import numpy as np
import pyarrow.compute as pc

from lakekeeper.core.config.options import Options
from lakekeeper.core.cost.advice_text import render_advice
from lakekeeper.core.cost.prediction import basis
from lakekeeper.core.cost.read_model import Groups
from lakekeeper.core.cost.scoring import Scale, scale_of
from lakekeeper.core.cost.workload_reads import WorkloadReads
from lakekeeper.core.layout.levels import partition_group
from lakekeeper.core.model.benefit import Load, Worth
from lakekeeper.core.model.blocks import BlockSet, Snapshot
from lakekeeper.core.model.keys import LAYOUTS, ClusterKey, KeyColumn
from lakekeeper.core.text.formatting import counted
from lakekeeper.core.text.result import Result
from lakekeeper.core.workload.workload import Workload
from lakekeeper.errors import OptionError

CANDIDATES = 4
"""The number of columns that are considered: as many as one key can have."""

_BETTER = 0.1  # share of the cost of a query: a smaller gain is within the error of the prediction


@dataclass(frozen=True, slots=True)
class Candidate:
    """One key, and what a re-sort of the whole table by it would be worth.

    columns, layout   the arguments of ``cluster_by``
    present           whether it is the key of the table
    worth             before: the table as it is; after: once re-sorted by this key
    """

    columns: tuple[str, ...]
    layout: str
    present: bool
    worth: Worth

    def __str__(self) -> str:
        names = ", ".join(self.columns)
        return f"({names})" if self.layout == "linear" else f"{self.layout}({names})"


@dataclass(frozen=True, slots=True)
class Advice(Result):
    """What another key would bring to one table.

    now          what a query reads of the table as it is
    candidates   keys, the cheapest for the workload first
    best         the recommended key; None where the present key, or no key at all, serves as well
    filtered     column → share of the scans that filter it
    missing      column → why it is not a candidate
    """

    table: str
    version: int | None
    key: str
    basis: str
    now: Load
    candidates: tuple[Candidate, ...]
    best: Candidate | None
    filtered: Mapping[str, float]
    missing: Mapping[str, str]
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""

        def plain(one: Candidate) -> dict[str, Any]:
            return {
                "columns": list(one.columns),
                "layout": one.layout,
                "present": one.present,
                **one.worth.to_dict(),
            }

        names = ("table", "version", "key", "basis")
        return {
            **{name: getattr(self, name) for name in names},
            "now": asdict(self.now),
            "candidates": [plain(one) for one in self.candidates],
            "best": plain(self.best) if self.best else None,
            "filtered": dict(self.filtered),
            "missing": dict(self.missing),
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        return render_advice(self)


def advise(
    snapshot: Snapshot,
    present: ClusterKey | None,
    workload: Workload,
    options: Options,
    now_ms: int,
    missing: Mapping[str, str],
) -> Advice:
    """Advice for a table; the key of its ``snapshot`` consists of the candidate columns, in any order.

    ``present`` is the table's own key; ``missing`` names columns that cannot be keys, and why. Raises OptionError
    for an empty workload.
    """
    if not len(workload):
        raise OptionError(
            "workload",
            workload.source or "none",
            f"scans of {snapshot.table}, but the workload contains none",
        )
    scale = scale_of(snapshot, options, now_ms, workload)
    blind = _blind(snapshot)
    found = [
        _candidate(key, snapshot, present, workload, options, now_ms, scale)
        for key in _keys(snapshot, present, workload, now_ms)
    ]
    found.sort(key=lambda one: (one.worth.after.cost, len(one.columns), one.layout != "linear"))
    listed = _listed(found)
    return Advice(
        table=snapshot.table,
        version=snapshot.version,
        key=str(present) if present else "",
        basis=basis(workload, scale),
        now=scale.present(),
        candidates=listed,
        best=_best(found, scale.present()),
        filtered=workload.filtered(now_ms),
        missing={
            **missing,
            **{c: f"no statistics in {n:.0%} of the files" for c, n in blind.items() if n == 1},
        },
        notes=_notes(workload, blind, snapshot.key, listed),
    )


def candidate_columns(workload: Workload, now_ms: int) -> list[str]:
    """Columns that queries filter by ranges or values, those that most queries filter first."""
    filtering = {
        c for scan in workload.scans for c, spans in scan.filters.items() if not any(s.whole for s in spans)
    }
    return [column for column in workload.filtered(now_ms) if column in filtering]


def _keys(
    snapshot: Snapshot, present: ClusterKey | None, workload: Workload, now_ms: int
) -> Iterator[ClusterKey]:
    """The present key if its columns are known; each column; pairs in both orders; pairs and threes on curves."""
    known = {} if snapshot.key is None else {c.name.lower(): c for c in snapshot.key.columns}
    shared = _constant_columns(snapshot)
    if present is not None and all(c.name.lower() in known for c in present.columns):
        yield replace(present, columns=tuple(known[c.name.lower()] for c in present.columns))
    names = [n.lower() for n in candidate_columns(workload, now_ms)]
    columns = [known[n] for n in names if n in known and n not in shared]
    for one in columns:
        yield ClusterKey((one,))
    for pair in permutations(columns[:3], 2):
        yield ClusterKey(pair)
    for layout in [name for name in LAYOUTS if name != "linear"]:
        for count in (2, 3):
            for several in combinations(columns[:3], count):
                yield ClusterKey(several, layout)


def _constant_columns(snapshot: Snapshot) -> set[str]:
    """In a partitioned table, columns with a single value in each file: no merge can order rows by them."""
    if snapshot.key is None:
        return set()
    found = set()
    for column, lo, hi in zip(snapshot.key.columns, snapshot.blocks.lo, snapshot.blocks.hi, strict=True):
        same = pc.all(pc.fill_null(pc.equal(lo, hi), False)).as_py()
        if same and len(set(snapshot.blocks.partitions)) > 1:
            found.add(column.name.lower())
    return found


def _candidate(
    key: ClusterKey,
    snapshot: Snapshot,
    present: ClusterKey | None,
    workload: Workload,
    options: Options,
    now_ms: int,
    scale: Scale,
) -> Candidate:
    """The worth of re-sorting everything by ``key``; the bounds of the other columns still exclude files."""
    at = [c.path for c in snapshot.key.columns] if snapshot.key else []
    chosen = [at.index(c.path) for c in key.columns]
    rest = [i for i in range(len(at)) if i not in chosen]
    beside: tuple[KeyColumn, ...] = tuple(snapshot.key.columns[i] for i in rest) if snapshot.key else ()
    blocks = _columns(snapshot.blocks, [*chosen, *rest])
    reads = WorkloadReads(blocks, key, workload, now_ms, beside)
    groups, size = _everything(blocks, options)
    found = scale.change(groups, reads.outputs(groups).files, size)
    paths = [c.path for c in key.columns]
    same = present is not None and [c.path for c in present.columns] == paths and present.layout == key.layout
    return Candidate(tuple(c.name for c in key.columns), key.layout, same, scale.everything(found))


def _columns(blocks: BlockSet, order: Sequence[int]) -> BlockSet:
    picked: dict[str, Any] = {
        name: tuple(getattr(blocks, name)[i] for i in order) for name in ("lo", "hi", "null_count", "exact")
    }
    return replace(blocks, **picked)


def _everything(blocks: BlockSet, options: Options) -> tuple[Groups, Any]:
    """All blocks, a group for each partition, as files of the target size."""
    place = partition_group(blocks)
    members = np.argsort(place, kind="stable")
    edges = np.concatenate([np.flatnonzero(np.diff(place[members], prepend=-1)), [len(members)]])
    live = np.add.reduceat(blocks.live_bytes[members].astype(np.float64), edges[:-1])
    rows = np.add.reduceat((blocks.rows - np.maximum(blocks.deleted_rows, 0))[members], edges[:-1])
    files = np.maximum(np.ceil(options.files.fullness(rows, live)), 1.0)
    return Groups(members, edges, files), live


def _best(found: Sequence[Candidate], now: Load) -> Candidate | None:
    """The cheapest key, if it costs clearly less than both the table as it is and a re-sort by the present key."""
    if not found:
        return None
    best = found[0]
    present = next((one.worth.after.cost for one in found if one.present), now.cost)
    bar = (1 - _BETTER) * min(present, now.cost)
    return None if best.present or best.worth.after.cost >= bar else best


def _listed(found: Sequence[Candidate], most: int = 8) -> tuple[Candidate, ...]:
    """The best candidates, and the current key whatever its rank."""
    unlike = list({str(one): one for one in found}.values())
    return tuple(one for i, one in enumerate(unlike) if i < most or one.present)


def _blind(snapshot: Snapshot) -> dict[str, float]:
    """Column → share of the blocks that lack its bounds; columns without such blocks are left out."""
    if snapshot.key is None or not len(snapshot.blocks):
        return {}
    found = {}
    blocks = snapshot.blocks
    for column, lo, nulls in zip(snapshot.key.columns, blocks.lo, blocks.null_count, strict=True):
        missing = ~lo.is_valid().to_numpy(zero_copy_only=False) & (nulls < blocks.rows)
        if missing.any():
            found[column.name] = float(missing.mean())
    return found


def _notes(
    workload: Workload, blind: Mapping[str, float], key: ClusterKey | None, listed: Sequence[Candidate]
) -> tuple[str, ...]:
    notes = []
    if workload.unread:
        notes.append(
            f"{counted(workload.unread, 'scan')} with filters that could not be parsed: each counts as a scan of the "
            "whole table"
        )
    notes += [
        f"{n:.0%} of the files have no statistics for {c}: every query reads them"
        for c, n in blind.items()
        if n < 1
    ]
    text = {c.name for c in key.columns if c.kind in ("string", "binary")} if key else set()
    if text & {c for one in listed for c in one.columns}:
        notes.append(
            "text has no known number of distinct values: each predicate on text counts as one value of many"
        )
    return tuple(notes)
