"""The columnar half of an adapter: a merge of Parquet files as plain data, and its outputs in the table's format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lakekeeper.core.model.file_merge import FileMerge, WrittenFile
from lakekeeper.core.model.plan import MergeTask
from lakekeeper.core.model.reason import Reason
from lakekeeper.core.planning.rewrites import Rewrite


class Columnar(Protocol):
    """Merges whose rows never enter the JVM.

    Optional: where an adapter has none, or refuses a task, the rows are sorted by Spark.
    """

    def plan(self, task: MergeTask, run_id: str) -> FileMerge | Reason:
        """The merge of a task into the folder of a run, or why it is left to Spark's rows.

        Only what is proven to give the same rows and statistics may be planned: each type, table feature, property and
        store by an allow-list. Reads deletes, but no data file.
        """
        ...

    def adopt(
        self, merge: FileMerge, written: Sequence[WrittenFile], task: MergeTask, run_id: str
    ) -> Rewrite:
        """The written files as a rewrite, equal to what :meth:`Adapter.write` returns for the same rows."""
        ...
