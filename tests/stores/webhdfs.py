"""An HDFS, read without Spark's code: HTTP to the NameNode and the DataNode (WebHDFS)."""

from __future__ import annotations

import getpass
import http.client
import json
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

import fsspec
from pyarrow.fs import FSSpecHandler, PyFileSystem
from pyiceberg.io.pyarrow import PyArrowFileIO

from tests.stores.store import Store

HOST = "127.0.0.1"
_HTTP = "webhdfs.port"
_GONE = 404


class Refused(OSError):
    """The server's answer was an error."""

    def __init__(self, call: str, status: int, body: bytes) -> None:
        super().__init__(f"{call}: {status} {body[:500]!r}")
        self.status = status


@dataclass(frozen=True)
class WebHDFS(Store):
    """The files of a NameNode, by its ports of RPC and HTTP."""

    rpc: int
    http: int

    @property
    def address(self) -> str:
        return f"hdfs://{HOST}:{self.rpc}"

    @property
    def root(self) -> str:
        return f"{self.address}/"

    @property
    def readable(self) -> dict[str, str]:
        return {
            "py-io-impl": f"{WebHdfsIO.__module__}.{WebHdfsIO.__name__}",
            "DEFAULT_SCHEME": "hdfs",
            "DEFAULT_NETLOC": f"{HOST}:{self.rpc}",
            _HTTP: str(self.http),
        }

    def key(self, location: str) -> str:
        """Also of a plain path: the NameNode is the default file system."""
        return re.sub(rf"^(?:hdfs:(?://{HOST}:{self.rpc})?)?/+", "", location)

    def entries(self, prefix: str) -> dict[str, str]:
        found: dict[str, str] = {}
        folders = [prefix.rstrip("/")]
        while folders:
            folder = folders.pop()
            for each in self._listed(folder):
                key = f"{folder}/{each['pathSuffix']}"
                if each["type"] == "DIRECTORY":
                    folders.append(key)
                else:
                    found[key] = f"{each['fileId']}: {each['length']} bytes at {each['modificationTime']}"
        return found

    def folders(self, prefix: str) -> set[str]:
        """All folders below a folder."""
        found = {f"{prefix}/{e['pathSuffix']}" for e in self._listed(prefix) if e["type"] == "DIRECTORY"}
        return found.union(*(self.folders(each) for each in found))

    def get(self, key: str) -> bytes:
        return self._ask("GET", key, "OPEN")

    def put(self, key: str, data: bytes) -> None:
        self._ask("PUT", key, "CREATE&overwrite=true", data)

    def delete(self, key: str) -> None:
        self._ask("DELETE", key, "DELETE")

    def _listed(self, folder: str) -> list[dict[str, Any]]:
        try:
            answer = json.loads(self._ask("GET", folder, "LISTSTATUS"))
        except Refused as error:
            if error.status == _GONE:
                return []
            raise
        listed: list[dict[str, Any]] = answer["FileStatuses"]["FileStatus"]
        return listed

    def _ask(self, method: str, key: str, operation: str, data: bytes | None = None) -> bytes:
        path = f"/webhdfs/v1/{quote(key)}?op={operation}&user.name={quote(getpass.getuser())}"
        status, place, body = _answer(f"{HOST}:{self.http}", method, path)
        if status == http.client.TEMPORARY_REDIRECT:  # to the DataNode that has, or takes, the content
            there = urlsplit(place)
            status, _, body = _answer(there.netloc, method, f"{there.path}?{there.query}", data)
        if status >= 300:
            raise Refused(f"{method} {key} {operation}", status, body)
        return body


def _answer(host: str, method: str, path: str, data: bytes | None = None) -> tuple[int, str, bytes]:
    server = http.client.HTTPConnection(host, timeout=60)
    try:
        server.request(method, path, body=data)
        answer = server.getresponse()
        return answer.status, answer.getheader("Location") or "", answer.read()
    finally:
        server.close()


class WebHdfsIO(PyArrowFileIO):
    """pyiceberg's reader of such a store; its own asks a Java library of Hadoop."""

    def __init__(self, properties: dict[str, str]) -> None:
        super().__init__(properties)
        files = fsspec.filesystem("webhdfs", host=HOST, port=int(properties[_HTTP]), user=getpass.getuser())
        self.fs_by_scheme = lambda *_: PyFileSystem(FSSpecHandler(files))
