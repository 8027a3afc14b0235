"""Choices, tasks and plans: the decisions of policies, the work that carries them out, and their text.

    plan ─┬─► MergeTask ─► Rewrite ─┐
          ├─► MergeTask ─► Rewrite ─┼─► Commit        any subset of the rewrites may be committed
          └─► MergeTask ─► Rewrite ─┘

A plan is plain data that pins the version it was made for; its tasks are self-contained and serialize to JSON.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, overload

import numpy as np
import pyarrow as pa

from lakekeeper.core.model.benefit import Worth
from lakekeeper.core.model.blocks import Bools, Index
from lakekeeper.core.model.boundaries import Boundaries, boundaries_from
from lakekeeper.core.model.coefficients import Coefficients
from lakekeeper.core.model.file_merge import files_for
from lakekeeper.core.model.keys import ClusterKey, key_from_json, key_to_json
from lakekeeper.core.model.plan_html import plan_html
from lakekeeper.core.model.plan_table import plan_table
from lakekeeper.core.model.plan_text import render_plan
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.result_frame import frame
from lakekeeper.core.text.result import Result
from lakekeeper.core.units import Floats, Ints

FROZEN = -1
ON_CURVE = -1
SORTED_BYTES = 128 << 20
"""Bytes of Parquet that a Spark task sorts without spilling where it has a gigabyte for its rows."""


@dataclass(frozen=True, slots=True, eq=False)
class Merge:
    """Merge these blocks into one sorted run at ``level``.

    score      ranks the merges of one policy (higher first)
    reason     the rule that chose it, with its numbers
    packs      the merge serves queries that read everything: it reduces the number of files, not the bytes that a
               query opens
    added_ms   mean time (ms since the epoch) at which the merged data was added, if a size bound cut this merge out of
               a larger one; else 0
    """

    blocks: Index
    level: int
    score: float
    reason: Reason
    packs: bool = False
    added_ms: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Freeze:
    """These blocks are full and constant in the key: no merge can improve them."""

    blocks: Index
    reason: Reason


@dataclass(frozen=True, slots=True, eq=False)
class Skip:
    """These blocks were considered and left unchanged, for this reason."""

    blocks: Index
    reason: Reason


Choice = Merge | Freeze | Skip


@dataclass(frozen=True, slots=True)
class MergeTask:
    """One self-contained merge: all that is needed to read, sort and write its blocks.

    inputs, delete_ids   the logical files (path, deletes in force) as of ``read_version``
    input_rows           physical rows; ``live_rows`` excludes deleted ones, None where the log does not record them
    least_rows           a lower bound of the live rows
    key                  sort order; None keeps rows in the order of the inputs
    input_level, level   the highest level among the inputs, and the level of the outputs
    target_bytes/_rows   where an output is cut, whichever comes first; ``max_bytes`` is never exceeded
    cut_column, cuts     values of that key column (JSON form) at which a columnar merge of a large group is cut into
                         ranges, one Spark task each. ``cut_column = ON_CURVE``: positions on the key's curve
    boundaries           maps rows to curve positions, for a key that follows a curve; else None
    score                the policy's rank of the merge
    added_ms             for a part of a merge that a size bound cut: mean time (ms since the epoch) at which the merged
                         data was added, so that the next round continues the merge; else 0
    worth                predicted benefit, on a scale that compares across tables and policies
    """

    id: str
    policy: str
    table: str
    table_uuid: str
    read_version: int
    inputs: tuple[str, ...]
    delete_ids: tuple[str, ...]
    partition: str
    spec: int
    key: ClusterKey | None
    input_level: int
    level: int
    target_bytes: int
    target_rows: int | None
    max_bytes: int
    input_bytes: int
    input_rows: int
    live_rows: int | None
    score: float
    reason: Reason
    cut_column: int = 0
    cuts: tuple[Any, ...] = ()
    boundaries: Boundaries | None = None
    worth: Worth | None = None
    added_ms: int = 0
    least_rows: int = 0

    @property
    def row_ranges(self) -> int:
        """Ranges into which a merge by rows is cut, one Spark task each: no fewer than the cuts say.

        One makes a file of the target size, or as many smaller files as a task sorts in memory.
        """
        if self.key is None:
            return 1
        return max(len(self.cuts) + 1, files_for(self.input_bytes / max(self.target_bytes, SORTED_BYTES)))

    @property
    def label(self) -> str:
        """What the task is, beside its jobs."""
        return f"{self.table} group {self.id}: {self.reason}"

    def to_json(self) -> str:
        """One JSON object; :meth:`from_json` restores an equal task."""
        data = {
            **asdict(self),
            "key": key_to_json(self.key) if self.key else None,
            "reason": self.reason.to_dict(),
        }
        return json.dumps(data, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> MergeTask:
        """Inverse of :meth:`to_json`; raises ValueError, TypeError or KeyError for invalid input."""
        data = json.loads(text)
        data["key"] = key_from_json(data["key"]) if data["key"] else None
        data["reason"] = Reason.from_dict(data["reason"])
        kept = data.get("boundaries")
        data["boundaries"] = boundaries_from(kept) if kept else None
        data["worth"] = Worth.from_dict(data["worth"]) if data.get("worth") else None
        for name in ("inputs", "delete_ids", "cuts"):
            data[name] = tuple(data[name])
        return cls(**data)


def _plain(task: MergeTask) -> dict[str, Any]:
    """A task as readable plain data: its boundaries are replaced by their id."""
    named = task.boundaries.id if task.boundaries else None
    return {**json.loads(replace(task, boundaries=None).to_json()), "boundaries": named}


class Tasks(Sequence[MergeTask]):
    """Tasks built on access: of 10⁵ tasks, a printed plan shows only the first few.

    sizes            bytes that each task reads
    packs            whether each task serves queries that read everything
    members, edges   positions of their blocks in the planned snapshot: task ``i`` reads
                     ``members[edges[i]:edges[i + 1]]``, in the order of its inputs
    """

    def __init__(
        self,
        make: Callable[[int], MergeTask],
        sizes: Sequence[int],
        members: Index,
        edges: Ints,
        packs: Bools,
    ) -> None:
        self._make = make
        self._made: dict[int, MergeTask] = {}
        self.sizes = sizes
        self.members = members
        self.edges = edges
        self.packs = packs

    def weighed(self, worths: Sequence[Worth]) -> Tasks:
        """The same tasks, each with its predicted benefit."""
        make = self._make
        return Tasks(
            lambda i: replace(make(i), worth=worths[i]), self.sizes, self.members, self.edges, self.packs
        )

    def __len__(self) -> int:
        return len(self.sizes)

    @overload
    def __getitem__(self, at: int) -> MergeTask: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[MergeTask, ...]: ...
    def __getitem__(self, at: int | slice) -> MergeTask | tuple[MergeTask, ...]:
        numbers = range(len(self.sizes))[at]
        if isinstance(numbers, range):
            return tuple(self[i] for i in numbers)
        if numbers not in self._made:
            self._made[numbers] = self._make(numbers)
        return self._made[numbers]

    def __iter__(self) -> Iterator[MergeTask]:
        return (self[i] for i in range(len(self)))  # an IndexError of make propagates

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))


def task_id(table_uuid: str, version: int, inputs: tuple[str, ...]) -> str:
    """Twelve hex digits: the same inputs at the same version have the same id, in any order."""
    digest = hashlib.sha256(f"{table_uuid}|{version}|".encode())
    for path in sorted(inputs):
        digest.update(path.encode() + b"\0")
    return digest.hexdigest()[:12]


@dataclass(frozen=True, slots=True, eq=False)
class Left:
    """Blocks that were considered and left unchanged: how many, how large (bytes), why, and which.

    ``at`` are their positions in ``named``, the paths of all blocks of the planned snapshot; ``level`` is -1 for frozen
    blocks, else None; ``files_per_query`` is how many of them a query opens on average, None if not predicted.
    """

    reason: Reason
    blocks: int
    bytes: int
    at: Index
    named: pa.Array
    level: int | None = None
    files_per_query: float | None = None

    @property
    def frozen(self) -> bool:
        """Whether these are full blocks that are constant in the key: no merge can improve them."""
        return self.level == FROZEN

    @property
    def paths(self) -> pa.Array:
        """Paths of the blocks, as an Arrow array of text."""
        return self.named if len(self.at) == len(self.named) else self.named.take(pa.array(self.at))

    def to_dict(self) -> dict[str, Any]:
        """Plain data without the paths: a plan of a large table can leave a million blocks."""
        plain = ("blocks", "bytes", "level", "files_per_query")
        return {"reason": self.reason.to_dict(), **{name: getattr(self, name) for name in plain}}


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """The predicted benefit of a plan, and the basis of the prediction.

    worth      benefit for the whole table: what a query reads now, and once all tasks are done
    basis      which queries, and how many per hour
    scanned    share of the recorded scans with a filter that could not be parsed; they count as full scans
    costs      the coefficients (bytes per opened file, share of columns read …) and the error of their fit
    error      median relative error of the predicted files, over the scans that reported theirs; None if none did
    path, bytes, share    N blocks, their sizes, and the share of the queries that opens each
    """

    worth: Worth
    basis: str
    scanned: float
    costs: Coefficients
    error: float | None
    path: pa.Array
    bytes: Ints
    share: Floats

    def to_dict(self) -> dict[str, Any]:
        """Plain data without the blocks."""
        plain = {name: getattr(self, name) for name in ("basis", "scanned", "error")}
        return {**plain, **self.worth.to_dict(), "costs": self.costs.to_dict()}


@dataclass(frozen=True, slots=True, eq=False)
class Plan(Result):
    """What a run will do and what it leaves, for one version. ``str(plan)`` explains it.

    ``depth`` is the mean block depth before the run; ``drawing`` shows the deepest stretch of the key as text;
    ``prediction`` is what queries gain from the plan, if requested.
    """

    table: str
    version: int | None
    key: str
    policies: tuple[str, ...]
    tasks: Sequence[MergeTask]
    left: tuple[Left, ...]
    blocks: int
    bytes: int
    depth: float
    levels: Mapping[int, int] = field(default_factory=dict)
    drawing: str = ""
    prediction: Prediction | None = None

    @property
    def input_bytes(self) -> int:
        """Bytes that the tasks read."""
        if isinstance(self.tasks, Tasks):
            return sum(self.tasks.sizes)
        return sum(task.input_bytes for task in self.tasks)

    @property
    def input_files(self) -> int:
        """Files that the tasks read."""
        if isinstance(self.tasks, Tasks):
            return len(self.tasks.members)
        return sum(len(task.inputs) for task in self.tasks)

    def without_blocks(self) -> Plan:
        """Its numbers and reasons, without tasks and blocks: it holds nothing of the snapshot, which may be large."""
        none, no_paths = np.zeros(0, np.int64), pa.array([], pa.string())
        left = tuple(replace(each, at=none, named=no_paths) for each in self.left)
        known = self.prediction
        if known is not None:
            known = replace(known, path=no_paths, bytes=none, share=np.zeros(0))
        return replace(self, tasks=(), left=left, prediction=known)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; for the blocks left, only counts and bytes by reason."""
        tasks = [_plain(task) for task in self.tasks]
        left = [item.to_dict() for item in self.left]
        plain = {n: getattr(self, n) for n in ("table", "version", "key", "blocks", "bytes", "depth")}
        return {
            **plain,
            "policies": list(self.policies),
            "levels": dict(self.levels),
            "tasks": tasks,
            "left": left,
            "prediction": self.prediction.to_dict() if self.prediction else None,
        }

    def rows(self) -> pa.Table:
        """One row per live block; for the columns see :func:`lakekeeper.core.model.plan_table.plan_table`."""
        return plan_table(self)

    def to_frame(self, spark: Any) -> Any:
        """:meth:`rows` as a DataFrame of the session ``spark``."""
        return frame(spark, self.rows())

    def __str__(self) -> str:
        return render_plan(self)

    def _repr_html_(self) -> str:
        return plan_html(self)
