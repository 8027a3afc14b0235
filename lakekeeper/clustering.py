"""The part of a table's public face that keeps its cluster key."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from lakekeeper.core.model.report import KeyReport
from lakekeeper.errors import OptionError
from lakekeeper.vacuuming import Vacuuming

_LOG = logging.getLogger("lakekeeper")


class Clustering(Vacuuming):
    """A base of :class:`lakekeeper.api.Table`, which has the rest."""

    def cluster_by(
        self,
        *columns: str | None,
        layout: str = "linear",
        native: bool = False,
        dry_run: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> KeyReport:
        """Store the cluster key in the table; ``cluster_by(None)``, or no columns, takes it away.

        ``columns`` are one to four, in Spark SQL spelling. ``layout`` says how they share one line: ``linear`` sorts
        by them as a tuple, which serves the first; ``hilbert`` and ``zorder`` follow a curve through the ranks of two
        to four, which serves each of them. Blocks under another key or layout count as level 0 and are taken in step
        by step.

        The key is the table property ``lakekeeper.cluster-by``, which other engines pass over, unless the table has a
        native one already (Delta's CLUSTER BY, Iceberg's sort order), which is replaced. ``native=True`` makes one. On
        Delta that adds writer features to the table for good, and writers that do not know them are locked out: the
        report says which, ``dry_run=True`` says so beforehand, and a warning is logged before it is done.

        Raises OptionError for columns that can be no key (unknown, not orderable, kept without statistics), and for
        ``native=True`` where the table can not have such a key; Unsupported where a commit is not safe.
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
