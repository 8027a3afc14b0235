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
from lakekeeper.core.workload.workload import Workload
from lakekeeper.dropped_tables import drop_table, dropped_tables, empty_dropped, restore_table
from lakekeeper.fleet import auto, run
from lakekeeper.observe import observe
from lakekeeper.sql import sql

__all__ = [
    "Table",
    "Workload",
    "auto",
    "drop_table",
    "dropped_tables",
    "empty_dropped",
    "errors",
    "observe",
    "restore_table",
    "run",
    "sql",
    "table",
]
