"""The public API of a table, and the composition root that wires the layers together.

t = table(spark, "ice.db.events")
t.cluster_by("user_id", "ts")
print(t.plan())
print(t.recluster())
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lakekeeper.clustering import Clustering
from lakekeeper.core.config.options import PROPERTY_PREFIX, lookup
from lakekeeper.core.cost.key_advisor import Advice
from lakekeeper.core.layout.clustering_info import ClusteringInformation, measure
from lakekeeper.core.model.keys import parse_layout
from lakekeeper.core.model.plan import Plan
from lakekeeper.core.model.report import DeleteReport, MergeReport
from lakekeeper.core.simulation.simulate import SimulationReport
from lakekeeper.core.workload.workload import Workload
from lakekeeper.engine.advise import advise_table
from lakekeeper.engine.clock import Clock
from lakekeeper.engine.delete.row_delete import delete_rows
from lakekeeper.engine.merge.delete_files import merge_deletes
from lakekeeper.engine.merge.job import maintain
from lakekeeper.engine.merge.partition_backoff import Backoff
from lakekeeper.engine.merge.planning import look, plan_for
from lakekeeper.engine.merge.request import Request
from lakekeeper.engine.plugins import find_policies
from lakekeeper.engine.simulate import Course, simulate_table
from lakekeeper.errors import OptionError
from lakekeeper.observe import Queries, workload_of
from lakekeeper.opening import open_adapter
from lakekeeper.spark.frames import blocks_frame
from lakekeeper.spark.jvm import require_classic
from lakekeeper.spark.merge import SparkRunner
from lakekeeper.spark.where import check_where
from lakekeeper.spi import Adapter, Observer, TableName

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VERB_POLICIES: Mapping[str, tuple[str, ...]] = {
    "recluster": ("adaptive",),
    "compact": ("sizes",),
    "merge_deletes": ("deletes",),
}


class Table(Clustering):
    """One table under maintenance, created by :func:`table`. Holds no data and no lock.

    ``backoff`` carries over, from call to call, the partitions in which users are writing.
    """

    def __init__(
        self,
        spark: SparkSession,
        name: TableName,
        adapter: Adapter[Any],
        *,
        clock: Clock | None = None,
        backoff: Backoff | None = None,
    ) -> None:
        self._spark = spark
        self._name = name
        self._adapter = adapter
        self._clock = clock or Clock()
        self._backoff = backoff

    def __repr__(self) -> str:
        return f"<lakekeeper {self._name.provider} table {self._name.text}>"

    @property
    def format(self) -> str:
        """``delta``, ``iceberg``, or another adapter's name."""
        return self._name.provider

    @property
    def automatic(self) -> bool:
        """False if the property ``lakekeeper.auto.enabled`` is false: automatic runs then skip the table."""
        said = self._adapter.properties().get(PROPERTY_PREFIX + "auto.enabled")
        return said is None or bool(lookup("auto.enabled").parse(said))

    def clustering_information(
        self, columns: Sequence[str] | str | None = None, *, where: str | None = None
    ) -> ClusteringInformation:
        """How well the table is clustered by its key, or by ``columns``; field names follow Snowflake.

        ``columns`` as text may name a layout, ``"hilbert(a, b)"``; otherwise the layout is linear. ``where`` restricts
        the result to blocks that may hold a match. Reads no data file. Raises OptionError if the table has no key and
        no ``columns`` are given.
        """
        request = self._request("recluster", columns=columns, where=where)
        return measure(look(self._adapter, request))

    def clustering_depth(
        self, columns: Sequence[str] | str | None = None, *, where: str | None = None
    ) -> float:
        """Average depth; 1.0 is perfect, 0.0 means an empty table. See :meth:`clustering_information`."""
        return self.clustering_information(columns, where=where).average_depth

    def blocks(self) -> DataFrame:
        """One row per live data file: path, sizes, deletes, level, key id, depth, and bounds as text."""
        return blocks_frame(self._spark, look(self._adapter, self._request("compact")))

    def plan(
        self,
        policy: str | Sequence[str] | None = None,
        *,
        where: str | None = None,
        budget_bytes: int | None = None,
        workload: Queries | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Plan:
        """What :meth:`recluster` would do now, and why each block is selected or skipped. Writes nothing.

        The plan predicts what a query opens before and after it; ``to_frame(spark)`` has one row per block.
        ``workload`` is a :class:`Workload` or paths of Spark event logs; for the default see :meth:`workload`.
        """
        request = self._request(
            "recluster", policy=policy, where=where, budget_bytes=budget_bytes, options=options
        )
        return plan_for(self._adapter, self._weighed(request, workload), self._clock)[1]

    def simulate(
        self,
        policy: str | Sequence[str] | None = None,
        *,
        key: Sequence[str] | str | None = None,
        commits: int | None = None,
        stream: str | None = None,
        every: int = 10,
        seed: int = 0,
        final: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> SimulationReport:
        """Simulate policies on the table, commit by commit, on metadata only; reads and writes no data file.

        By default, replays the commits that added the table's files into an empty table. With ``commits``, starts from
        the current table and adds that many commits like its recent ones. With ``stream`` (wide, late, windows,
        backfill, jitter, time), plays a named stream of 300, or ``commits``, files of the target size. Maintenance
        runs after every ``every``-th commit; ``final`` as in :meth:`recluster`. ``key`` replaces the table's own key
        columns; ``seed`` selects the random commits. Raises OptionError for values out of range, and if the table has
        no history to replay.
        """
        course = Course(stream, commits, every, seed, final)
        request = self._request("recluster", columns=key, policy=policy, options=options)
        return simulate_table(self._adapter, request, course)

    def advise(
        self,
        workload: Queries | None = None,
        *,
        columns: Sequence[str] | str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Advice:
        """Whether another cluster key would serve the queries better, by how much, and when it would pay for itself.

        ``workload`` as for :meth:`plan`; ``columns`` restricts the candidates to one to four columns. Reads no data
        file and changes nothing. Raises OptionError if the workload is missing, is empty or filters no column of the
        table, and for columns that cannot be a key.
        """
        request = self._weighed(self._request("recluster", columns=columns, options=options), workload)
        if request.workload is None:
            raise OptionError(
                "workload",
                workload,
                "paths of Spark event logs, a Workload, or a session that observe(spark) listens to",
            )
        return advise_table(self._adapter, request, request.workload, self._clock)

    def workload(
        self, source: Queries | None = None, *, options: Mapping[str, Any] | None = None
    ) -> Workload | None:
        """The queries on this table, read from ``source``: paths of event logs, or of a saved workload.

        Without ``source``: what ``observe(spark)`` has recorded for the table, else the files that the option
        ``workload`` names, else None. Raises OptionError for a file that is not an event log.
        """
        return workload_of(self._spark, self._name, source, self.options(options))

    def recluster(  # noqa: PLR0913 - each is an option of the call
        self,
        columns: Sequence[str] | str | None = None,
        *,
        where: str | None = None,
        final: bool = False,
        policy: str | Sequence[str] | None = None,
        dry_run: bool = False,
        budget_bytes: int | None = None,
        observer: Observer | None = None,
        workload: Queries | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> MergeReport:
        """Merge blocks whose key ranges overlap, so that queries on the key read fewer files.

        ``where`` (Spark SQL over the table's columns) selects every file that may hold a match. ``final`` repeats
        until the thresholds are met. ``budget_bytes`` limits the bytes rewritten. ``observer`` is called at each
        phase; ``workload`` as for :meth:`plan`. Raises OptionError, NotFound or Unsupported before any write, and
        CommitError after.
        """
        request = self._request(
            "recluster",
            columns=columns,
            where=where,
            policy=policy,
            budget_bytes=budget_bytes,
            options=options,
            final=final,
            dry_run=dry_run,
        )
        return self._run(self._weighed(request, workload), observer)

    def compact(
        self,
        *,
        where: str | None = None,
        final: bool = False,
        policy: str | Sequence[str] | None = None,
        dry_run: bool = False,
        budget_bytes: int | None = None,
        observer: Observer | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> MergeReport:
        """Merge small adjacent files; needs no cluster key, and preserves the order of one if the table has it.

        Parameters and errors as for :meth:`recluster`.
        """
        request = self._request(
            "compact",
            where=where,
            policy=policy,
            budget_bytes=budget_bytes,
            options=options,
            final=final,
            dry_run=dry_run,
        )
        return self._run(self._weighed(request), observer)

    def merge_deletes(
        self,
        *,
        where: str | None = None,
        dry_run: bool = False,
        policy: str | Sequence[str] | None = None,
        budget_bytes: int | None = None,
        observer: Observer | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> MergeReport:
        """Rewrite files with many deleted rows, then remove delete files that no longer apply to any row and merge
        small ones.

        A file is due if at least ``delete-ratio-threshold`` of its rows are deleted (older files: see
        ``delete-ratio-threshold-old``), or if that number is unknown. Needs no cluster key, and preserves the order of
        one if the table has it. ``where`` and ``budget_bytes`` limit the files that are rewritten. Other parameters
        and errors as for :meth:`recluster`.
        """
        request = self._request(
            "merge_deletes",
            where=where,
            policy=policy,
            budget_bytes=budget_bytes,
            options=options,
            dry_run=dry_run,
        )
        runner = SparkRunner(self._spark)
        return merge_deletes(
            self._adapter, runner, self._weighed(request), observer=observer, clock=self._clock
        )

    def delete(
        self, where: str, *, observer: Observer | None = None, options: Mapping[str, Any] | None = None
    ) -> DeleteReport:
        """Delete the rows for which ``where`` is true; ``true`` deletes every row.

        Rows are deleted by position (deletion vector, position delete) if the table permits it; otherwise their files
        are rewritten. Maintenance never makes the delete fail: rows that a rewrite has moved are found at their new
        position. An unknown or invalid table property ``lakekeeper.*`` is ignored with a warning. ``where`` (Spark SQL
        over the table's columns) must have the same result each time it is evaluated: a predicate that depends on the
        current time or on the session is rejected. Raises OptionError, NotFound or Unsupported before any write, and
        CommitError after.
        """
        if not str(where or "").strip():
            raise OptionError(
                "where", where, "a predicate over the table's columns; 'true' deletes every row"
            )
        resolved = self.options(options, lenient=True)
        check_where(self._spark, self._name, where, steady=True)
        runner = SparkRunner(self._spark)
        return delete_rows(self._adapter, runner, where, resolved, observer=observer, clock=self._clock)

    def _weighed(self, request: Request, source: Queries | None = None) -> Request:
        """The request with the workload that its plan is based on."""
        return replace(request, workload=workload_of(self._spark, self._name, source, request.options))

    def _run(self, request: Request, observer: Observer | None) -> MergeReport:
        return maintain(
            self._adapter, SparkRunner(self._spark), request, observer=observer, clock=self._clock
        )

    def _request(
        self,
        verb: str,
        *,
        columns: Sequence[str] | str | None = None,
        where: str | None = None,
        policy: str | Sequence[str] | None = None,
        budget_bytes: int | None = None,
        options: Mapping[str, Any] | None = None,
        final: bool = False,
        dry_run: bool = False,
    ) -> Request:
        """Build the request of a verb. Validates all arguments of the call before the table's snapshot is read."""
        given = dict(options or {})
        if policy is not None:
            given["policy"] = policy if isinstance(policy, str) else ",".join(policy)
        if budget_bytes is not None:
            given["budget-bytes"] = budget_bytes
        resolved = self.options(given)
        # A configured policy applies to reclustering; other verbs use their own unless the call names one.
        named = resolved.words("policy") if verb == "recluster" or policy is not None else ()
        policies = find_policies(named or VERB_POLICIES[verb])
        if where is not None:
            check_where(self._spark, self._name, where)
        asked, layout = _columns(columns)
        # The adapter reads the property itself, which may identify its columns by more than their names.
        standing = resolved["cluster-by"] if resolved.origins["cluster-by"] != "property" else ""
        fallback, fallback_layout = parse_layout(standing)
        return Request(
            verb=verb,
            policies=policies,
            options=resolved,
            columns=asked,
            layout=layout,
            where=where,
            fallback_columns=fallback or None,
            fallback_layout=fallback_layout,
            needs_key=verb == "recluster",
            final=final,
            dry_run=dry_run,
            parallelism=self._spark.sparkContext.defaultParallelism,
            backoff=self._backoff,
        )


def table(spark: SparkSession, name: str) -> Table:
    """A table by name or path: ``ice.db.events``, ``db.t``, ``delta.`/path```, ``/path/to/delta``.

    The format is looked up in Spark's catalogs. Raises NotFound (no such table, or a view), AdapterError
    (no adapter for its format, or a Connect session) or Unsupported (an unknown table feature).
    """
    return open_table(spark, name)


def open_table(spark: SparkSession, name: str, backoff: Backoff | None = None) -> Table:
    """:func:`table` with a ``backoff``, for callers that maintain the table repeatedly."""
    require_classic(spark)
    opened = open_adapter(spark, name)
    return Table(spark, opened.name, opened.adapter, backoff=backoff)


def _columns(columns: Sequence[str] | str | None) -> tuple[tuple[str, ...] | None, str]:
    """Columns and layout of a call; text may name both: ``hilbert(a, b)``."""
    if columns is None:
        return None, "linear"
    given, layout = parse_layout(columns) if isinstance(columns, str) else (tuple(columns), "linear")
    if not given:
        raise OptionError("columns", columns, "one to four column names")
    return given, layout
