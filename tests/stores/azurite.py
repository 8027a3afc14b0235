"""A Blob service of Azure on loopback: Azurite, Microsoft's emulator, in a process of its own.

    Spark, ABFS ───────► BlobRelay ──► Azurite        the relay holds calls up
    readers of the tests ────────────► Azurite

python -m tests.stores.azurite      install it by npm, in build/stores; without npm, Azure is not tested
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.faults.processes import free_port, running
from tests.stores.blobs import Container
from tests.stores.faulty_s3 import Call, FaultyS3, Relay

VERSION = "3.37.0"
_FOLDER = Path(__file__).parents[2] / "build" / "stores" / "azurite"
_PROGRAM = _FOLDER / "node_modules" / ".bin" / "azurite-blob"


class BlobRelay(FaultyS3):
    """A relay in front of a Blob service. It adds no exclusion of its own: all answers are the server's."""

    def __init__(self, host: str) -> None:
        super().__init__(host, _BlobCalls)

    @property
    def endpoint(self) -> str:
        """Name and port."""
        return f"127.0.0.1:{self.server_address[1]}"


class _BlobCalls(Relay):
    exclusive = False

    def call_of(self, path: str, query: dict[str, str], body: bytes) -> Call:
        """``copy``, ``list`` or the method in lower case, with what it does to a blob: ``put block``."""
        _, _, key = path.lstrip("/").partition("/")[2].partition("/")
        part = query.get("comp", "")
        verb = "copy" if "x-ms-copy-source" in self.headers else f"{self.command.lower()} {part}".strip()
        conditional = "If-None-Match" in self.headers
        if part == "list" and not key:
            return Call("list", query.get("prefix", ""), conditional)
        return Call(verb, key, conditional)


def missing() -> str:
    """Why there is no Azurite; empty if there is one."""
    if shutil.which("node") is None:
        return "Azurite needs Node.js, and this machine has no `node`"
    return "" if _PROGRAM.is_file() else f"no {_PROGRAM}: `make stores` installs it"


@contextmanager
def azurite(log: Path) -> Iterator[Container]:
    """The container, empty, in a server that lives as long as the context; the server writes to ``log``."""
    port = free_port()
    options = ["--blobHost", "127.0.0.1", "--blobPort", str(port), "--disableTelemetry", "--silent"]
    with running([_PROGRAM, *options, "--inMemoryPersistence"], port, log):
        yield Container(f"127.0.0.1:{port}").make()


def install() -> None:
    """Install Azurite if it is missing and can be installed."""
    if _PROGRAM.is_file():
        return
    npm = shutil.which("npm")
    if npm is None:
        print("no `npm` on this machine: the tests of Azure will be skipped")
        return
    _FOLDER.mkdir(parents=True, exist_ok=True)
    quiet = ("--no-audit", "--no-fund", "--no-save", "--ignore-scripts", "--loglevel=error")
    subprocess.run([npm, "install", "--prefix", _FOLDER, *quiet, f"azurite@{VERSION}"], check=True)


if __name__ == "__main__":
    install()
