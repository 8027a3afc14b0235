"""Walk through the pages as a new user: the wheel in a fresh environment, an empty folder, each command in a shell.

    python -m tests.docs.walk                       all pages (make walk, an hour)
    python -m tests.docs.walk quickstart sql        these pages
    python -m tests.docs.walk --line 3.5 recluster  on this release line of Spark, else on the newest

The output of each page is in ``build/walk/<page>.log``. Exits with 1 if a block of a page failed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

from lakekeeper.spark.lines import LINES, NEWEST
from tests.docs.blocks import PAGES, ROOT, statements, to_run
from tools.environments import build_wheel, environment

PLACE = ROOT / "build" / "walk"
READER = """
import json, subprocess, sys
from pathlib import Path

names = {"__name__": "__main__"}
for block in json.load(sys.stdin):
    print(f"\\n--- line {block['line']} ---\\n{block['code']}", flush=True)
    if block["file"]:
        Path(block["file"]).parent.mkdir(parents=True, exist_ok=True)
        Path(block["file"]).write_text(block["code"])
    elif block["kind"] == "python":
        try:
            exec(block["code"], names)
        except SystemExit as ended:
            if ended.code:
                raise
    elif block["kind"] == "sql":
        for statement in block["statements"]:
            names["lk"].sql(names["spark"], statement).show()
    else:
        subprocess.run(["bash", "-euc", block["code"]], check=True)
print("--- end ---", flush=True)
"""
"""Runs the blocks as a reader with a Python prompt and a shell would; only the pages import lakekeeper."""


def main() -> int:
    """Walk through the named pages, or all; 1 if one failed."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("pages", nargs="*", metavar="page", help="such as quickstart; default: all")
    parser.add_argument("--line", default=NEWEST.name, choices=[line.name for line in LINES])
    given = parser.parse_args()
    if unknown := set(given.pages) - {page.stem for page in PAGES}:
        parser.error(f"no such page: {', '.join(sorted(unknown))}")
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir(parents=True)
    python = environment(next(line for line in LINES if line.name == given.line), build_wheel())
    failed = 0
    for page in PAGES:
        if given.pages and page.stem not in given.pages:
            continue
        started = time.monotonic()
        ended = walk(page, python)
        failed += not ended
        print(f"{'ok  ' if ended else 'FAIL'} {page.stem}, {time.monotonic() - started:,.0f} s", flush=True)
    return int(failed > 0)


def walk(page: Path, python: Path) -> bool:
    """Whether each block of a page runs, in an empty folder."""
    folder = PLACE / page.stem
    folder.mkdir()
    given = [asdict(block) | {"statements": list(statements(block.code))} for block in to_run(page)]
    outside = ("PYTHONPATH", "SPARK_HOME", "PYSPARK_SUBMIT_ARGS")
    env = {name: value for name, value in os.environ.items() if name not in outside}
    env["PATH"] = f"{python.parent}{os.pathsep}{env['PATH']}"
    log = PLACE / f"{page.stem}.log"
    with log.open("w") as output:
        done = subprocess.run(
            [str(python), "-c", READER],
            cwd=folder,
            env=env,
            input=json.dumps(given),
            text=True,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    return done.returncode == 0 and "--- end ---" in log.read_text()


if __name__ == "__main__":
    sys.exit(main())
