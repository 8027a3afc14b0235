"""The request of a merge."""

from __future__ import annotations

from dataclasses import dataclass

from lakekeeper.core.config.options import Options
from lakekeeper.core.planning.policy import Policy
from lakekeeper.core.workload.workload import Workload
from lakekeeper.engine.merge.backoff import Backoff


@dataclass(frozen=True, slots=True)
class Request:
    """One call: the verb, its policies and options, and where it applies.

    ``columns`` override the table's key, ``fallback_columns`` are used if it has none, each with a layout.
    ``final`` repeats rounds until no policy chooses anything. ``parallelism`` is the cluster's. ``backoff``
    remembers where earlier calls lost races. ``workload`` describes the queries on the table, if known.
    ``recorded_bytes`` were rewritten on the table in 24 hours, as the history has recorded.
    """

    verb: str
    policies: tuple[Policy, ...]
    options: Options
    columns: tuple[str, ...] | None = None
    where: str | None = None
    fallback_columns: tuple[str, ...] | None = None
    layout: str = "linear"
    fallback_layout: str = "linear"
    needs_key: bool = False
    final: bool = False
    dry_run: bool = False
    parallelism: int = 1
    backoff: Backoff | None = None
    workload: Workload | None = None
    recorded_bytes: int = 0
