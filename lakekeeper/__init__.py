"""lakekeeper: a maintenance engine for Delta Lake and Apache Iceberg tables on Spark.

    import lakekeeper as lk
    t = lk.table(spark, "ice.db.events")
    print(t.clustering_information())
    print(t.recluster())

Importing the package starts nothing and does not import pyspark.
"""

from __future__ import annotations

from lakekeeper import errors
from lakekeeper.api import Table, table
from lakekeeper.application import Installed, InstallStatus, install
from lakekeeper.core.cost.key_advisor import Advice
from lakekeeper.core.layout.clustering_info import ClusteringInformation
from lakekeeper.core.model.lifecycle_report import LifecycleReport
from lakekeeper.core.model.plan import Plan
from lakekeeper.core.model.report import (
    DeleteReport,
    KeyReport,
    MergeReport,
    MetadataReport,
    RestoreReport,
    UndoReport,
)
from lakekeeper.core.model.statistics_report import StatisticsReport
from lakekeeper.core.scheduling.auto_report import AutoReport
from lakekeeper.core.simulation.simulate import SimulationReport
from lakekeeper.core.vacuum.streams_report import StreamsReport
from lakekeeper.core.vacuum.vacuum_report import VacuumReport
from lakekeeper.core.workload.workload import Workload
from lakekeeper.dropped_tables import (
    DroppedTable,
    drop_table,
    dropped_tables,
    empty_dropped,
    restore_table,
)
from lakekeeper.engine.service import Service
from lakekeeper.engine.trash.entries import TrashEntry
from lakekeeper.errors import LakekeeperError
from lakekeeper.fleet import auto, run
from lakekeeper.history.costs import Cost, Costs
from lakekeeper.history.history import History
from lakekeeper.history.operation import Decision, Operation
from lakekeeper.page.report import HtmlReport
from lakekeeper.reporting import report
from lakekeeper.spark.query_listener import Listening
from lakekeeper.statements.sql import sql
from lakekeeper.workloads import listen

__all__ = [
    "Advice",
    "AutoReport",
    "ClusteringInformation",
    "Cost",
    "Costs",
    "Decision",
    "DeleteReport",
    "DroppedTable",
    "History",
    "HtmlReport",
    "InstallStatus",
    "Installed",
    "KeyReport",
    "LakekeeperError",
    "LifecycleReport",
    "Listening",
    "MergeReport",
    "MetadataReport",
    "Operation",
    "Plan",
    "RestoreReport",
    "Service",
    "SimulationReport",
    "StatisticsReport",
    "StreamsReport",
    "Table",
    "TrashEntry",
    "UndoReport",
    "VacuumReport",
    "Workload",
    "auto",
    "drop_table",
    "dropped_tables",
    "empty_dropped",
    "errors",
    "install",
    "listen",
    "report",
    "restore_table",
    "run",
    "sql",
    "table",
]


def __getattr__(name: str) -> str:
    """``__version__``, read from the installed distribution on access."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version

    return version("lakekeeper-spark")
