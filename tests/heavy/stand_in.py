"""Replaces the application of heavy tasks, without Spark: ``python -m tests.heavy.stand_in START``.

START is ``ready``, ``refuse``, ``die``, ``hang`` or ``deaf``, which is ready and reads no task. The verb of a call
selects its outcome.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

from lakekeeper.core.model.report import MergeReport


def say(**message: Any) -> None:
    print(json.dumps(message), flush=True)


def answer(number: int, call: dict[str, Any]) -> None:
    table, verb = call["table"], call["verb"]
    info = {"table": table, "run_id": f"run-{number}", "tasks": 1}
    say(id=number, phase="planned", info=info)
    if verb == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if verb == "fail":
        say(id=number, error="SparkException: no space left")
    if verb == "lose":
        say(id=number, error="Py4JNetworkError: Java is gone", over=True)
        sys.exit(1)
    if verb == "garble":
        print("{not json", flush=True)
        return
    if verb == "log":
        record = {"name": "lakekeeper.events", "levelno": 30, "levelname": "WARNING", "msg": "lost a race"}
        say(log={**record, "table": table, "application": "app-1"})
    if verb not in ("hang", "fail"):
        report = MergeReport(
            table, verb, dry_run=False, version_before=1, version_after=2, rounds=os.getpid()
        )
        say(id=number, report=report.to_dict(), core_seconds=1.5)


def main(start: str) -> None:
    first = json.loads(sys.stdin.readline())
    if start == "refuse":
        say(failed=f"no master answers at {first['confs']['spark.master']}")
        return
    if start == "die":
        sys.exit(3)
    if start == "deaf":
        say(ready={"application": f"app-{os.getpid()}", "cores": 4})
        time.sleep(600)
    if start == "ready":
        say(ready={"application": f"app-{os.getpid()}", "cores": 4})
    for line in sys.stdin:
        message = json.loads(line)
        answer(message["id"], message["call"])


if __name__ == "__main__":
    main(sys.argv[1])
