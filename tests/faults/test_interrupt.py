"""Ctrl-C and SIGTERM at each phase of a command: exit code, one line, no stack trace, no JVM, an intact table."""

from __future__ import annotations

import itertools
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from pydoc import locate
from typing import Any

import pytest

from tests.faults.ground import Ground
from tests.faults.interrupted import FUNCTIONS, Errand
from tests.faults.processes import gone
from tests.faults.trial import PROGRAMS, VACUUM, Trial

pytestmark = pytest.mark.slow
Grounds = Callable[[str], Ground]
_HOME = Path(__file__).parents[2]
_PATIENCE = 300
_LINE = "lakekeeper: interrupted; the table has only the work that was committed\n"
_RECLUSTER = ["--columns", "k", "--option", "depth-threshold=1", "--option", "commit.quiet-window-ms=0"]
_VACUUM = ["--retention-hours", "0", "--allow-unsafe-retention", "--yes", "--option", "vacuum.max-share=1"]
SIGNALS = (signal.SIGINT, signal.SIGTERM)
DELTA = pytest.param("delta", marks=[pytest.mark.delta, pytest.mark.faults_full])
ICEBERG = pytest.param("iceberg-v3", marks=pytest.mark.iceberg)


@dataclass
class Command:
    """A command line in a process of its own, paused at one phase."""

    process: subprocess.Popen[str]
    gate: Path
    pipe: int

    def at_the_phase(self) -> str:
        """Wait until it reaches the phase; return what it reports there."""
        waiting = select.poll()
        waiting.register(self.pipe, select.POLLIN)
        for _ in range(_PATIENCE):
            if waiting.poll(1000):
                return os.read(self.pipe, 10_000).decode()
            if self.process.poll() is not None:
                break
        raise AssertionError(f"it never reached the phase: {self.process.communicate()}")

    def go_on(self) -> None:
        Path(f"{self.gate}.go").touch()

    def ended(self) -> tuple[int, str, str]:
        """Exit code, stdout and stderr; its JVM has ended too."""
        out, err = self.process.communicate(timeout=_PATIENCE)
        java = Path(f"{self.gate}.java")
        assert gone(int(java.read_text())), "the JVM is still running after the command"
        return self.process.returncode, out, err


def command(
    ground: Ground, place: Path, phase: str, *arguments: str, grace: float = 0.0, **environment: str
) -> Command:
    """Start the command on the table of a ground."""
    gate = place / "gate"
    os.mkfifo(f"{gate}.reached")
    pipe = os.open(f"{gate}.reached", os.O_RDONLY | os.O_NONBLOCK)
    uri = ground.spark.conf.get("spark.sql.catalog.ice.uri") or ""
    catalog = Path(uri.removeprefix("jdbc:sqlite:"))
    given = [*arguments, "--catalog", f"ice=jdbc:sqlite:{catalog}", "--warehouse", str(catalog.parent)]
    errand = Errand(
        [*given, "--master", "local[2]"], phase, str(gate), str(ground.home), ground.kind.partition("-")[0],
        grace,
    )  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.faults.interrupted", errand.json()],
        cwd=_HOME,
        env={**os.environ, "PYTHONPATH": f"{_HOME}{os.pathsep}{_HOME / 'adapters'}", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    return Command(process, gate, pipe)


def recluster(ground: Ground, place: Path, phase: str, *, grace: float = 0.0) -> Command:
    return command(ground, place, phase, "recluster", ground.sql, *_RECLUSTER, "--quiet", grace=grace)


def check_line(code: int, out: str, err: str) -> None:
    assert (code, out, err) == (130, "", _LINE)


def cases() -> Iterator[Any]:
    """Each kind of table, phase and signal; the few that run in every test run have no mark."""
    usual = {("delta", "writing data", signal.SIGTERM), ("iceberg-v3", "reading the log", signal.SIGINT)}
    phases = ("reading the log", "planning", "reading data", "writing data")
    for case in itertools.product(("delta", "iceberg-v3"), phases, SIGNALS):
        marks = [] if case in usual else [pytest.mark.faults_full]
        marks.append(pytest.mark.delta if case[0] == "delta" else pytest.mark.iceberg)
        yield pytest.param(*case, marks=marks)


@pytest.mark.parametrize("place, name", FUNCTIONS.values())
def test_the_paused_functions_exist(place: str, name: str) -> None:
    # Most phases run in `make faults` only: a renamed or moved function must fail in every run.
    assert callable(getattr(locate(place), name))


@pytest.mark.parametrize("kind, phase, number", list(cases()))
def test_before_the_commit_nothing_changes(
    ground: Grounds, tmp_path: Path, kind: str, phase: str, number: signal.Signals
) -> None:
    trial = Trial(ground(kind), PROGRAMS["recluster"]).start()
    running = recluster(trial.ground, tmp_path, phase)
    running.at_the_phase()
    running.process.send_signal(number)
    if phase == "reading the log":
        # A call of the driver, which cannot be cancelled: it returns when the storage does.
        running.go_on()
    check_line(*running.ended())
    trial.check()
    assert trial.commits() == 0
    if phase in ("reading the log", "planning"):
        assert trial.leftovers() == set()
    trial.clean(trial.finish(0))  # a task that was cancelled late may leave a file, which a vacuum deletes


@pytest.mark.parametrize("kind", [DELTA, ICEBERG])
@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.faults_full)]
)
def test_in_the_commit_the_table_is_as_before_or_after(
    ground: Grounds, tmp_path: Path, kind: str, number: signal.Signals
) -> None:
    trial = Trial(ground(kind), PROGRAMS["recluster"]).start()
    running = recluster(trial.ground, tmp_path, "committing")
    running.at_the_phase()
    running.process.send_signal(number)
    running.go_on()
    check_line(*running.ended())
    trial.check(spark_everywhere=True)
    landed = trial.commits()
    assert landed in (0, 1)
    trial.clean(trial.finish(landed))


@pytest.mark.faults_full
@pytest.mark.parametrize("kind", [DELTA, ICEBERG])
def test_an_interrupt_does_not_wait_for_hanging_storage(ground: Grounds, tmp_path: Path, kind: str) -> None:
    trial = Trial(ground(kind), PROGRAMS["recluster"]).start()
    running = recluster(trial.ground, tmp_path, "committing", grace=2.0)
    running.at_the_phase()
    running.process.send_signal(signal.SIGINT)
    check_line(*running.ended())
    trial.check()
    assert trial.commits() == 0
    trial.clean(trial.finish(0))


@pytest.mark.delta
def test_a_second_signal_ends_the_process_at_once(ground: Grounds, tmp_path: Path) -> None:
    trial = Trial(ground("delta"), PROGRAMS["recluster"]).start()
    running = recluster(trial.ground, tmp_path, "reading the log")
    running.at_the_phase()
    running.process.send_signal(signal.SIGINT)
    while signal.SIGINT in pending(running.process.pid):  # two pending signals are merged into one
        pass
    running.process.send_signal(signal.SIGTERM)
    check_line(*running.ended())
    trial.check()
    assert trial.commits() == 0


def pending(process: int) -> set[int]:
    """Signals that are pending for a process."""
    status = Path(f"/proc/{process}/status").read_text()
    masks = [
        int(line.split()[1], 16) for line in status.splitlines() if line.startswith(("SigPnd", "ShdPnd"))
    ]
    return {number for number in range(1, 65) for mask in masks if mask >> (number - 1) & 1}


@pytest.mark.parametrize("kind", [DELTA, ICEBERG])
@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.faults_full)]
)
def test_during_a_vacuum_the_newest_version_is_intact(
    ground: Grounds, tmp_path: Path, kind: str, number: signal.Signals
) -> None:
    trial = Trial(ground(kind), VACUUM, raced=True).start()
    trial.ground.land("layout")
    running = command(trial.ground, tmp_path, "deleting", "vacuum", trial.ground.sql, *_VACUUM, "--quiet")
    running.at_the_phase()
    running.process.send_signal(number)
    running.go_on()
    check_line(*running.ended())
    assert trial.ground.needed() <= trial.ground.on_disk()
    held = trial.ground.held[-1]
    assert trial.ground.rows(trial.ground.log()[-1].version) == trial.ground.expected(held)
    trial.clean(held)


@pytest.mark.faults_full
@pytest.mark.delta
@pytest.mark.parametrize("number", SIGNALS)
def test_while_java_starts(ground: Grounds, tmp_path: Path, number: signal.Signals) -> None:
    """A Java process that never finishes starting, as while it downloads jars."""
    made = ground("delta")
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    real = subprocess.run(["sh", "-c", "command -v java"], capture_output=True, text=True, check=True).stdout
    script = (
        f'#!/bin/sh\ncase "$*" in *launcher.Main*) ;; *SparkSubmit*) echo $$ > {tmp_path}/gate.java; '
        f'echo java > {tmp_path}/gate.reached; exec sleep 600;; esac\nexec {real.strip()} "$@"\n'
    )
    program = home / "bin" / "java"
    program.write_text(script)
    program.chmod(0o755)
    running = command(made, tmp_path, "java", "info", made.sql, "--columns", "k", JAVA_HOME=str(home))
    running.at_the_phase()
    running.process.send_signal(number)
    check_line(*running.ended())


@pytest.mark.faults_full
@pytest.mark.delta
def test_while_the_context_is_made(ground: Grounds, tmp_path: Path) -> None:
    made = ground("delta")
    running = command(made, tmp_path, "making the context", "info", made.sql, "--columns", "k")
    running.at_the_phase()
    java = children(running.process.pid)
    running.go_on()
    running.process.send_signal(signal.SIGINT)
    Path(f"{running.gate}.java").write_text(java[-1])
    check_line(*running.ended())


def children(process: int) -> list[str]:
    return Path(f"/proc/{process}/task/{process}/children").read_text().split()


@pytest.mark.faults_full
@pytest.mark.parametrize("kind", [DELTA, ICEBERG])
def test_an_automatic_run_is_interrupted_by_the_second_signal(
    ground: Grounds, tmp_path: Path, kind: str
) -> None:
    trial = Trial(ground(kind), PROGRAMS["recluster"]).start()
    conf = "spark.lakekeeper.cluster-by=k"
    given = ["--once", "--quiet", "--conf", conf, "--conf", "spark.lakekeeper.depth-threshold=1"]
    table = trial.ground.sql if trial.ground.kind != "delta" else str(trial.ground.home)
    running = command(trial.ground, tmp_path, "writing data", "auto", table, *given)
    running.at_the_phase()
    running.process.send_signal(signal.SIGTERM)
    while signal.SIGTERM in pending(running.process.pid):
        pass
    running.process.send_signal(signal.SIGTERM)
    code, out, err = running.ended()
    assert (code, err) == (130, _LINE)
    assert json.loads(out)["error"]["type"] == "Interrupted"
    trial.check()
    assert trial.commits() == 0


@pytest.mark.delta
def test_an_automatic_run_finishes_its_table_at_the_first_signal(ground: Grounds, tmp_path: Path) -> None:
    trial = Trial(ground("delta"), PROGRAMS["recluster"]).start()
    conf = "spark.lakekeeper.cluster-by=k"
    given = ["--once", "--quiet", "--conf", conf, "--conf", "spark.lakekeeper.depth-threshold=1"]
    home = str(trial.ground.home)
    running = command(trial.ground, tmp_path, "writing data", "auto", home, f"{home}/", *given)
    running.at_the_phase()
    running.process.send_signal(signal.SIGINT)
    while signal.SIGINT in pending(running.process.pid):
        pass
    running.go_on()
    code, out, err = running.ended()
    assert (code, err) == (130, "")
    assert [t["status"] for t in json.loads(out)["tables"]] == ["done", "stopped"]
    trial.check()
    assert trial.commits() == 1
