"""kill -9 of the driver and its JVM at each point of a run; another process then checks what is left."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.ground import KINDS, Ground, IcebergGround
from tests.faults.processes import gone, killed
from tests.faults.trial import PROGRAMS, VACUUM, Trial
from tests.faults.victim import POINTS, VACUUM_POINTS, Errand, program

pytestmark = pytest.mark.slow
Grounds = Callable[[str], Ground]
_AFTER = ("commit:within", "commit:after", "committed:1")


def errand(ground: Ground, name: str, point: str, warehouse: Path) -> Errand:
    winner = ground.won[program(name).winner or "delete"]
    return Errand(
        program=name,
        point=point,
        sql=ground.sql,
        home=str(ground.home),
        warehouse=str(warehouse),
        catalog_file=str(warehouse / "ice.db"),
        name=ground.name if isinstance(ground, IcebergGround) else "",
        winner=str(winner.files),
        pointer=winner.pointer,
    )


def kill(ground: Ground, warehouse: Path, name: str, point: str) -> None:
    said = killed("tests.faults.victim", errand(ground, name, point, warehouse).json())
    java = int(said.partition("java ")[2].split()[0])
    assert gone(java), "the JVM is still running after its driver"


def kill_and_look(ground: Ground, warehouse: Path, name: str, point: str) -> None:
    trial = Trial(ground, PROGRAMS[name]).start()
    kill(ground, warehouse, name, point)
    trial.raced = len(trial.ground.log()) > len(ground.base.log) and trial.program.winner != ""
    trial.check(spark_everywhere=True)
    landed = trial.commits()
    assert landed == (point in _AFTER)
    print(f"{ground.kind}, {name}, {point}: {landed} commits, {len(trial.leftovers())} leftovers")
    trial.clean(trial.finish(landed, spark_everywhere=True))


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


def kill_and_vacuum(ground: Ground, warehouse: Path, point: str) -> None:
    """A vacuum is killed; the newest version is intact, and the next vacuum deletes all remaining garbage."""
    trial = Trial(ground, VACUUM, raced=True).start()
    ground.land("layout")
    kill(ground, warehouse, VACUUM.name, point)
    held = ground.held[-1]
    assert ground.needed() <= ground.on_disk()
    assert ground.rows(ground.log()[-1].version) == ground.expected(held)
    print(f"{ground.kind}, vacuum, {point}: {len(ground.on_disk() - ground.needed())} files to go")
    trial.clean(held)


@pytest.mark.parametrize(
    "kind,point",
    [
        pytest.param("delta", "deleted:1", marks=pytest.mark.delta),
        pytest.param("iceberg-v3", "expire:within", marks=pytest.mark.iceberg),
    ],
)
def test_some_points_of_a_vacuum(ground: Grounds, warehouse: Path, kind: str, point: str) -> None:
    kill_and_vacuum(ground(kind), warehouse, point)


@pytest.mark.faults_full
@pytest.mark.parametrize(
    "kind,point",
    # On Delta, expiring commits nothing.
    [(k, p) for k in KINDS for p in VACUUM_POINTS if (k, p) != ("delta", "expire:within")],
)
def test_every_point_of_a_vacuum(ground: Grounds, warehouse: Path, kind: str, point: str) -> None:
    kill_and_vacuum(ground(kind), warehouse, point)


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
