"""A REST catalog for tests, in one process, without dependencies: http.server over a SqlCatalog.

Enough of the protocol for Spark: namespaces, create, load, commit with requirements, rename, drop. Commits are
compare-and-swap in SQLite, so that lost races return 409 as in a real catalog.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pyiceberg.catalog.rest import CreateTableRequest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.table import CommitTableRequest, Table

from tests.oracles.admission import Admission, Request, anyone, exchanged, with_token

_STATUS: dict[type[Exception], int] = {
    NoSuchTableError: 404,
    NoSuchNamespaceError: 404,
    TableAlreadyExistsError: 409,
    NamespaceAlreadyExistsError: 409,
    CommitFailedException: 409,
}
OAUTH_TOKEN = "t0ken-of-an-oauth-client"  # noqa: S105 - a test credential
_SPACE_SEPARATOR = "\x1f"

Tamper = Callable[[Callable[[], None]], None]
"""Receives each commit, and applies it or not; an error that it raises is the response."""


class Answer(Exception):  # a response, not an error
    """A response of this status, whatever happened."""

    def __init__(self, status: int) -> None:
        super().__init__(f"answered {status} on purpose")
        self.status = status


class _Answers(BaseHTTPRequestHandler):
    """One request; the server has the catalog and a lock, as SQLite permits one writer at a time."""

    server: _Server

    def do_GET(self) -> None:
        self._answer("GET")

    def do_POST(self) -> None:
        self._answer("POST")

    def do_DELETE(self) -> None:
        self._answer("DELETE")

    def do_HEAD(self) -> None:
        self._answer("HEAD")

    def log_message(self, *_: Any) -> None:
        """Tests need no access log."""

    def _answer(self, method: str) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        sent = self.rfile.read(size)
        path = self.path.partition("?")[0].removeprefix("/v1/")
        steps = [unquote(step) for step in path.split("/")]
        answer: dict[str, Any] | None
        try:
            if steps == ["oauth", "tokens"]:
                status, answer = 200, self._token(sent)
            elif not self.server.admits(Request(method, self.path, self.headers, sent)):
                raise Answer(401)
            else:
                with self.server.lock:
                    status, answer = 200, self._route(method, steps, json.loads(sent or b"{}"))
        except Exception as error:  # every failure becomes a response of the protocol
            status = error.status if isinstance(error, Answer) else _STATUS.get(type(error), 500)
            kind = type(error).__name__.replace("Error", "Exception")
            answer = {"error": {"message": str(error), "type": kind, "code": status}}
        content = json.dumps(answer).encode() if answer is not None else b""
        self.send_response(status if content else 204)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if method != "HEAD":
            self.wfile.write(content)

    def _token(self, sent: bytes) -> dict[str, Any]:
        """A token for an OAuth client; clients without a valid credential are refused."""
        if not exchanged(sent, self.server.credential):
            raise Answer(401)
        return {"access_token": OAUTH_TOKEN, "token_type": "bearer", "expires_in": 3600}

    def _route(self, method: str, steps: list[str], body: dict[str, Any]) -> dict[str, Any] | None:
        if steps == ["config"]:
            return {"defaults": {}, "overrides": {}}
        if steps == ["tables", "rename"]:
            source, target = (
                (*body[end]["namespace"], body[end]["name"]) for end in ("source", "destination")
            )
            self.server.catalog.rename_table(source, target)
            return None
        space = tuple(steps[1].split(_SPACE_SEPARATOR)) if len(steps) > 1 else ()
        if len(steps) <= 2:
            return self._namespace(method, space, body)
        name = (*space, steps[3]) if len(steps) > 3 else ()
        return self._table(method, space, name, body)

    def _namespace(self, method: str, space: tuple[str, ...], body: dict[str, Any]) -> dict[str, Any] | None:
        catalog = self.server.catalog
        if method == "POST":
            catalog.create_namespace(tuple(body["namespace"]), body.get("properties") or {})
            return {"namespace": body["namespace"], "properties": {}}
        if not space:
            return {"namespaces": [list(found) for found in catalog.list_namespaces()]}
        return {"namespace": list(space), "properties": dict(catalog.load_namespace_properties(space))}

    def _table(
        self, method: str, space: tuple[str, ...], name: tuple[str, ...], body: dict[str, Any]
    ) -> dict[str, Any] | None:
        catalog = self.server.catalog
        if method == "POST" and not name:
            return _loaded(self._create(space, body))
        if method == "POST":
            body.setdefault("identifier", {"namespace": list(space), "name": name[-1]})
            request = CommitTableRequest.model_validate_json(json.dumps(body))
            table = catalog.load_table(name)
            self.server.tamper(lambda: _commit(catalog, table, request))
            return _loaded(catalog.load_table(name))
        if method == "DELETE":
            catalog.drop_table(name)
            return None
        if not name:
            return {
                "identifiers": [
                    {"namespace": list(n[:-1]), "name": n[-1]} for n in catalog.list_tables(space)
                ]
            }
        return _loaded(catalog.load_table(name))

    def _create(self, space: tuple[str, ...], body: dict[str, Any]) -> Table:
        request = CreateTableRequest.model_validate_json(json.dumps(body))
        given: dict[str, Any] = {"properties": request.properties, "location": request.location}
        if request.partition_spec is not None:
            given["partition_spec"] = request.partition_spec
        if request.write_order is not None:
            given["sort_order"] = request.write_order
        return self.server.catalog.create_table((*space, request.name), request.table_schema, **given)


class _Server(ThreadingHTTPServer):
    def __init__(self, catalog: SqlCatalog, tamper: Tamper, admits: Admission, credential: str) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.catalog = catalog
        self.tamper = tamper
        self.admits = admits
        self.credential = credential
        self.lock = threading.Lock()


def _commit(catalog: SqlCatalog, table: Table, request: CommitTableRequest) -> None:
    catalog.commit_table(table, request.requirements, request.updates)


def _loaded(table: Table) -> dict[str, Any]:
    metadata = json.loads(table.metadata.model_dump_json())
    return {"metadata-location": table.metadata_location, "metadata": metadata, "config": {}}


@contextmanager
def rest_catalog(
    home: Path,
    tamper: Tamper = lambda commit: commit(),
    *,
    warehouse: str = "",
    properties: Mapping[str, str] | None = None,
    admits: Admission = anyone,
    credential: str = "",
) -> Iterator[str]:
    """The address of a running catalog whose tables are below ``home``; ``tamper`` intercepts each commit.

    With ``warehouse``, its tables are stored there, accessed with pyiceberg's ``properties``. Requests that it does not
    admit get 401; with a ``credential``, requests with the token exchanged for it are admitted.
    """
    catalog = SqlCatalog(
        "rest",
        uri=f"sqlite:///{home}/rest.db",
        warehouse=warehouse or home.as_uri(),
        **dict(properties or {}),
    )
    admitted = with_token(OAUTH_TOKEN) if credential else admits
    server = _Server(catalog, tamper, admitted, credential)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        catalog.engine.dispose()
