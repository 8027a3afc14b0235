"""Walk through the pages as a new user: the wheel in a fresh environment, an empty folder, each command in a shell.

    python -m tests.docs.walk                    all pages (make walk, an hour)
    python -m tests.docs.walk quickstart sql     these pages

The output of each page is in ``build/walk/<page>.log``. Exits with 1 if a block of a page failed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import venv
from dataclasses import asdict
from pathlib import Path

from tests.docs.blocks import PAGES, ROOT, statements, to_run

PLACE = ROOT / "build" / "walk"
EXTRAS = "spark,delta,iceberg"
READER = """
import json, subprocess, sys
from pathlib import Path

names = {"__name__": "__main__"}
for block in json.load(sys.stdin):
    print(f"\\n--- line {block['line']} ---\\n{block['code']}", flush=True)
    if block["file"]:
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


def main(chosen: list[str]) -> int:
    """Walk through the named pages, or all; 1 if one failed."""
    python = environment()
    failed = 0
    for page in PAGES:
        if chosen and page.stem not in chosen:
            continue
        started = time.monotonic()
        ended = walk(page, python)
        failed += not ended
        print(f"{'ok  ' if ended else 'FAIL'} {page.stem}, {time.monotonic() - started:,.0f} s", flush=True)
    return int(failed > 0)


def environment() -> Path:
    """The Python of a new virtual environment with a wheel of the repository's current state."""
    shutil.rmtree(PLACE, ignore_errors=True)
    wheels, home = PLACE / "wheel", PLACE / "venv"
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(wheels)]
    subprocess.run([*pip, str(ROOT)], check=True)
    (wheel,) = wheels.glob("*.whl")
    venv.create(home, with_pip=True)
    python = home / "bin" / "python"
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", f"{wheel}[{EXTRAS}]"], check=True)
    return python


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
    sys.exit(main(sys.argv[1:]))
