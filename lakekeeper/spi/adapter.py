"""What an adapter satisfies, and what the engine asks of Spark: protocols and data, no behaviour.

An adapter is bound to one table of one format. The engine is the only caller of its methods; it
calls :meth:`Adapter.read` and :meth:`Adapter.write` from several threads at once, for different tasks.
``Rows`` is whatever the adapter reads and the runner sorts: a DataFrame on Spark, a list in the
memory adapter.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from lakekeeper.core.config.options import Options
from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.finding import Finding
from lakekeeper.core.model.plan import MergeTask
from lakekeeper.core.model.report import KeyReport
from lakekeeper.core.planning.rebase import Changes, Rewrite
from lakekeeper.errors import Unsupported
from lakekeeper.spi.rows import (
    Commit,
    Held,
    Matched,
    Restores,
    RowDeletes,
    Rows,
    Traces,
)
from lakekeeper.spi.storage import Storage

Observer = Callable[[str, Mapping[str, Any]], None]
"""``observer(phase, info)``. An exception it raises stops the run as a crash at that point would."""

PHASES = ("planned", "read", "written", "before_commit", "conflict", "committed", "before_delete", "deleted")


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a format (or a table of it) can do; data, so that nobody asks for classes.

    row_deletes        rows can be masked without rewriting their file
    stores_level       level and key id outlive other writers' commits
    row_lineage        rows keep an id through a rewrite on this table
    time_travel        older versions can be read
    native_key         the format has a place of its own for a cluster key
    """

    row_deletes: bool
    stores_level: bool
    row_lineage: bool
    time_travel: bool
    native_key: bool


class Notes(Protocol):
    """Small texts that lakekeeper keeps beside a table, hidden from every listing that counts.

    Names are relative, with ``/`` between steps. Losing one loses speed, never data. Both raise AdapterError where
    the storage does not answer.
    """

    def read(self, name: str) -> str | None:
        """The text under a name; None where there is none."""
        ...

    def keep(self, name: str, text: str) -> str:
        """Write a text unless there is one already; what is there now."""
        ...

    def replace(self, name: str, text: str) -> None:
        """Write a text, over one that is there."""
        ...

    def remove(self, name: str) -> None:
        """Take a text away; none there is no error."""
        ...


class Adapter(Protocol[Rows]):
    """One table. Methods raise the errors of :mod:`lakekeeper.errors` and no others on purpose."""

    @property
    def table(self) -> str:
        """The name the caller gave, for messages."""
        ...

    @property
    def capabilities(self) -> Capabilities: ...

    def require_writable(self, options: Options) -> None:
        """Called before a run writes its first file; cheap.

        Raises Unsupported where a commit could overwrite one of another writer.
        """
        ...

    def properties(self) -> Mapping[str, str]:
        """The table's properties, as of now."""
        ...

    def set_cluster_key(
        self, columns: Sequence[str], layout: str = "linear", *, native: bool = False, dry_run: bool = False
    ) -> KeyReport:
        """Store the key, or with no columns take it away; ``dry_run`` only tells what that changes.

        Natively where the table has a native key already, or where ``native`` asks for it; else as the property
        ``lakekeeper.cluster-by``, which changes nothing for other engines. A key that is stored this way survives a
        rename of its columns. Raises OptionError for columns that can be no key, and for a ``native`` key that the
        table or its format can not keep.
        """
        ...

    def snapshot(self, columns: Sequence[str] | None = None, where: str | None = None) -> Snapshot:
        """The newest version as blocks.

        ``columns`` (Spark SQL spelling) override the table's own key; without either the key is None. So it is where
        the table's own can not be used any more (``Snapshot.key_problem``).
        ``where`` keeps every block that may hold a match, and marks the picture incomplete.
        Raises Unsupported for a table feature that is not on the allow-list, OptionError for a column
        that is unknown, not orderable or kept without statistics. Reads no data file.
        """
        ...

    def version(self) -> Snapshot:
        """The newest version without key and blocks: lists no data file, reads no statistics, starts no job.

        :meth:`changes_since` tells what was committed after it, but not what became of files.
        """
        ...

    def read(self, task: MergeTask) -> Rows:
        """The live rows of the task's inputs, as of its read version, with all that must outlive a rewrite."""
        ...

    def write(self, rows: Rows, task: MergeTask, run_id: str) -> Rewrite:
        """Write rows, in the order they come, as files that no version names yet, cut at the task's targets.

        They are written to the folder of ``run_id`` (:func:`lakekeeper.core.model.run_folders.run_folder`), where a
        vacuum finds them if the run dies.
        """
        ...

    def commit(self, rewrites: Sequence[Rewrite], snapshot: Snapshot, run_id: str) -> Commit:
        """One attempt to put all ``rewrites`` in the place of their inputs, atomically, as no change of data.

        Each input must be as ``Rewrite.inputs_now`` says. Raises Conflict (it is not: nothing was committed),
        Rejected (known not to have happened) or Unknown. ``run_id`` is in the log afterwards.
        """
        ...

    def release(self, task: MergeTask) -> None:
        """Free what :meth:`read` or ``deletes.traces`` hold for a task; nothing held is no error.

        Called when the work on a task ends, however it ends; rows that were read can not be used afterwards.
        """
        ...

    def discard(self, rewrites: Sequence[Rewrite]) -> None:
        """Delete the ``outputs``, ``extra`` and ``stale`` files of rewrites that are known not to be committed.

        Missing files are no error.
        """
        ...

    @property
    def deletes(self) -> RowDeletes[Rows]:
        """The row-level half of the adapter."""
        ...

    @property
    def restores(self) -> Restores[Rows]:
        """How rows that were deleted are put back."""
        ...

    @property
    def notes(self) -> Notes:
        """What is kept beside the table."""
        ...

    @property
    def storage(self) -> Storage:
        """The table's files, for a vacuum."""
        ...

    def changes_since(self, snapshot: Snapshot) -> Changes:
        """What was committed since ``snapshot``, freshly read from the log."""
        ...


class Format(Protocol):
    """An entry point of the group ``lakekeeper.adapters``: opens tables of one format."""

    @property
    def name(self) -> str:
        """The provider's name as Spark's catalogs spell it: ``delta``, ``iceberg``."""
        ...

    def open(self, spark: Any, identifier: TableName) -> Adapter[Any]:
        """The adapter of one table. Raises NotFound, Unsupported or AdapterError (e.g. jars missing)."""
        ...

    def refused(self, table: str, error: BaseException) -> Unsupported | None:
        """What an error of the format's own library says of a table that it can not open; None for any other."""
        ...

    def examine(self, spark: Any) -> Sequence[Finding]:
        """What ``lakekeeper doctor`` says of the format in a session; starts and changes nothing, raises nothing."""
        ...

    def lost_race(self, error: BaseException) -> bool:
        """Did a statement of the format's own writer fail because somebody else committed first?

        False in doubt: an outcome that is not known must not be taken for a loss.
        """
        ...


@dataclass(frozen=True, slots=True)
class TableName:
    """A table as Spark resolved it: by path, or by catalog, namespace and name.

    ``text`` is what the caller wrote; ``sql`` names the table in a statement, quoted.
    """

    text: str
    provider: str
    sql: str
    catalog: str = ""
    namespace: tuple[str, ...] = ()
    name: str = ""
    path: str = ""


class Runner(Protocol[Rows]):
    """Sorts rows for a task; knows nothing of formats."""

    def merge(self, rows: Rows, task: MergeTask) -> Rows:
        """Rows in the task's key order, split into ranges at its cuts."""
        ...

    def match(self, traces: Traces[Rows], most: int) -> Matched[Rows]:
        """Find each lost row in the outputs, equal ones numbered so that no place is taken twice.

        More than ``most`` lost rows are counted and not looked for. Give the result to :meth:`release`.
        """
        ...

    def hold(self, hits: Rows) -> Held[Rows]:
        """Work out places once and keep them, with their number by file. Give the result to :meth:`release`."""
        ...

    def only(self, held: Held[Rows], files: Collection[str]) -> Held[Rows]:
        """The places in these files; it stands on ``held`` and is not released by itself."""
        ...

    def release(self, kept: Matched[Rows] | Held[Rows]) -> None:
        """Forget what was kept."""
        ...

    def working(self, run_id: str, task: MergeTask) -> AbstractContextManager[None]:
        """Around the work on one task, in its thread: marks its jobs so that :meth:`cancel` finds them."""
        ...

    def cancel(self, run_id: str) -> None:
        """Stop all jobs of a run."""
        ...
