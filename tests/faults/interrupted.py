"""The command line, paused at one phase until it is interrupted there: ``python -m tests.faults.interrupted <json>``.

At the phase it writes a line to the pipe ``<gate>.reached``; it continues once the file ``<gate>.go`` exists.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from pydoc import locate
from typing import Any

from tests.faults.storage import install

STORAGE = {
    "reading the log": {"delta": ("open", "_delta_log", ""), "iceberg": ("open", "metadata", ".avro")},
    "reading data": {"delta": ("open", "", ".parquet"), "iceberg": ("open", "", ".parquet")},
    "writing data": {"delta": ("create", "", ".parquet"), "iceberg": ("create", "", ".parquet")},
    "committing": {
        "delta": ("create", "_delta_log", ""),
        "iceberg": ("create", "metadata", ".metadata.json"),
    },
    "deleting": {"delta": ("delete", "", ".parquet"), "iceberg": ("delete", "", ".parquet")},
}
"""Phases that are calls of the storage: kind, folder below the table, and the end of the file name."""

FUNCTIONS = {
    "planning": ("lakekeeper.engine.merge.planning", "make_plan"),
    "making the context": ("pyspark.SparkContext", "_initialize_context"),
}
"""Phases that are Python functions: module or class, and name."""


@dataclass(frozen=True)
class Errand:
    """A command line, the phase, the pipe's name without its suffix, the table's folder and its format.

    ``grace``: seconds that an interrupted call may take; 0 for the default.
    """

    arguments: list[str]
    phase: str
    gate: str
    home: str
    format: str
    grace: float = 0.0

    def json(self) -> str:
        return json.dumps(asdict(self))


def reached(gate: str, what: str) -> None:
    """Report it, and wait."""
    with Path(f"{gate}.reached").open("w") as pipe:
        pipe.write(f"{what}\n")
    while not Path(f"{gate}.go").exists():
        time.sleep(0.02)


def main(errand: Errand) -> int:
    from lakekeeper.cli import main as command
    from lakekeeper.spark import session

    if errand.grace:
        from lakekeeper.spark import interrupts

        interrupts.GRACE_SECONDS = errand.grace
    if errand.phase == "planning":
        hold(errand)
    start = session.local_session

    def started(**given: Any) -> Any:
        if errand.phase == "making the context":  # not before: the import takes a while
            hold(errand)
        spark = start(**{**given, "small_data": True})
        gateway: Any = spark.sparkContext._gateway
        Path(f"{errand.gate}.java").write_text(str(gateway.proc.pid))
        if errand.phase in STORAGE:
            kind, folder, suffix = STORAGE[errand.phase][errand.format]
            storage, _ = install(spark)
            spark.sparkContext.setLogLevel("ERROR")
            storage.block(Path(errand.home, folder), kind, suffix, Path(errand.gate))
        return spark

    session.local_session = started  # the same, except for the pause
    sys.argv = ["lakekeeper", *errand.arguments]
    return command()


def hold(errand: Errand) -> None:
    """Pause the process before the function of its phase is called."""
    place, name = FUNCTIONS[errand.phase]
    owner = locate(place)
    function: Callable[..., Any] = getattr(owner, name)

    def held(*args: Any, **given: Any) -> Any:
        reached(errand.gate, errand.phase)
        return function(*args, **given)

    setattr(owner, name, held)


if __name__ == "__main__":
    sys.exit(main(Errand(**json.loads(sys.argv[1]))))
