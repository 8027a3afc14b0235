"""A job for Flink's own Python: statements that prepare, and inserts that run as one job until its sources end.

    python flink_program.py job.json        {"settings": {…}, "prepare": ["…"], "inserts": ["…"]}

Imports nothing of this project: it runs in an environment of its own.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyflink.common import Configuration
from pyflink.table import EnvironmentSettings, TableEnvironment


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    settings = Configuration()
    for key, value in job["settings"].items():
        settings.set_string(key, str(value))
    mode = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(settings).build()
    tables = TableEnvironment.create(mode)
    for statement in job["prepare"]:
        tables.execute_sql(statement)
    inserts = tables.create_statement_set()
    for statement in job["inserts"]:
        inserts.add_insert_sql(statement)
    result = inserts.execute()
    print("running", flush=True)
    result.wait()
    print("finished", flush=True)


if __name__ == "__main__":
    main()
