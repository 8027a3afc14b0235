"""What was committed since a snapshot: the JSON commits after it, read by name, never listed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakekeeper.core.blocks import Snapshot
from lakekeeper.core.rebase import Changes, Winner
from lakekeeper.errors import NotFound, Unsupported
from lakekeeper.spark.jvm import causes
from lakekeeper_delta.blocks import delete_id
from lakekeeper_delta.features import check
from lakekeeper_delta.native import Log, State

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

RUN_TAG = "lakekeeper.run"


@dataclass(frozen=True, slots=True)
class Since:
    """Commits after a version, oldest first, and the file actions in them.

    ``files`` is a table of version, path, delete_id and live (an add, or else a remove), in no order.
    """

    winners: tuple[Winner, ...]
    files: pa.Table

    def touching(self, paths: pa.Array) -> pa.Table:
        """The actions on these paths."""
        return self.files.filter(pc.is_in(self.files["path"], value_set=paths))


def changes_since(log: Log, snapshot: Snapshot) -> Changes:
    """See ``spi.Adapter.changes_since``."""
    base = -1 if snapshot.version is None else snapshot.version
    try:
        now = log.latest()
    except Unsupported as error:  # Delta itself does not open it any more
        return Changes(base, obstacle=_got(error))
    obstacle = obstacle_to(log.name, now, snapshot)
    if now.table_uuid != snapshot.table_uuid:
        return Changes(now.version, obstacle=obstacle)  # its log is not ours: nothing to compare
    try:
        since = commits_between(log, base, now.version)
    except NotFound as gap:
        return Changes(now.version, obstacle=obstacle or str(gap))
    removed, changed = outcome(since.touching(snapshot.blocks.path))
    return Changes(now.version, since.winners, frozenset(removed), changed, obstacle)


def obstacle_to(table: str, now: State, snapshot: Snapshot) -> str:
    """Why nothing that was written for ``snapshot`` may be committed any more; empty if it may.

    A plain change of table properties is none.
    """
    if now.table_uuid != snapshot.table_uuid:
        return "the table was made anew in the same place"
    if now.schema_id != snapshot.schema_id:
        return "the table's columns, partitioning or row tracking changed"
    try:
        check(table, now.reader, now.writer, now.features, now.properties)
    except Unsupported as error:
        return _got(error)
    return ""


def _got(error: Unsupported) -> str:
    return f"the table got the feature '{error.feature}', which is not supported"


def outcome(actions: pa.Table) -> tuple[set[str], dict[str, str]]:
    """(paths that are live no more, path → deletes in force) of the last version that touched each path."""
    latest: dict[str, tuple[int, bool, str]] = {}
    for row in actions.to_pylist():
        version, live, path = row["version"], row["live"], row["path"]
        seen = latest.get(path)
        # In one commit a change of deletes is a remove and an add of the same path: the add counts.
        if seen is None or (version, live) > seen[:2]:
            latest[path] = (version, live, row["delete_id"])
    removed = {path for path, (_, live, _) in latest.items() if not live}
    return removed, {path: deletes for path, (_, live, deletes) in latest.items() if live}


def commits_between(log: Log, after: int, upto: int) -> Since:
    """The commits ``after`` < version ≤ ``upto``, in one Spark job; none for none.

    Raises NotFound where the log was cleaned of one of them.
    """
    from pyspark.sql import functions as F

    if upto <= after:
        kinds = [
            ("version", pa.int64()),
            ("path", pa.string()),
            ("delete_id", pa.string()),
            ("live", pa.bool_()),
        ]
        return Since((), pa.schema(kinds).empty_table())
    raw = read_commits(log, range(after + 1, upto + 1))
    add, remove, info, metadata = (F.col(n) for n in ("add", "remove", "commitInfo", "metaData"))
    asked = add.isNotNull() | remove.isNotNull() | info.isNotNull() | metadata.isNotNull()
    vector = F.coalesce(add.getField("deletionVector"), remove.getField("deletionVector"))
    at = F.coalesce(info.getField("inCommitTimestamp"), info.getField("timestamp"), F.lit(0))
    table = (
        raw.where(asked)
        .select(
            "version",
            F.coalesce(add.getField("path"), remove.getField("path")).alias("path"),
            delete_id(vector).alias("delete_id"),
            add.isNotNull().alias("live"),
            # What a log does not say is taken for a change.
            F.coalesce(add.getField("dataChange"), remove.getField("dataChange"), F.lit(True)).alias("data"),
            metadata.isNotNull().alias("metadata"),
            info.getField("operation").alias("operation"),
            info.getField("tags").getItem(RUN_TAG).alias("run"),
            at.alias("at_ms"),
        )
        .toArrow()
    )
    files = table.filter(pc.is_valid(table["path"]))
    winners = _winners(range(after + 1, upto + 1), files, table.filter(pc.is_null(table["path"])))
    return Since(winners, files.select(["version", "path", "delete_id", "live"]))


def _winners(versions: range, files: pa.Table, others: pa.Table) -> tuple[Winner, ...]:
    """One for each version, by its file actions and its other ones."""
    counted = files.group_by("version").aggregate([("data", "any"), ("live", "all")]).to_pylist()
    acts = {row["version"]: row for row in counted}
    about: dict[int, dict[str, Any]] = {}
    metadata = set()
    for row in others.to_pylist():
        if row["metadata"]:
            metadata.add(row["version"])
        else:
            about[row["version"]] = row
    return tuple(_winner(v, acts.get(v), about.get(v) or {}, v in metadata) for v in versions)


def _winner(version: int, acts: dict[str, Any] | None, about: Mapping[str, Any], metadata: bool) -> Winner:
    layout = acts is not None and not acts["data_any"]
    return Winner(
        version,
        about.get("operation") or "unknown",
        about.get("run") or "",
        layout=layout,
        appends=not layout and (not metadata if acts is None else acts["live_all"]),
        at_ms=about.get("at_ms") or 0,
    )


def read_commits(log: Log, versions: range) -> DataFrame:
    """Raw actions with their ``version``. By Delta's own index: a reader's path would be taken for a pattern."""
    jvm = log.jvm
    hadoop = log.log.newDeltaHadoopConf()
    folder = log.log.logPath()
    paths = jvm.seq(jvm.view.org.apache.hadoop.fs.Path(folder, f"{v:020d}.json") for v in versions)
    kind = log.singleton("DeltaLogFileIndex")
    try:
        index = kind.apply(kind.COMMIT_FILE_FORMAT(), folder.getFileSystem(hadoop), paths)
    except Exception as error:
        if any(name.endswith("FileNotFoundException") for name, _ in causes(error)):
            raise NotFound(
                log.name, f"the log no longer has every commit after version {versions[0] - 1}"
            ) from error
        raise
    schema = jvm.view.org.apache.spark.sql.types.DataType.fromJson(_schema().json())
    raw: DataFrame = jvm.dataframe(log.log.loadIndex(index, schema))
    return raw


def _schema() -> StructType:
    from pyspark.sql import types as T

    vector = (
        T.StructType().add("storageType", "string").add("pathOrInlineDv", "string").add("offset", "integer")
    )
    file = T.StructType().add("path", "string").add("deletionVector", vector).add("dataChange", "boolean")
    info = T.StructType().add("operation", "string").add("tags", T.MapType(T.StringType(), T.StringType()))
    info = info.add("timestamp", "long").add("inCommitTimestamp", "long")
    metadata = T.StructType().add("id", "string")
    return (
        T.StructType().add("add", file).add("remove", file).add("commitInfo", info).add("metaData", metadata)
    )
