"""kill -9 of the driver and its JVM at each point of a run; another process then looks at what is left."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.ground import KINDS, Ground, IcebergGround
from tests.faults.trial import PROGRAMS, Trial
from tests.faults.victim import POINTS, Errand

pytestmark = pytest.mark.slow
Grounds = Callable[[str], Ground]
_PATIENCE = 300  # seconds; a start of Spark on a busy machine
_HOME = Path(__file__).parents[2]
_AFTER = ("commit:within", "commit:after", "committed:1")


def errand(ground: Ground, program: str, point: str, warehouse: Path) -> Errand:
    winner = ground.won[PROGRAMS[program].winner or "delete"]
    return Errand(
        program=program,
        point=point,
        sql=ground.sql,
        home=str(ground.home),
        warehouse=str(warehouse),
        catalog_file=str(warehouse / "ice.db"),
        name=ground.name if isinstance(ground, IcebergGround) else "",
        winner=str(winner.files),
        pointer=winner.pointer,
    )


def killed(told: Errand) -> str:
    """Run the victim to its end; what it said."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.victim", told.json()],
        cwd=_HOME,
        env={**os.environ, "PYTHONPATH": f"{_HOME}{os.pathsep}{_HOME / 'adapters'}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_PATIENCE,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, f"not killed at {told.point}: {done.stdout}"
    return done.stdout


def gone(process: int) -> bool:
    """Has a process ended, at the latest after a while?"""
    try:
        handle = os.pidfd_open(process)
    except ProcessLookupError:
        return True
    try:
        waiting = select.poll()
        waiting.register(handle, select.POLLIN)
        return bool(waiting.poll(30_000))
    finally:
        os.close(handle)


def kill_and_look(ground: Ground, warehouse: Path, program: str, point: str) -> None:
    trial = Trial(ground, PROGRAMS[program]).start()
    said = killed(errand(ground, program, point, warehouse))
    java = int(said.partition("java ")[2].split()[0])
    assert gone(java), "the JVM outlived its driver"
    trial.raced = len(trial.ground.log()) > len(ground.base.log) and trial.program.winner != ""
    trial.check(spark_everywhere=True)
    landed = trial.commits()
    assert landed == (point in _AFTER)
    print(f"{ground.kind}, {program}, {point}: {landed} commits, {len(trial.leftovers())} leftovers")
    trial.finish(landed, spark_everywhere=True)


@pytest.mark.parametrize(
    "kind,program,point",
    [
        pytest.param("delta", "delete", "commit:within", marks=pytest.mark.delta),
        pytest.param("iceberg-v3", "raced recluster", "commit:within", marks=pytest.mark.iceberg),
        pytest.param("iceberg-v2", "raced recluster", "written:2", marks=pytest.mark.iceberg),
    ],
)
def test_some_points(ground: Grounds, warehouse: Path, kind: str, program: str, point: str) -> None:
    kill_and_look(ground(kind), warehouse, program, point)


@pytest.mark.faults_full
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_point_of_a_raced_recluster(ground: Grounds, warehouse: Path, kind: str, point: str) -> None:
    kill_and_look(ground(kind), warehouse, "raced recluster", point)


@pytest.mark.faults_full
@pytest.mark.parametrize("point", [p for p in POINTS if p.startswith(("before_commit", "commit"))])
@pytest.mark.parametrize("kind", KINDS)
def test_every_point_of_a_delete(ground: Grounds, warehouse: Path, kind: str, point: str) -> None:
    kill_and_look(ground(kind), warehouse, "delete", point)
