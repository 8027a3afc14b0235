"""Data-skipping statistics of files that lack them: satisfies ``spi.Statistics``.

    version 7   a: statistics    b: none    c: none
    version 8   b, c: add, with dataChange=false and statistics; no remove

A file is outdated if it has no row count, or no statistics on a column that they are wanted of. All rows of a file are
read, including deleted ones, since its deletes may change without its statistics: those of a file with deletes have
``tightBounds=false``, as after a delete of Delta's own. The expression is Delta's own too. The operation is COMPUTE
STATS, after which Delta counts no file twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakekeeper.core.model.keys import ClusterKey
from lakekeeper.core.model.reason import Reason
from lakekeeper.errors import OptionError, Rejected
from lakekeeper.spi import Computed, Outdated
from lakekeeper_delta import exact_json
from lakekeeper_delta.blocks import is_foreign, leaf, refuse_foreign, struct_of
from lakekeeper_delta.char_columns import holds_char
from lakekeeper_delta.columns import Found, indexed, physical_step
from lakekeeper_delta.commit import attempt, commit_tags, preparing
from lakekeeper_delta.file_marks import vector_id
from lakekeeper_delta.json_commits import commits_between
from lakekeeper_delta.known_state import add_files, all_files, live_add_files
from lakekeeper_delta.native import Log, State
from lakekeeper_delta.row_counts import physical_rows
from lakekeeper_delta.row_positions import file_and_position, spelled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST_FILES = 5_000
"""Files of one commit: the driver holds an action of each."""
_NAMED_COLUMNS = "delta.dataSkippingStatsColumns"
_FILE = "__lakekeeper_file"
_COMPLETE = "every file has the required statistics"
_LACKING = "{files:count file} without the required statistics"
_REPLACED = "\ufffd"  # JSON has it in place of bytes that are not UTF-8

Key = Callable[[State, Sequence[str] | None], tuple[ClusterKey | None, Sequence[Found], str]]


@dataclass(frozen=True, slots=True)
class _Files:
    """Files without statistics, as (path, bytes), and the version that they are read in."""

    state: State
    files: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class _Described:
    """Path → (id of the deletes when it was read, statistics as JSON)."""

    state: State
    stats: Mapping[str, tuple[str, str]]


class DeltaStatistics:
    """Computes statistics of one table.

    ``newest`` returns the newest version of a supported table, ``key`` the key of named columns, or the table's own.
    """

    def __init__(self, log: Log, newest: Callable[[], State], key: Key) -> None:
        self._log, self._newest, self._key = log, newest, key

    def find(self, columns: Sequence[str] | None, min_changed_ratio: float) -> Outdated:
        """See ``spi.Statistics.find``. The statistics of a file do not age, so the ratio is not used."""
        from pyspark.sql import functions as F
        from pyspark.sql import types as T

        state = self._newest()
        wanted = sorted(self._wanted(state, columns))
        schema = T.StructType([T.StructField("numRecords", T.LongType())])
        if wanted:
            schema = schema.add("nullCount", struct_of(dict.fromkeys(wanted, T.LongType())))
        stats = F.from_json("stats", schema)
        count = stats.getField("numRecords")
        lacks = count.isNull()
        for path in wanted:  # a file without rows has no NULL counts
            lacks = lacks | ((count > 0) & leaf(stats.getField("nullCount"), path).isNull())
        lacking = all_files(self._log, state).where(lacks)
        table = self._log.jvm.to_arrow(lacking.select("path", "size", is_foreign().alias("foreign")))
        refuse_foreign(self._log, table)
        files = sorted((str(row["path"]), int(row["size"])) for row in table.to_pylist())
        return _outdated(_Files(state, tuple(files)))

    def _wanted(self, state: State, columns: Sequence[str] | None) -> set[tuple[str, ...]]:
        """Physical paths of the columns that each file must have statistics on.

        Not of each column that new files have statistics on: files lack those on columns that were added since.
        """
        counted = indexed(state, "nullCount")
        if columns is None and _NAMED_COLUMNS in state.properties:
            return counted
        found = self._key(state, columns)[1]
        partitions = [each.column.name for each in found if each.partition]
        if columns is not None and partitions:
            raise OptionError(
                "columns", partitions[0], "a column of the files: partition values are in the log"
            )
        return {each.physical for each in found if not each.partition} & counted

    def compute(self, outdated: Outdated, most_bytes: int, run_id: str) -> Computed:
        """See ``spi.Statistics.compute``."""
        state, files = outdated.native.state, outdated.native.files
        count, size = 0, 0
        while count < min(len(files), MOST_FILES) and (not count or size + files[count][1] <= most_bytes):
            size += files[count][1]
            count += 1
        stats = self._computed(state, [path for path, _ in files[:count]])
        return Computed(count, size, _outdated(_Files(state, files[count:])), native=_Described(state, stats))

    def _computed(self, state: State, paths: Sequence[str]) -> dict[str, tuple[str, str]]:
        log = self._log
        adds = {str(add.path()): add for add in add_files(log, state, paths)}
        whole = log.jvm.array_list([log.edited(add, deletionVector=None) for add in adds.values()])
        counted = self._by_file(state, log.scan(state, whole))
        names = spelled(log, paths)
        empty = [path for path in paths if names[path] not in counted]
        rows = physical_rows(log, state, empty, masked=empty) if empty else {}
        unbounded = _char_columns(state)
        found: dict[str, tuple[str, str]] = {}
        for path, add in adds.items():
            plain = counted.get(names[path])
            if plain is None:
                if rows[path]:
                    raise Rejected(f"{log.name}: Spark read no row of {path}, which has {rows[path]:,} rows")
                plain = {"numRecords": 0}
            vector = json.loads(add.json())["add"].get("deletionVector")
            found[path] = (vector_id(vector), _as_text(plain, unbounded, masked=vector is not None))
        return found

    def _by_file(self, state: State, frame: DataFrame) -> dict[str, dict[str, Any]]:
        """File, as Spark spells it → statistics by Delta's own expression."""
        from pyspark.sql import functions as F

        jvm = self._log.jvm
        file, _ = file_and_position(self._log, frame)
        named: Any = frame.withColumn(_FILE, file)
        with jvm.active():
            collector = state.snapshot.statsCollector().alias("stats")
        grouped = named._jdf.groupBy(_FILE, jvm.array(jvm.view.java.lang.String, []))
        made = grouped.agg(collector, jvm.array(jvm.view.org.apache.spark.sql.Column, []))
        texts = jvm.dataframe(made).select(_FILE, F.to_json("stats", {"timeZone": "UTC"}).alias("stats"))
        return {str(row[_FILE]): exact_json.loads(row["stats"]) for row in texts.collect()}

    def commit(self, computed: Computed, run_id: str) -> int | None:
        """See ``spi.Statistics.commit``. By Delta's rules, a commit that removes one of the files first wins."""
        log, described = self._log, computed.native
        with preparing(log, "the statistics"):
            now = self._newest()
            if (now.table_uuid, now.schema_id) != (described.state.table_uuid, described.state.schema_id):
                return None
            live, actions = log.jvm.array_list([]), log.jvm.array_list([])
            for add in self._live(now, described.stats):
                live.add(add)
                stats = described.stats[str(add.path())][1]
                actions.add(log.edited(add, stats=stats, dataChange=False))
            if not live.size():
                return None
            transaction = log.transaction(now)
            transaction.trackFilesRead(log.scala_seq(live))
            operation = getattr(log.delta, "DeltaOperations$ComputeStats")(log.jvm.seq([]))
            tags = commit_tags(log, now, run_id)
        return attempt(log, transaction, now, actions, operation, tags, run_id)

    def _live(self, now: State, stats: Mapping[str, tuple[str, str]]) -> list[Any]:
        """AddFiles of a version for the files that have the deletes which they had when they were read."""
        return [
            add
            for add in live_add_files(self._log, now, stats)
            if vector_id(json.loads(add.json())["add"].get("deletionVector")) == stats[str(add.path())][0]
        ]

    def landed(self, computed: Computed, run_id: str) -> int | None:
        """See ``spi.Statistics.landed``."""
        since = commits_between(self._log, computed.native.state.version, self._log.latest().version)
        return next((winner.version for winner in since.winners if winner.run_id == run_id), None)

    def discard(self, computed: Computed) -> None:
        """Statistics are in the log alone."""


def _outdated(found: _Files) -> Outdated:
    count = len(found.files)
    why = Reason.of("statistics_missing", _LACKING, files=count)
    complete = Reason.of("statistics_complete", _COMPLETE)
    size = sum(size for _, size in found.files)
    return Outdated(found.state.version, count, size, why if count else complete, found)


def _as_text(stats: Mapping[str, Any], unbounded: Collection[str], *, masked: bool) -> str:
    """Statistics as JSON, without bounds of some columns; of a file with deletes they may be too wide."""
    plain = dict(stats)
    lo, hi = _true_bounds(stats.get("minValues", {}), stats.get("maxValues", {}))
    for part, bounds in (("minValues", lo), ("maxValues", hi)):
        if part in plain:
            plain[part] = {name: bound for name, bound in bounds.items() if name not in unbounded}
    if masked:
        plain["tightBounds"] = False
    return exact_json.dumps(plain)


def _true_bounds(lo: Mapping[str, Any], hi: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Bounds without those of text that is not UTF-8: U+FFFD sorts after the bytes that it replaces."""
    lows, highs = dict(lo), dict(hi)
    for name in {*lo, *hi}:
        ends = [side[name] for side in (lo, hi) if name in side]
        if any(isinstance(end, Mapping) for end in ends):
            lows[name], highs[name] = _true_bounds(lo.get(name, {}), hi.get(name, {}))
        elif any(isinstance(end, str) and _REPLACED in end for end in ends):
            lows.pop(name, None)
            highs.pop(name, None)
    return lows, highs


def _char_columns(state: State) -> frozenset[str]:
    """Physical names of columns with a CHAR, whose values Spark pads when it reads them; other readers do not."""
    fields = state.schema["fields"]
    return frozenset(physical_step(state, field) for field in fields if holds_char(field))
