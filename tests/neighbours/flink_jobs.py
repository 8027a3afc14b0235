"""Flink jobs in a process of their own, which contains everything that Flink needs: started, killed, and restored."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.neighbours import installation

CHECKPOINT_SECONDS = 5
_MEMORY = "-Xmx1300m -XX:MaxMetaspaceSize=384m -XX:+UseSerialGC"


def catalog(sqlite: Path, warehouse: Path, name: str = "ice") -> str:
    """A statement that registers Spark's catalog in Flink."""
    options = {
        "type": "iceberg",
        "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        "uri": f"jdbc:sqlite:{sqlite}?busy_timeout=120000",
        "warehouse": f"file://{warehouse}",
        "jdbc.schema-version": "V1",
        "cache-enabled": "false",
    }
    listed = ", ".join(f"'{key}'='{value}'" for key, value in options.items())
    return f"CREATE CATALOG {name} WITH ({listed})"


def sequence(rows: int, per_second: int, name: str = "source") -> str:
    """A statement that creates a source of the numbers below ``rows``, in order; a restored job resumes."""
    options = {
        "connector": "datagen",
        "rows-per-second": per_second,
        "fields.id.kind": "sequence",
        "fields.id.start": 0,
        "fields.id.end": rows - 1,
    }
    listed = ", ".join(f"'{key}'='{value}'" for key, value in options.items())
    return f"CREATE TEMPORARY TABLE {name} (id BIGINT) WITH ({listed})"


@dataclass
class Job:
    """One job; ``folder`` holds its checkpoints and its log. No restarts: an exception in Flink ends it."""

    folder: Path
    prepare: Sequence[str]
    inserts: Sequence[str]
    settings: Mapping[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    def start(self, restored_from: Path | None = None) -> Job:
        """Start it, from a checkpoint if one is given. Returns once Flink has accepted the job."""
        self.folder.mkdir(parents=True, exist_ok=True)
        settings = {
            "parallelism.default": "1",
            "execution.checkpointing.interval": f"{CHECKPOINT_SECONDS} s",
            "execution.checkpointing.dir": f"file://{self.folder}/checkpoints",
            "execution.checkpointing.num-retained": "3",
            "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
            "restart-strategy.type": "none",
            "taskmanager.memory.managed.size": "64m",
            "taskmanager.memory.network.max": "64m",
            **self.settings,
        }
        if restored_from is not None:
            settings["execution.state-recovery.path"] = f"file://{restored_from}"
        work = {"settings": settings, "prepare": [*self.prepare], "inserts": [*self.inserts]}
        (self.folder / "job.json").write_text(json.dumps(work))
        program = Path(__file__).with_name("flink_program.py")
        before = self._accepted if self.log.exists() else 0
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [str(installation.flink_python()), str(program), str(self.folder / "job.json")],
                env={
                    **installation.outside(),
                    "HADOOP_CLASSPATH": os.pathsep.join(map(str, installation.jars())),
                    "JVM_ARGS": _MEMORY,
                },
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.until(lambda: self._accepted > before, 180)
        return self

    @property
    def _accepted(self) -> int:
        """How often the program reported that its job runs."""
        return self.log.read_text(errors="replace").splitlines().count("running")

    @property
    def log(self) -> Path:
        return self.folder / "log.txt"

    def until(self, condition: Callable[[], bool], seconds: float) -> None:
        """Wait for a condition while the job is alive. Raises AssertionError with the end of its log."""
        end = time.monotonic() + seconds
        while not condition():
            assert self.running, f"Flink ended: {self.failure()}"
            assert time.monotonic() < end, f"not within {seconds} s: {self.failure()}"
            time.sleep(0.2)

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def finish(self, seconds: float) -> None:
        """Wait for the end of its sources. Raises AssertionError if Flink failed."""
        assert self.process is not None
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"Flink did not finish: {self.failure()}") from None
        assert code == 0, f"Flink failed: {self.failure()}"

    def kill(self) -> None:
        """SIGKILL to Flink and to the JVM that it runs in."""
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def failure(self) -> str:
        """The causes of Java exceptions in its log, and its last lines."""
        lines = self.log.read_text(errors="replace").splitlines()
        return "\n".join([*(line for line in lines if line.startswith("Caused by"))][-6:] + lines[-5:])

    def checkpoints(self) -> list[Path]:
        """Complete checkpoints, oldest first."""
        found = (self.folder / "checkpoints").glob("*/chk-*/_metadata")
        return sorted((path.parent for path in found), key=lambda path: path.stat().st_mtime_ns)
