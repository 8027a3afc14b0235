"""The values that a report shows of one table: results of the API, and charts of bounded size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lakekeeper.core.layout.clustering_info import ClusteringInformation, measure
from lakekeeper.core.layout.key_profile import KeyProfile, key_profile
from lakekeeper.core.model.blocks import Snapshot
from lakekeeper.core.model.plan import Plan, Tasks
from lakekeeper.core.scheduling.debt import Debt, debt_of
from lakekeeper.core.workload.workload import Workload
from lakekeeper.history.costs import Costs, Prices, costs_of
from lakekeeper.history.history import Recorded


@dataclass(frozen=True, slots=True)
class Measured:
    """The average number of data files that Spark read for a query, over the scans that reported it."""

    files: float
    scans: int


@dataclass(frozen=True, slots=True, eq=False)
class TableView:
    """One table.

    information   None without a cluster key
    plan          the plan of ``recluster``, or of ``compact`` without a key
    measured      None if no observed query reported its files
    recorded      the operations on it
    """

    table: str
    format: str
    information: ClusteringInformation | None
    plan: Plan
    profile: KeyProfile | None
    measured: Measured | None
    recorded: Recorded
    costs: Costs
    prices: Prices

    @property
    def debt(self) -> Debt:
        """What the plan would save per day, and the bytes that it would rewrite."""
        return debt_of([self.plan])

    @property
    def files_per_query(self) -> tuple[float, float] | None:
        """The predicted number of files that a query reads, now and after the plan."""
        if self.plan.prediction is None:
            return None
        worth = self.plan.prediction.worth
        return worth.before.files, worth.after.files if self.plan.tasks else worth.before.files

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, with the number of groups of the plan."""
        plan = self.plan
        return {
            "table": self.table,
            "format": self.format,
            "version": plan.version,
            "information": self.information.to_dict() if self.information else None,
            "plan": {
                "key": plan.key,
                "policies": list(plan.policies),
                "groups": len(plan.tasks),
                "input_files": plan.input_files,
                "input_bytes": plan.input_bytes,
                "left": [item.to_dict() for item in plan.left],
                "prediction": plan.prediction.to_dict() if plan.prediction else None,
            },
            "debt": self.debt.to_dict(),
            "measured_files_per_query": self.measured.files if self.measured else None,
            "operations": None if self.recorded.operations is None else len(self.recorded.operations),
            "history_error": self.recorded.error or None,
            **self.costs.to_dict(),
        }


def view_of(
    name: tuple[str, str],
    snapshot: Snapshot,
    plan: Plan,
    workload: Workload | None,
    recorded: Recorded,
    prices: Prices,
) -> TableView:
    """The view of a table, given as (name, format), at the version of the snapshot that the plan was made on."""
    if not isinstance(plan.tasks, Tasks):
        raise TypeError(
            f"view_of: expected a plan as make_plan returns it, got tasks in a {type(plan.tasks)}"
        )
    table, form = name
    return TableView(
        table=table,
        format=form,
        information=measure(snapshot) if snapshot.key is not None else None,
        plan=plan,
        profile=key_profile(snapshot, plan.tasks),
        measured=_measured(workload),
        recorded=recorded,
        costs=costs_of(recorded.operations or (), prices),
        prices=prices,
    )


def _measured(workload: Workload | None) -> Measured | None:
    known = [scan for scan in workload.scans if scan.files_read is not None] if workload else []
    weight = sum(scan.weight for scan in known)
    if not weight:
        return None
    return Measured(sum((scan.files_read or 0) * scan.weight for scan in known) / weight, len(known))
