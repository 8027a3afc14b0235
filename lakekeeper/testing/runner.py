"""The runner of the memory adapter: sorts as Spark sorts, and splits at a task's cuts."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from lakekeeper.columnar.merge import merge
from lakekeeper.core.model.file_merge import FileMerge, WrittenFile
from lakekeeper.core.model.plan import MergeTask
from lakekeeper.core.model.reason import Reason
from lakekeeper.spi import Followed, Held, Matched, Remains, Traces
from lakekeeper.testing.curves import along_curve
from lakekeeper.testing.deletes import followed
from lakekeeper.testing.memory import Parts
from lakekeeper.testing.values import Row, Token, at_path, from_json_value, text, token


class MemoryRunner:
    """``lakekeeper.spi.Runner[Parts]``: NULL first, NaN last, −0.0 equal to 0.0, text and binary by bytes.

    ``working_now`` and ``cancelled`` show what the engine requested; ``merged`` holds the ids of tasks.
    """

    def __init__(self) -> None:
        self.merged: list[str] = []
        self.working_now: list[tuple[str, str]] = []
        self.cancelled: list[str] = []

    def merge(self, rows: Parts, task: MergeTask) -> Parts:
        """Rows in key order, one part for each range between the cuts; without a key, in the given order."""
        self.merged.append(task.id)
        together = [row for part in rows for row in part]
        if task.key is None:
            return [together]
        paths = [column.path for column in task.key.columns]
        together.sort(key=lambda row: tuple(token(at_path(row, path)) for path in paths))
        if task.boundaries is not None:
            return along_curve(together, task)
        if not task.cuts:
            return [together]
        column = task.key.columns[task.cut_column]
        cuts = [token(from_json_value(cut, column.kind)) for cut in task.cuts]
        return _split(together, cuts, column.path)

    def merge_files(self, task: FileMerge) -> Sequence[WrittenFile] | Reason:
        """The files that a Spark task would write, for adapters that support columnar merges."""
        return [file for part in range(task.parts) for file in merge(task, part)]

    def match(self, traces: Traces[Parts], most: int) -> Matched[Parts]:
        """Places of the lost rows; equal rows get the first places, one each."""
        wanted = Counter(text(row["row"]) for part in traces.lost for row in part)
        total = sum(wanted.values())
        if total > most:
            return Matched([], total, 0)
        hits: list[Row] = []
        for row in sorted(
            (r for part in traces.written for r in part), key=lambda r: (r["file"], r["position"])
        ):
            what = text(row["row"])
            if wanted[what] > 0:
                wanted[what] -= 1
                hits.append({"file": row["file"], "position": row["position"]})
        return Matched([hits], total, len(hits))

    def follow(self, remains: Remains[Parts], most: int) -> Followed:
        """The files at least half of whose rows were read, and the places of the rows that make the difference."""
        found = followed(remains)
        counts = (sum(map(len, side.values())) for side in (found.missing, found.gained))
        return Followed() if max(counts) > most else found

    def hold(self, hits: Parts) -> Held[Parts]:
        """The places, and their number by file."""
        return Held(hits, Counter(row["file"] for part in hits for row in part))

    def only(self, held: Held[Parts], files: Collection[str]) -> Held[Parts]:
        """The places in these files."""
        return self.hold([[row for row in part if row["file"] in files] for part in held.hits])

    def release(self, kept: Matched[Parts] | Held[Parts]) -> None:
        """Without effect: nothing is held beyond the value itself."""

    @contextmanager
    def working(self, run_id: str, what: str) -> Iterator[None]:
        """Record the work while it runs."""
        mark = (run_id, what)
        self.working_now.append(mark)
        try:
            yield
        finally:
            self.working_now.remove(mark)

    def cancel(self, run_id: str) -> None:
        """Record the call: here, no work outlives its thread."""
        self.cancelled.append(run_id)


def _split(rows: list[Row], cuts: list[Token], path: tuple[str, ...]) -> Parts:
    """Each row is placed left of the first cut that it does not exceed; order within a range is kept."""
    parts: Parts = [[] for _ in range(len(cuts) + 1)]
    for row in rows:
        parts[bisect_left(cuts, token(at_path(row, path)))].append(row)
    return [part for part in parts if part]
