"""Reads the inputs of a task, writes its outputs, and deletes outputs again. No reader sees any of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from lakekeeper.core.model.file_merge import FileMerge, files_for
from lakekeeper.core.model.plan import MergeTask
from lakekeeper.core.model.run_folders import level_folder, run_folder
from lakekeeper.core.planning.rewrites import Output, Rewrite
from lakekeeper.core.planning.successors import Replaced
from lakekeeper.errors import AdapterError
from lakekeeper.spark.curve import PLACE, with_place
from lakekeeper.spark.parquet_codec import codec_of
from lakekeeper.spi import Followed, Places
from lakekeeper_delta import partition_values, session_confs
from lakekeeper_delta.file_marks import CURVE_TAG, KEY_TAG, LEVEL_TAG
from lakekeeper_delta.footers import opened
from lakekeeper_delta.known_state import inputs_of
from lakekeeper_delta.native import Log, State
from lakekeeper_delta.row_positions import metadata

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PROVIDER = "lakekeeper"
FILE = "__lakekeeper_file"
_CODEC_CONF = "spark.sql.parquet.compression.codec"
_CODEC_PROPERTY = "delta.parquet.compression.codec"
_UNLIMITED = (1 << 63) - 1  # rows a file; Spark counts them in a long
_SLACK = 1.1  # ranges cut by a sample are uneven: some slack avoids a tiny last file in each


@dataclass(frozen=True, slots=True)
class Written:
    """The native half of a rewrite, as AddFile actions.

    outputs   tagged and with dataChange=false, in the order of ``Rewrite.outputs``
    inputs    the files that a commit removes: as they were read, or as of the version that a replay reached
    dead      after a replay: input path → bitmap of all deleted rows that the outputs reflect, where it checked
    masks     output path → bitmap of its deleted rows, where the driver wrote them
    known     inputs by path; ``sources`` and ``footers`` cache how the point lookup opens files, and their footers
    compared  what became of inputs that are gone, kept from one replay to the next
    moved     files with the rows that successors of inputs have gained; ``moved_from`` are these rows, file by file
    merge     what columnar workers wrote the outputs from; None if Spark's rows did
    """

    outputs: Sequence[Any]
    inputs: Sequence[Any]
    dead: Mapping[str, Any] = field(default_factory=dict)
    masks: Mapping[str, Any] = field(default_factory=dict)
    known: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, Any] = field(default_factory=dict)
    footers: dict[str, Any] = field(default_factory=dict)
    compared: dict[Replaced, Followed] = field(default_factory=dict)
    moved: Sequence[Any] = ()
    moved_from: Sequence[Places] = ()
    merge: FileMerge | None = None

    @property
    def by_path(self) -> Mapping[str, Any]:
        """The inputs by path."""
        if not self.known:
            self.known.update((str(add.path()), add) for add in self.inputs)
        return self.known


def read(log: Log, task: MergeTask) -> DataFrame:
    """The live rows of the inputs. With row tracking, two more columns carry row ids and row commit versions.

    The names of these columns are specific to the table, and they must be in the rows that are written.
    """
    state = log.at(task.read_version, task.table_uuid)
    rows: DataFrame = log.with_row_ids(state, log.scan(state, inputs_of(log, state, task.id, task.inputs)))
    return rows


def write(log: Log, rows: DataFrame, task: MergeTask, run_id: str) -> Rewrite:
    """Write files that no version references to the folder of a run. Raises what Spark raises."""
    state = log.at(task.read_version, task.table_uuid)
    listed = inputs_of(log, state, task.id, task.inputs)
    inputs = log.jvm.items(listed)
    live = task.live_rows if task.live_rows is not None else _live_rows(inputs)
    # Counts in the log can be wrong: Trino's ANALYZE records the live rows of a file as all of its rows.
    if not live and bool(log.scan(state, listed).isEmpty()):
        # Spark would leave an empty file under a name that no action records.
        return Rewrite(task, (), rows_in=0, native=Written((), inputs), run_id=run_id)
    partition = partition_values.of_task(log, state, inputs)
    folder = folder_of(task, run_id)
    codec = chosen_codec(log, state) or codec_of_inputs(log, inputs)
    cut = rows_per_file(task)
    written = write_files(log, state, rows, folder, cut, partition=partition, codec=codec)
    made = [described(log, add) for add in written]
    outputs = tuple(output for output, _ in made)
    spans = _spans(log, state, written, outputs, task)
    actions = [
        log.edited(add, **marks(state, task, data.get("tags"), spans.get(_file_name(output.path))))
        for add, (output, data) in zip(written, made, strict=True)
    ]
    return Rewrite(task, outputs, rows_in=live, native=Written(actions, inputs), run_id=run_id)


def folder_of(task: MergeTask, run_id: str) -> str:
    """The folder for the outputs of a task, relative to the table: some writers drop the tags of an AddFile."""
    run = run_folder(task.table_uuid, run_id)
    return level_folder(run, task.key.key_id if task.key else "", task.level)


def write_files(
    log: Log,
    state: State,
    rows: DataFrame,
    run: str,
    rows_per_file: int = 0,
    *,
    checked: bool = False,
    partition: Mapping[str, str | None] | None = None,
    codec: str | None = None,
) -> list[Any]:
    """Write rows as new files in the folder of a run, cut at ``rows_per_file`` (0: never); returns Delta's actions.

    Each Spark partition starts its own file; the files are in the order of the partitions. ``checked``: the rows are
    new to the table, and Delta must check them against its constraints. ``partition``: the values of all rows, as the
    log has them. ``codec``: None: that of the table or the session, else zstd.
    """
    options = {
        "maxRecordsPerFile": str(rows_per_file),
        "compression": codec or chosen_codec(log, state) or "zstd",
    }
    session = session_confs.writing(log.jvm.session)
    with log.jvm.active(session):
        dataset = log.jvm.rows_of_plan(rows._jdf.queryExecution().analyzed(), session)
        chosen = log.delta.DeltaOptions(log.jvm.map(options), session.sessionState().conf())
        made = log.writer(state, run).writeFiles(dataset, log.jvm.some(chosen), not checked, log.jvm.seq([]))
    changes = {} if partition is None else {"partitionValues": partition}
    return [log.moved(action, run, **changes) for action in log.jvm.python_list(made)]


def described(log: Log, add: Any) -> tuple[Output, dict[str, Any]]:
    """A newly written AddFile as an Output, and as plain data. Raises AdapterError if it has no row count."""
    data: dict[str, Any] = json.loads(add.json())["add"]
    records = json.loads(data.get("stats") or "{}").get("numRecords")
    if records is None:
        raise AdapterError(f"{log.name}: Delta wrote {data['path']} without counting its rows")
    return Output(data["path"], int(records), int(data["size"])), data


def _spans(
    log: Log, state: State, written: Sequence[Any], outputs: Sequence[Output], task: MergeTask
) -> dict[str, str]:
    """File name → value of its curve tag, from the key columns in the written files.

    A bounding box would cover far more of the curve than the rows do. The files are sorted along the curve, so that
    their first and last rows suffice. Empty if the key follows no curve.
    """
    if task.key is None or task.boundaries is None or not written:
        return {}
    from pyspark.sql import functions as F

    files = log.scan(state, log.jvm.array_list(written), numbered=True)
    meta = metadata(files)
    ends_of_some = {0, *(output.rows - 1 for output in outputs)}
    rows = files.where(meta.getField("row_index").isin(ends_of_some)).withColumn(
        FILE, meta.getField("file_name")
    )
    found = with_place(rows, task.key, task.boundaries).groupBy(FILE)
    ends = found.agg(F.min(PLACE).alias("first"), F.max(PLACE).alias("last")).collect()
    return {unquote(row[FILE]): f"{task.boundaries.id}:{row['first']}:{row['last']}" for row in ends}


def _file_name(path: str) -> str:
    return unquote(path.rpartition("/")[2])


def _live_rows(inputs: Sequence[Any]) -> int | None:
    """Live rows of the inputs; None unless the log has the row count of each."""
    counts = [add.numLogicalRecords() for add in inputs]
    return sum(int(n.get()) for n in counts) if all(n.isDefined() for n in counts) else None


def rows_per_file(task: MergeTask) -> int:
    """Rows at which a file is cut, so that the files of one range have about the same size.

    The target size is converted to rows by the inputs' own bytes per row.
    """
    most = _UNLIMITED if task.target_rows is None else task.target_rows
    rows = task.live_rows if task.live_rows is not None else task.input_rows
    share = -(-rows // task.row_ranges)
    if share <= 0:
        return most
    files = -(-share // most)
    if task.input_rows > 0:
        size = task.input_bytes * (share / task.input_rows)
        files = max(files, files_for(size / task.target_bytes))
    even = -(-share // files)
    return min(most, even if task.row_ranges == 1 else int(even * _SLACK) + 1)


def marks(
    state: State, task: MergeTask, tags: dict[str, str] | None, span: str | None = None
) -> dict[str, Any]:
    """The fields that mark an AddFile as ours: dataChange=false, level, key and its positions on the curve.

    The protocol defines ``clusteringProvider`` only for tables with clustering; there native OPTIMIZE leaves
    files of another provider unchanged (except for OPTIMIZE FULL). Elsewhere the field is left unset.
    """
    ours = {LEVEL_TAG: str(task.level), KEY_TAG: task.key.key_id if task.key else ""}
    if span is not None:
        ours[CURVE_TAG] = span
    marks: dict[str, Any] = {"dataChange": False, "tags": {**(tags or {}), **ours}}
    if "clustering" in state.features and task.key is not None:
        marks["clusteringProvider"] = PROVIDER
    return marks


def carried_marks(add: Any, made: Mapping[str, Any]) -> dict[str, Any]:
    """The marks that a copy takes over from its file: level, key, curve and provider. ``made`` is the copy's action."""
    before: dict[str, Any] = json.loads(add.json())["add"]
    kept = {k: v for k, v in (before.get("tags") or {}).items() if k in (LEVEL_TAG, KEY_TAG, CURVE_TAG)}
    marks: dict[str, Any] = {"tags": {**(made.get("tags") or {}), **kept}}
    if before.get("clusteringProvider") == PROVIDER:
        marks["clusteringProvider"] = PROVIDER
    return marks


def chosen_codec(log: Log, state: State) -> str | None:
    """The codec that the table sets, else the session's; None if neither names one."""
    if state.properties.get(_CODEC_PROPERTY):
        return state.properties[_CODEC_PROPERTY]
    conf = log.jvm.session.sessionState().conf()
    return str(conf.getConfString(_CODEC_CONF)) if conf.contains(_CODEC_CONF) else None


def codec_of_inputs(log: Log, adds: Iterable[Any]) -> str | None:
    """The codec of the largest of these AddFiles; None if its footer cannot be read."""
    largest = max(adds, key=lambda add: int(add.size()))
    # The merge reads the file next, and reports what prevents it.
    with suppress(Exception), opened(log, str(largest.path())) as reader:
        return codec_of(reader.getFooter())
    return None


def discard(log: Log, paths: Iterable[str]) -> None:
    """Delete files that are known to be uncommitted; one that is missing, or cannot be deleted, is no error.

    Raises AdapterError, before anything is deleted, for a path that is not a data file below the table's directory.
    """
    wanted = list(paths)
    if not wanted:
        return
    root = log.log.dataPath()
    files = root.getFileSystem(log.log.newDeltaHadoopConf())
    base = str(files.makeQualified(root).toString()).rstrip("/") + "/"
    places = [_below(log, files, base, path) for path in wanted]
    for place in places:
        with suppress(Exception):  # it is left for a vacuum: an error here would hide the one that led to it
            files.delete(place, False)


def _below(log: Log, files: Any, base: str, path: str) -> Any:
    place = files.makeQualified(log.delta.util.DeltaFileOperations.absolutePath(base, path))
    text = str(place.toString())
    inside = text.startswith(base) and ".." not in text[len(base) :].split("/")
    if not inside or text[len(base) :].startswith("_delta_log/"):
        raise AdapterError(f"{log.name}: {path} is not a data file below {base}; nothing was deleted")
    return place
