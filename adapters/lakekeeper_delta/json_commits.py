"""The JSON commits after a version. Small ones are parsed once and cached; large ones are read by a Spark job.

    known            probed by name, never listed
      ▼                   ▼
    … 8  9 │ 10 11 12 │ 13 ?       10 to 12 are cached: the next call reads 13 alone

Each call checks the file of the newest known commit. If it differs, the log is another table's, and none is known.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakekeeper.core.planning.changes import Winner
from lakekeeper.errors import MALFORMED, AdapterError, NotFound
from lakekeeper.spark.jvm import causes
from lakekeeper_delta.file_marks import delete_id, names_vectors, vector_id
from lakekeeper_delta.filesystem import Disk, in_parallel
from lakekeeper_delta.log_marks import mark, same_mark
from lakekeeper_delta.native import Log
from lakekeeper_delta.per_log import PerLog
from lakekeeper_delta.spellings import Canonical, of_log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

RUN_TAG = "lakekeeper.run"
_Status = tuple[int, int, int]
"""Version, modification time and size of a commit file."""
LARGE = 1 << 20
"""Commits of more bytes are not read into the driver as a whole."""
_FEW = 8  # more commits than this are read in parallel
_REMEMBERED = 4096  # commits; older ones are read again when needed
_WRITER = ("clusterId", "userId", "userName")
_FILES = pa.schema(
    [("version", pa.int64()), ("path", pa.string()), ("delete_id", pa.string()), ("live", pa.bool_())]
)


@dataclass(frozen=True, slots=True)
class Since:
    """Commits after a version, oldest first, and their file actions.

    ``files`` is an unordered table of version, path, delete_id and live (true for an add, false for a remove). ``adds``
    maps each path that one commit both removes and adds to its newest add, as JSON; large commits are left out.
    ``renewed``: a commit has a metaData or protocol action. ``bare``: paths removed without a deletion vector, by an
    engine whose removes may lack it (:func:`names_vectors`).
    """

    winners: tuple[Winner, ...] = ()
    files: pa.Table = field(default_factory=_FILES.empty_table)
    adds: Mapping[str, str] = field(default_factory=dict)
    renewed: bool = False
    bare: frozenset[str] = frozenset()

    def touching(self, paths: pa.Array) -> pa.Table:
        """The actions on these paths; there may be far more paths than actions."""
        if not self.files.num_rows:
            return self.files
        known = paths.filter(pc.is_in(paths, value_set=self.files["path"].combine_chunks()))
        return self.files.filter(pc.is_in(self.files["path"], value_set=known))


class Commits:
    """The commits of one log read so far; safe to use from several driver threads."""

    def __init__(self, log: Log) -> None:
        self._log_path = log.log.logPath()
        self._files = self._log_path.getFileSystem(log.log.newDeltaHadoopConf())
        self._path = log.jvm.view.org.apache.hadoop.fs.Path
        self._text = log.jvm.view.org.apache.commons.io.IOUtils
        self._utf8 = log.jvm.view.java.nio.charset.StandardCharsets.UTF_8
        self._canonical = of_log(log)
        self._lock = Lock()
        self._known: dict[int, Since] = {}
        self._statuses: dict[int, _Status] = {}  # of the known commits
        self._anchor: _Status | None = None  # of the newest commit, which may not be read yet
        self._passed: dict[int, _Status] = {}  # of commits before it that were looked at, in the same log
        self._lineage = object()

    @property
    def lineage(self) -> object:
        """Another object once the log was found to be rolled back or replaced."""
        with self._lock:
            return self._lineage

    def newest(self, version: int, log_mark: str) -> int | None:
        """The newest version, probed from the newest known one; None if that is not certain.

        Nor is it certain if ``version`` may be another commit than the one with this mark. An empty mark is that of any
        commit, once the log is known by another one.
        """
        with self._lock:
            anchor = self._anchor
            if anchor is None:
                anchor = self._status(version)
                if anchor is None or not same_mark(_mark_of(anchor), log_mark):
                    return None
                self._passed[version] = anchor
            elif self._status(anchor[0]) != anchor:
                self._forget()
                return None
            while self._files.exists(self._place(anchor[0] + 1)):
                following = self._status(anchor[0] + 1)
                if following is None:
                    return None
                anchor = self._passed[following[0]] = following
            self._anchor = anchor
            if log_mark:
                seen = self._passed.get(version) or self._status(version)
                if seen is None or not same_mark(_mark_of(seen), log_mark):
                    return None
                self._passed[version] = seen
            for earlier in sorted(self._passed)[:-_REMEMBERED]:
                del self._passed[earlier]
            return anchor[0]

    def between(self, log: Log, after: int, upto: int) -> Since:
        """The commits ``after`` < version ≤ ``upto``. Raises NotFound if log cleanup has removed one of them."""
        with self._lock:
            self._check()
            unknown = [version for version in range(after + 1, upto + 1) if version not in self._known]
            read = in_parallel if len(unknown) > _FEW else map
            commits = zip(unknown, read(lambda version: self._fetched(log, version), unknown), strict=True)
            large = [version for version, fetched in commits if not self._keep(version, *fetched)]
            if large:
                self._read_large(log, range(large[0], large[-1] + 1))
            found = [self._known[version] for version in range(after + 1, upto + 1)]
            for version in sorted(self._known)[:-_REMEMBERED]:
                del self._known[version], self._statuses[version]
        return _joined(found)

    def newest_first(
        self, log: Log, version: int, after: int = -1, wanted: Callable[[str], bool] | None = None
    ) -> Iterator[Winner]:
        """The commits ``after`` < version ≤ ``version``, as far back as the log has them; each is read when it is due.

        Large commits are left out unless their first line is ``wanted``: a Spark job reads these. Without ``wanted``,
        the first large commit is the end.
        """
        with self._lock:
            self._check()
        with suppress(NotFound):  # log cleanup has removed it
            for earlier in range(version, after, -1):
                with self._lock:
                    known = earlier in self._known
                    if not known and not self._keep(earlier, *self._fetched(log, earlier)):
                        if wanted is None:
                            return
                        if not wanted(Disk(log).first_line(str(self._place(earlier).toString()))):
                            continue
                        self._read_large(log, range(earlier, earlier + 1))
                    found = self._known[earlier].winners
                yield from found

    def _check(self) -> None:
        """Forget all commits if the newest known one is not that of the log any more."""
        if self._known:
            newest = max(self._known)
            if self._status(newest) != self._statuses[newest]:
                self._forget()

    def _forget(self) -> None:
        self._anchor, self._lineage = None, object()
        self._passed.clear()
        self._known.clear()
        self._statuses.clear()

    def mark(self, log: Log, version: int) -> str:
        """The mark of a commit as it is now, by one request; empty if it is not in the log."""
        with suppress(NotFound):
            return _mark_of(self._require_status(log, version))
        return ""

    def statuses(self, log: Log, versions: range) -> list[Any]:
        """The FileStatus of each commit. Raises NotFound if log cleanup has removed one."""
        return [self._there(log, version) for version in versions]

    def _there(self, log: Log, version: int) -> Any:
        try:
            return self._files.getFileStatus(self._place(version))
        except Exception as error:
            if any(name.endswith("FileNotFoundException") for name, _ in causes(error)):
                raise _gap(log, version) from error
            raise

    def _keep(self, version: int, status: _Status, commit: Since | None) -> bool:
        """Keep a commit that was read; false if it is large."""
        if commit is None:
            return False
        self._known[version], self._statuses[version] = commit, status
        return True

    def _fetched(self, log: Log, version: int) -> tuple[_Status, Since | None]:
        """A commit and its file; None for a large commit, which is not read."""
        status = self._require_status(log, version)
        if status[2] > LARGE:
            return status, None
        try:
            stream = self._files.open(self._place(version))
            try:
                text = str(self._text.toString(stream, self._utf8))
            finally:
                stream.close()
        except Exception as error:
            if any(name.endswith("FileNotFoundException") for name, _ in causes(error)):
                raise _gap(log, version) from error
            raise
        try:
            return status, parsed(version, text, self._canonical)
        except MALFORMED as error:
            raise AdapterError(
                f"{log.name}: commit {version} of its log is not understood ({error!r})"
            ) from error

    def _read_large(self, log: Log, versions: range) -> None:
        """Read and keep commits by one Spark job."""
        for version in versions:
            self._statuses[version] = self._require_status(log, version)
        self._known.update(_by_job(log, versions, self._canonical))

    def _require_status(self, log: Log, version: int) -> _Status:
        return _status_of(version, self._there(log, version))

    def _status(self, version: int) -> _Status | None:
        place = self._place(version)
        if not self._files.exists(place):
            return None
        return _status_of(version, self._files.getFileStatus(place))

    def _place(self, version: int) -> Any:
        return self._path(self._log_path, f"{version:020d}.json")


def _status_of(version: int, status: Any) -> _Status:
    return version, int(status.getModificationTime()), int(status.getLen())


def _mark_of(status: _Status) -> str:
    return mark(*status[1:])


commits_of = PerLog(Commits)
"""The commits of a log read so far."""


def commits_between(log: Log, after: int, upto: int) -> Since:
    """See :meth:`Commits.between`; an empty range reads nothing."""
    return commits_of(log).between(log, after, upto) if upto > after else Since()


def commit_mark(log: Log, version: int) -> str:
    """See :meth:`Commits.mark`."""
    return commits_of(log).mark(log, version)


def commit_files(log: Log, versions: range) -> list[Any]:
    """See :meth:`Commits.statuses`."""
    return commits_of(log).statuses(log, versions)


def parsed(version: int, text: str, canonical: Canonical = str) -> Since:
    """Parse one commit. Raises ValueError if the text is not a list of actions.

    ``canonical`` spells paths as the state of the log does; an add that spells its path otherwise is not in ``adds``.
    """
    files: list[tuple[int, str, str, bool]] = []
    adds: dict[str, str] = {}
    removed: set[str] = set()
    data = renewed = metadata = False
    info: Mapping[str, Any] = {}
    for line in text.split("\n"):
        if not line.strip():
            continue
        action = json.loads(line)
        for kind in ("add", "remove"):
            if action.get(kind) is not None:
                file = action[kind]
                path = canonical(file["path"])
                files.append((version, path, vector_id(file.get("deletionVector")), kind == "add"))
                # A missing dataChange counts as true.
                data |= file.get("dataChange") is not False
                if kind == "remove":
                    removed.add(path)
                elif path == file["path"]:
                    adds[path] = line
        metadata |= action.get("metaData") is not None
        renewed |= action.get("metaData") is not None or action.get("protocol") is not None
        info = action.get("commitInfo") or info
    acts = {"data_any": data, "live_all": not removed} if files else None
    at = info.get("inCommitTimestamp")
    about = {
        "operation": info.get("operation"),
        "run": (info.get("tags") or {}).get(RUN_TAG),
        "at_ms": info.get("timestamp") if at is None else at,
        "writer": _writer(info),
    }
    columns = [list(column) for column in zip(*files, strict=True)] or [[], [], [], []]
    table = pa.table(dict(zip(_FILES.names, columns, strict=True)), schema=_FILES)
    again = {path: line for path, line in adds.items() if path in removed}
    bare = _bare(table, info.get("engineInfo"))
    return Since((_winner(version, acts, about, metadata=metadata),), table, again, renewed, bare)


def _bare(files: pa.Table, engine: str | None) -> frozenset[str]:
    """The paths of an engine's removes without a deletion vector; none where its removes name the vector."""
    if names_vectors(engine):
        return frozenset()
    bare = pc.and_(pc.invert(files["live"]), pc.equal(files["delete_id"], ""))
    return frozenset(files.filter(bare)["path"].to_pylist())


def _joined(found: Iterable[Since]) -> Since:
    parts = list(found)
    adds: dict[str, str] = {}
    for part in parts:
        for path in part.files["path"].to_pylist():
            adds.pop(path, None)
        adds.update(part.adds)
    return Since(
        tuple(w for part in parts for w in part.winners),
        pa.concat_tables([_FILES.empty_table(), *(part.files for part in parts)]),
        adds,
        any(part.renewed for part in parts),
        frozenset().union(*(part.bare for part in parts)),
    )


def _gap(log: Log, version: int) -> NotFound:
    return NotFound(
        log.name, f"the log no longer has commit {version}, which is after the version that was read"
    )


def _by_job(log: Log, versions: range, canonical: Canonical) -> dict[int, Since]:
    """Read commits that may be large in one Spark job."""
    from pyspark.sql import functions as F

    raw = read_commits(log, versions)
    add, remove, info, metadata, protocol = (
        F.col(n) for n in ("add", "remove", "commitInfo", "metaData", "protocol")
    )
    present = [part.isNotNull() for part in (add, remove, info, metadata, protocol)]
    vector = F.coalesce(add.getField("deletionVector"), remove.getField("deletionVector"))
    at = F.coalesce(info.getField("inCommitTimestamp"), info.getField("timestamp"), F.lit(0))
    rows = raw.where(present[0] | present[1] | present[2] | present[3] | present[4]).select(
        "version",
        F.coalesce(add.getField("path"), remove.getField("path")).alias("path"),
        delete_id(vector).alias("delete_id"),
        add.isNotNull().alias("live"),
        F.coalesce(add.getField("dataChange"), remove.getField("dataChange"), F.lit(True)).alias("data"),
        metadata.isNotNull().alias("metadata"),
        protocol.isNotNull().alias("protocol"),
        info.getField("operation").alias("operation"),
        info.getField("tags").getItem(RUN_TAG).alias("run"),
        *(info.getField(name).alias(name) for name in ("engineInfo", *_WRITER)),
        at.alias("at_ms"),
    )
    table = log.jvm.to_arrow(rows)
    paths = pa.array(
        [None if path is None else canonical(path) for path in table["path"].to_pylist()], pa.string()
    )
    table = table.set_column(table.schema.get_field_index("path"), "path", paths)
    files = table.filter(pc.is_valid(table["path"]))
    others = table.filter(pc.is_null(table["path"])).to_pylist()
    counted = files.group_by("version").aggregate([("data", "any"), ("live", "all")]).to_pylist()
    acts = {row["version"]: row for row in counted}
    about = {
        row["version"]: row | {"writer": _writer(row)}
        for row in others
        if not (row["metadata"] or row["protocol"])
    }
    metadata_at = {row["version"] for row in others if row["metadata"]}
    renewed = {row["version"] for row in others if row["metadata"] or row["protocol"]}
    found = {}
    for v in versions:
        facts, own = about.get(v) or {}, files.filter(pc.equal(files["version"], v)).select(_FILES.names)
        found[v] = Since(
            (_winner(v, acts.get(v), facts, metadata=v in metadata_at),),
            own.cast(_FILES),
            renewed=v in renewed,
            bare=_bare(own, facts.get("engineInfo")),
        )
    return found


def _winner(
    version: int, acts: Mapping[str, Any] | None, about: Mapping[str, Any], *, metadata: bool
) -> Winner:
    layout = acts is not None and not acts["data_any"]
    return Winner(
        version,
        about.get("operation") or "unknown",
        about.get("run") or "",
        layout=layout,
        appends=not layout and (not metadata if acts is None else acts["live_all"]),
        at_ms=about.get("at_ms") or 0,
        writer=about.get("writer") or "",
    )


def _writer(info: Mapping[str, Any]) -> str:
    """The cluster and its user, as Trino and Databricks name them."""
    cluster, user = info.get("clusterId"), info.get("userId") or info.get("userName")
    return f"{cluster} {user}" if cluster and user else ""


def read_commits(log: Log, versions: Sequence[int], schema: StructType | None = None) -> DataFrame:
    """Raw actions with their ``version``, through DeltaLogFileIndex: Spark's reader would treat a path as a glob.

    ``schema`` is that of the actions; by default, with the parts that decide about conflicts.
    """
    jvm = log.jvm
    hadoop = log.log.newDeltaHadoopConf()
    folder = log.log.logPath()
    paths = jvm.seq(jvm.view.org.apache.hadoop.fs.Path(folder, f"{v:020d}.json") for v in versions)
    kind = log.singleton("DeltaLogFileIndex")
    try:
        index = kind.apply(kind.COMMIT_FILE_FORMAT(), folder.getFileSystem(hadoop), paths)
    except Exception as error:
        if any(name.endswith("FileNotFoundException") for name, _ in causes(error)):
            raise _gap(log, versions[0]) from error
        raise
    schema = jvm.view.org.apache.spark.sql.types.DataType.fromJson((schema or _schema()).json())
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
    for name in ("engineInfo", *_WRITER):
        info = info.add(name, "string")
    metadata = T.StructType().add("id", "string")
    protocol = T.StructType().add("minReaderVersion", "integer")
    return (
        T.StructType()
        .add("add", file)
        .add("remove", file)
        .add("commitInfo", info)
        .add("metaData", metadata)
        .add("protocol", protocol)
    )
