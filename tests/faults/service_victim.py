"""A service that kills itself in a merge, its JVM first: ``python -m tests.faults.service_victim ARGUMENTS``.

The arguments are those of ``lakekeeper``. It ends when the first group is written and not committed.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from typing import Any
from unittest import mock

from lakekeeper.cli import main
from lakekeeper.cli.progress import Progress


class Ending(Progress):
    """The observer of the command's passes."""

    def __call__(self, phase: str, info: Mapping[str, Any]) -> None:
        if phase == "written":
            from pyspark.sql import SparkSession

            gateway: Any = SparkSession.active().sparkContext._gateway
            print(f"java {gateway.proc.pid}", flush=True)
            os.kill(gateway.proc.pid, signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)
        super().__call__(phase, info)


if __name__ == "__main__":
    with mock.patch("lakekeeper.cli.setup.Progress", Ending):
        sys.exit(main(sys.argv[1:]))
