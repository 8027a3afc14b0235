"""One Trino server on this machine, with two catalogs: ``ice`` (the SQLite catalog of Spark) and ``dl`` (Delta)."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.neighbours import installation

_START_SECONDS = 300
_MEMORY = (
    "-Xmx2g",
    "-XX:+UseSerialGC",
    "-XX:ReservedCodeCacheSize=256m",
    "-Djdk.attach.allowAttachSelf=true",
)


class TrinoFailed(Exception):
    """A statement that Trino refused or did not finish."""


@dataclass(frozen=True)
class Trino:
    """A running server; ``close`` ends it."""

    port: int
    process: subprocess.Popen[bytes]

    def run(self, statement: str) -> list[list[Any]]:
        """The rows of a statement. Raises TrinoFailed."""
        rows: list[list[Any]] = []
        answer = self._ask("/v1/statement", statement)
        while True:
            rows += answer.get("data") or []
            if "error" in answer:
                error = answer["error"]
                raise TrinoFailed(f"{error['errorName']}: {error['message']} in {statement}")
            if "nextUri" not in answer:
                return rows
            answer = self._ask(urlsplit(answer["nextUri"]).path)

    def _ask(self, path: str, body: str | None = None) -> dict[str, Any]:
        server = HTTPConnection("localhost", self.port, timeout=120)
        with closing(server):
            server.request("GET" if body is None else "POST", path, body, {"X-Trino-User": "neighbour"})
            answer = server.getresponse()
            if answer.status != 200:
                raise TrinoFailed(f"HTTP {answer.status} for {path}")
            return json.load(answer)

    def register(self, path: Path, name: str) -> str:
        """Register a Delta table by its path; return its name in Trino."""
        self.run(f"CREATE SCHEMA IF NOT EXISTS dl.db WITH (location = 'local://{path.parent}')")
        self.run(f"CALL dl.system.register_table('db', '{name}', 'local://{path}')")
        return f"dl.db.{name}"

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(60)


def started(folder: Path, sqlite: Path, warehouse: Path) -> Trino:
    """Start a server whose configuration, data and log are in ``folder``."""
    port = _free_port()
    for name, settings in _settings(folder, sqlite, warehouse, port).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    node = {"environment": "neighbours", "id": "one", "data-dir": str(folder / "data")}
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [
                str(installation.trino_java()),
                *_MEMORY,
                *(f"-Dnode.{key}={value}" for key, value in node.items()),
                f"-Dconfig={folder / 'config.properties'}",
                f"-Dcatalog.config-dir={folder / 'catalog'}",
                "-cp",
                f"{installation.trino_home() / 'lib'}/*",
                "io.trino.server.TrinoServer",
            ],
            cwd=folder,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    server = Trino(port, process)
    until = time.monotonic() + _START_SECONDS
    while "SERVER STARTED" not in (folder / "server.log").read_text(errors="replace"):
        if process.poll() is not None or time.monotonic() > until:
            process.kill()
            raise RuntimeError(f"Trino did not start: see {folder / 'server.log'}")
        time.sleep(1)
    return server


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("localhost", 0))
        return int(one.getsockname()[1])


def _settings(
    folder: Path, sqlite: Path, warehouse: Path, port: int
) -> Mapping[str, Mapping[str, str | int]]:
    """File name → its settings. Metadata caches are off: other engines write to the same tables."""
    return {
        "config.properties": {
            "coordinator": "true",
            "node-scheduler.include-coordinator": "true",
            "http-server.http.port": port,
            "discovery.uri": f"http://localhost:{port}",
            "plugin.dir": str(installation.trino_plugins()),
            "query.max-memory-per-node": "500MB",
            "memory.heap-headroom-per-node": "400MB",
        },
        "catalog/ice.properties": {
            "connector.name": "iceberg",
            "iceberg.catalog.type": "jdbc",
            "iceberg.jdbc-catalog.catalog-name": "ice",
            "iceberg.jdbc-catalog.driver-class": "org.sqlite.JDBC",
            "iceberg.jdbc-catalog.connection-url": f"jdbc:sqlite:{sqlite}?busy_timeout=60000",
            "iceberg.jdbc-catalog.connection-user": "any",
            "iceberg.jdbc-catalog.connection-password": "any",
            "iceberg.jdbc-catalog.default-warehouse-dir": f"file://{warehouse}",
            "iceberg.metadata-cache.enabled": "false",
            "iceberg.expire-snapshots.min-retention": "0s",
            "iceberg.remove-orphan-files.min-retention": "0s",
            "fs.hadoop.enabled": "true",
        },
        "catalog/dl.properties": {
            "connector.name": "delta_lake",
            "hive.metastore": "file",
            "hive.metastore.catalog.dir": f"local://{folder}/metastore",
            "delta.register-table-procedure.enabled": "true",
            "delta.metadata.cache-ttl": "0s",
            "delta.vacuum.min-retention": "0s",
            # trinodb/trino 28885: with the index, a DELETE on a sorted file masks other rows.
            "parquet.use-column-index": "false",
            "fs.native-local.enabled": "true",
            "local.location": "/",
        },
    }
