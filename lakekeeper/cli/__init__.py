"""The command line: results on stdout, progress and errors on stderr.

    lakekeeper recluster ice.db.events --catalog ice=jdbc:sqlite:/data/catalog.db

Exit codes: 0 done, 1 failed, 2 wrong use. Spark is imported when a command needs it, so help is quick.
"""

from __future__ import annotations

from lakekeeper.cli.app import app, main

__all__ = ["app", "main"]
