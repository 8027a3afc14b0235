"""The part of a table's public API that sets its cluster key."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from lakekeeper.core.model.report import KeyReport
from lakekeeper.errors import OptionError
from lakekeeper.vacuuming import Vacuuming

_LOG = logging.getLogger("lakekeeper")


class Clustering(Vacuuming):
    """Base class of :class:`lakekeeper.api.Table`: the cluster key."""

    def cluster_by(
        self,
        *columns: str | None,
        layout: str = "linear",
        native: bool = False,
        dry_run: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> KeyReport:
        """Store the cluster key in the table; ``cluster_by(None)``, or no columns, removes it.

        ``columns`` are one to four columns in Spark SQL spelling. ``layout`` maps them to one dimension: ``linear``
        sorts by them as a tuple, which serves the first column; ``hilbert`` and ``zorder`` follow a curve through the
        ranks of two to four columns, which serves each of them. Blocks under another key or layout count as level 0
        and are migrated step by step.

        The key is stored in the table property ``lakekeeper.cluster-by``, which other engines ignore. If the table
        already has a native key (Delta's CLUSTER BY, Iceberg's sort order), that key is replaced instead.
        ``native=True`` creates one. On Delta this permanently adds writer features to the table and locks out writers
        that do not support them: the report names the features, ``dry_run=True`` reports them beforehand, and a
        warning is logged before the change.

        Raises OptionError for columns that cannot be a key (unknown, not orderable, without statistics), and for
        ``native=True`` if the table cannot have a native key; Unsupported if a commit is not safe.
        """
        named = tuple(column for column in columns if isinstance(column, str))
        if len(named) != len(columns) and columns != (None,):
            raise OptionError("columns", columns, "column names, or None alone to take the key away")
        told = self._adapter.set_cluster_key(named, layout, native=native, dry_run=True)
        if dry_run:
            return told
        self._adapter.require_writable(self.options(options, lenient=True))
        if told.changes:
            _LOG.warning("%s", told)
        return self._adapter.set_cluster_key(named, layout, native=native)
