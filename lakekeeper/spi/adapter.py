"""What an adapter implements, and what the engine requires of Spark: protocols and data, no behaviour.

An adapter is bound to one table of one format. The engine is the only caller of its methods; it calls
:meth:`Adapter.read` and :meth:`Adapter.write` concurrently from several threads, for different tasks. ``Rows`` is the
type that the adapter reads and the runner sorts: a DataFrame on Spark, a list in the memory adapter.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from lakekeeper.core.config.options import Options
from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.file_merge import FileMerge, WrittenFile
from lakekeeper.core.model.finding import Finding
from lakekeeper.core.model.plan import MergeTask
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.model.report import KeyReport
from lakekeeper.core.planning.changes import Changes
from lakekeeper.core.planning.rewrites import Rewrite
from lakekeeper.errors import Unsupported
from lakekeeper.redaction import without_user
from lakekeeper.spi.bloom_filters import BloomFilters
from lakekeeper.spi.columnar import Columnar
from lakekeeper.spi.rows import (
    Commit,
    Followed,
    Held,
    Matched,
    Remains,
    Restores,
    RowDeletes,
    Rows,
    Traces,
)
from lakekeeper.spi.statistics import Statistics
from lakekeeper.spi.storage import Storage
from lakekeeper.spi.undo import Undos

Observer = Callable[[str, Mapping[str, Any]], None]
"""``observer(phase, info)``. An exception raised by it stops the run, as a crash at that point would."""

PHASES = ("planned", "read", "written", "before_commit", "conflict", "committed", "before_delete", "deleted")


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a format (or one table of it) supports, as data instead of classes.

    row_deletes        rows can be deleted by position without rewriting their file
    stores_level       level and key id survive the commits of other writers
    row_lineage        rows of this table keep their id through a rewrite
    time_travel        older versions can be read
    native_key         the format itself can store a cluster key
    """

    row_deletes: bool
    stores_level: bool
    row_lineage: bool
    time_travel: bool
    native_key: bool


class Notes(Protocol):
    """Small texts that lakekeeper keeps next to a table's data, hidden from listings of the table's files.

    Names are relative, with ``/`` between steps. A lost note costs speed, never data. All methods raise AdapterError
    if the storage does not respond.
    """

    @property
    def readers(self) -> int:
        """How many reads may run at once: 1 where a read is quick, as on a local disk, more where it is a request."""
        ...

    def read(self, name: str) -> str | None:
        """The text under a name; None if it does not exist."""
        ...

    def keep(self, name: str, text: str) -> str:
        """Write a text unless the name already has one; returns the text that is stored now."""
        ...

    def replace(self, name: str, text: str) -> None:
        """Write a text, replacing an existing one."""
        ...

    def remove(self, name: str) -> None:
        """Remove a text; a missing one is no error."""
        ...


class Adapter(Protocol[Rows]):
    """One table. Methods deliberately raise only the errors of :mod:`lakekeeper.errors`."""

    @property
    def table(self) -> str:
        """The name the caller gave, for messages."""
        ...

    @property
    def capabilities(self) -> Capabilities: ...

    def require_writable(self, options: Options) -> None:
        """Check that commits to the table are safe; called before a run writes its first file, and cheap.

        Raises Unsupported if a commit could overwrite the commit of another writer, or cost it live files.
        """
        ...

    def properties(self) -> Mapping[str, str]:
        """The table's current properties."""
        ...

    def set_cluster_key(
        self, columns: Sequence[str], layout: str = "linear", *, native: bool = False, dry_run: bool = False
    ) -> KeyReport:
        """Store the key, or remove it if no columns are given; ``dry_run`` only reports what that would change.

        The key is stored natively if the table already has a native key or ``native`` is true; otherwise as the
        property ``lakekeeper.cluster-by``, which changes nothing for other engines. A key stored as the property
        survives a rename of its columns. Raises OptionError for columns that cannot be a key, and for a ``native`` key
        that the table or its format cannot store.
        """
        ...

    def snapshot(self, columns: Sequence[str] | None = None, where: str | None = None) -> Snapshot:
        """The newest version as blocks.

        ``columns`` (Spark SQL spelling) override the table's own key. The key is None if neither is given, or if the
        table's own key is no longer usable (``Snapshot.key_problem``). ``where`` keeps every block that may hold a
        match, and marks the snapshot incomplete. Raises Unsupported for a table feature that is not on the allow-list,
        OptionError for a column that is unknown, not orderable or has no statistics. Reads no data file.
        """
        ...

    def refresh(self, snapshot: Snapshot, columns: Sequence[str] | None = None) -> Snapshot | None:
        """What ``snapshot(columns)`` would return now, from a complete ``snapshot`` that it returned before.

        Returns ``snapshot`` itself if the log and the table's metadata have not changed since. Otherwise brings it up
        to date from the commits since, or returns None if the result could differ from a whole read in anything but
        the order of the blocks. Raises as :meth:`snapshot`.
        """
        ...

    def matching(self, snapshot: Snapshot, where: str) -> Snapshot:
        """The blocks of a complete ``snapshot`` that may hold a match: those that ``snapshot(columns, where)`` showed.

        Raises OptionError for a predicate that names an unknown column, NotFound if the version can no longer be read.
        """
        ...

    def version(self) -> Snapshot:
        """The newest version without key and blocks: lists no data file, reads no statistics, starts no job.

        From it, :meth:`changes_since` reports later commits, but not what happened to individual files.
        """
        ...

    def read(self, task: MergeTask) -> Rows:
        """The live rows of the task's inputs, as of its read version, with everything that must survive a rewrite."""
        ...

    def write(self, rows: Rows, task: MergeTask, run_id: str) -> Rewrite:
        """Write rows, in input order, to files that no version names yet, cut at the task's target sizes.

        The files are written to the folder of ``run_id`` (:func:`lakekeeper.core.model.run_folders.run_folder`), where
        a vacuum finds them if the run dies.
        """
        ...

    def commit(self, rewrites: Sequence[Rewrite], snapshot: Snapshot, run_id: str) -> Commit:
        """One attempt to replace the inputs of all ``rewrites`` by their outputs, atomically, as no change of data.

        Each input must be in the state that ``Rewrite.inputs_now`` gives. Raises Conflict (an input is not; nothing
        was committed), Rejected (known to have failed; NotSent if an error occurred before it was sent) or Unknown. The
        engine treats any other error as Unknown. The log records ``run_id`` with the commit.
        """
        ...

    def release(self, task: MergeTask) -> None:
        """Free the resources that :meth:`read` or ``deletes.traces`` hold for a task; holding none is no error.

        Called when the work on a task ends, successfully or not; rows that were read cannot be used afterwards.
        """
        ...

    def discard(self, rewrites: Sequence[Rewrite]) -> None:
        """Delete the ``outputs``, ``extra`` and ``stale`` files of rewrites that are known to be uncommitted.

        A file that is missing, or cannot be deleted, is no error: the engine checks what is left, for a vacuum.
        """
        ...

    @property
    def deletes(self) -> RowDeletes[Rows]:
        """The row-level half of the adapter."""
        ...

    @property
    def restores(self) -> Restores[Rows]:
        """Restores deleted rows."""
        ...

    @property
    def undos(self) -> Undos:
        """Undoes runs that changed only the layout."""
        ...

    @property
    def statistics(self) -> Statistics:
        """Computes statistics."""
        ...

    @property
    def bloom_filters(self) -> BloomFilters:
        """Bloom filters of its files."""
        ...

    @property
    def columnar(self) -> Columnar | None:
        """The columnar half of the adapter, if it has one."""
        ...

    @property
    def notes(self) -> Notes:
        """The notes kept next to the table's data."""
        ...

    @property
    def storage(self) -> Storage:
        """The table's files, for a vacuum."""
        ...

    def changes_since(self, snapshot: Snapshot) -> Changes:
        """The commits since ``snapshot``, freshly read from the log."""
        ...


class Format(Protocol):
    """A table format, registered as an entry point of the group ``lakekeeper.adapters``."""

    @property
    def name(self) -> str:
        """The provider's name as Spark's catalogs spell it: ``delta``, ``iceberg``."""
        ...

    def open(self, spark: Any, identifier: TableName) -> Adapter[Any]:
        """Open the adapter of one table. Raises NotFound, Unsupported or AdapterError (e.g. jars missing)."""
        ...

    def refused(self, table: str, error: BaseException) -> Unsupported | None:
        """Translate an error of the format's own library that rejects a table; None for any other error."""
        ...

    def examine(self, spark: Any) -> Sequence[Finding]:
        """The findings of ``lakekeeper doctor`` on the format in a session; starts, changes and raises nothing."""
        ...

    def keeps_files(
        self,
        spark: Any,
        identifier: TableName,
        tables: Callable[[str], Sequence[Any]],
        allowed: Sequence[str] = (),
    ) -> str:
        """Why the files of a table must stay if its catalog drops it; empty if they may be deleted with it.

        ``tables`` are those of a catalog with their locations (:class:`lakekeeper.spark.catalogs.Place`), ``allowed``
        places outside the table's location in which an operator allows its files to be deleted. Answers also
        for a table that :meth:`open` refuses. Raises NotFound, Unsupported or AdapterError in doubt.
        """
        ...

    def lost_race(self, error: BaseException) -> bool:
        """Whether a statement of the format's own writer failed because another commit came first.

        False in doubt: an unknown outcome must not count as a lost race.
        """
        ...


@dataclass(frozen=True, slots=True)
class TableName:
    """A table as Spark resolved it: by path, or by catalog, namespace and name.

    ``text`` is the name as the caller gave it, without the credentials in a path: it is printed and logged. ``sql`` is
    the quoted name for use in a statement.
    """

    text: str
    provider: str
    sql: str
    catalog: str = ""
    namespace: tuple[str, ...] = ()
    name: str = ""
    path: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", without_user(self.text))


class Runner(Protocol[Rows]):
    """Sorts and matches rows for a task, independent of the format."""

    def merge(self, rows: Rows, task: MergeTask) -> Rows:
        """Sort rows in the task's key order, split into about ``task.row_ranges`` ranges, each sorted on its own."""
        ...

    def merge_files(self, merge: FileMerge) -> Sequence[WrittenFile] | Reason:
        """Merge files by columnar workers, one for each range; or why a worker left the merge to :meth:`merge`."""
        ...

    def match(self, traces: Traces[Rows], most: int) -> Matched[Rows]:
        """Find each lost row in the outputs; equal rows are numbered so that no position is matched twice.

        More than ``most`` lost rows are only counted, not searched for. Pass the result to :meth:`release`.
        """
        ...

    def follow(self, remains: Remains[Rows], most: int) -> Followed:
        """The successors at least half of whose rows were read, the rows that they lack, and those they have gained.

        Of n equal rows with m left, the last n - m are missing; of m equal rows of which n were read, the last m - n
        are gained. No file if more than ``most`` rows are either.
        """
        ...

    def hold(self, hits: Rows) -> Held[Rows]:
        """Compute positions once and keep them, with their number per file. Pass the result to :meth:`release`."""
        ...

    def only(self, held: Held[Rows], files: Collection[str]) -> Held[Rows]:
        """The positions in these files; a view on ``held`` that is not released separately."""
        ...

    def release(self, kept: Matched[Rows] | Held[Rows]) -> None:
        """Free a result of :meth:`match` or :meth:`hold`; never raises, as a commit may have succeeded before."""
        ...

    def working(self, run_id: str, what: str) -> AbstractContextManager[None]:
        """Context for work in this thread: marks its jobs so that :meth:`cancel` and the history find them.

        ``what`` is shown beside the jobs.
        """
        ...

    def cancel(self, run_id: str) -> None:
        """Cancel all jobs of a run."""
        ...
