"""A standalone Spark cluster on loopback: a master and two workers, each a process, from the installed PySpark."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyspark

from lakekeeper.spark.session import prepare_environment
from tests.faults.processes import free_port, listening

HOME = Path(__file__).parents[2]
_SPARK = Path(pyspark.__file__).parent
_WORKERS = 2
BOUND = ("setpriv", "--pdeathsig", "TERM") if shutil.which("setpriv") else ()
"""Prefix of a command: its process ends when the tests' process ends, even if that is killed."""


def environment() -> dict[str, str]:
    """The environment of the cluster's processes and of the programs that use it: executors import lakekeeper, too."""
    prepare_environment("local[*]")
    return {
        **os.environ,
        "PYTHONPATH": f"{HOME}{os.pathsep}{HOME / 'adapters'}",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(_SPARK),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
    }


@dataclass(frozen=True)
class Cluster:
    """The master's address, and the port of its web page."""

    master: str
    page: int

    def applications(self, state: str = "activeapps") -> list[Mapping[str, Any]]:
        """The applications that the master lists: ``activeapps`` or ``completedapps``."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.page}/json/", timeout=60) as answer:
            return list(json.load(answer)[state])


@contextmanager
def cluster(
    folder: Path, *, spark: Path = _SPARK, env: Mapping[str, str] | None = None, memory: str = "1g"
) -> Iterator[Cluster]:
    """Runs until the end of the block; its logs are in ``folder``. ``spark`` is its installation.

    ``memory`` is what a worker may give to executors.
    """
    port, page = free_port(), free_port()
    program, given = str(spark / "bin" / "spark-class"), env or environment()
    found = Cluster(f"spark://127.0.0.1:{port}", page)
    with ExitStack() as ending:
        start = partial(_daemon, ending, folder, program, given)
        host = ("--host", "127.0.0.1")
        master = start("master.Master", *host, "--port", str(port), "--webui-port", str(page))
        listening(port, master)
        listening(page, master)
        for number in range(_WORKERS):
            size = ("--cores", "1", "--memory", memory)
            place = ("--webui-port", "0", "--work-dir", str(folder / f"worker-{number}"))
            start("worker.Worker", *host, *size, *place, found.master)
        yield found


def _daemon(
    ending: ExitStack, folder: Path, program: str, env: Mapping[str, str], name: str, *arguments: str
) -> subprocess.Popen[bytes]:
    folder.mkdir(parents=True, exist_ok=True)
    log = ending.enter_context((folder / f"{name}.log").open("ab"))
    process = subprocess.Popen(
        [*BOUND, program, f"org.apache.spark.deploy.{name}", *arguments],
        env=env,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )

    def end() -> None:
        process.terminate()
        process.wait()

    ending.callback(end)
    return process


def processes(parent: int | None = None, *words: str) -> list[int]:
    """Processes whose command lines contain all of these words, children of ``parent`` if it is given."""
    found = []
    for place in Path("/proc").iterdir():
        if not place.name.isdecimal():
            continue
        try:
            command = (place / "cmdline").read_bytes().decode(errors="replace").split("\0")
            owner = int((place / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:  # it ended meanwhile
            continue
        if parent in (None, owner) and all(word in command for word in words):
            found.append(int(place.name))
    return found
