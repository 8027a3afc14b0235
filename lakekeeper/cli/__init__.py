"""The command line: results on stdout, progress and errors on stderr.

    lakekeeper recluster ice.db.events --catalog ice=jdbc:sqlite:/data/catalog.db

Exit codes: 0 done, 1 failed, 2 usage error, 130 interrupted. Spark is imported only by commands that need it.
"""

from __future__ import annotations

from lakekeeper.cli.app import app, main

__all__ = ["app", "main"]
