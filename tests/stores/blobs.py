"""A container of Azurite, read without Spark's code: the Blob API by plain HTTP, no retries, no relay."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import re
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import formatdate
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit
from xml.sax.saxutils import unescape

from pyarrow.fs import AzureFileSystem
from pyiceberg.io.pyarrow import PyArrowFileIO

from tests.stores.store import Store

LAKE = "lake"
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The account of every emulator, and its key, which Microsoft documents."""
DOMAIN = f"{ACCOUNT}.dfs.core.windows.net"
_HOST = "azurite.host"
_VERSION = "2021-12-02"
_BLOB = re.compile(r"<Blob>.*?</Blob>", re.DOTALL)
_MARKER = re.compile(r"<NextMarker>(.+?)</NextMarker>", re.DOTALL)
_FOLDER = "<hdi_isfolder>true</hdi_isfolder>"  # an empty blob by which Hadoop marks a folder


@dataclass(frozen=True)
class Container(Store):
    """The container ``lake`` of a server at ``host`` (name and port)."""

    host: str

    @property
    def root(self) -> str:
        return f"abfs://{LAKE}@{DOMAIN}/"

    @property
    def readable(self) -> dict[str, str]:
        return {"py-io-impl": f"{AzuriteIO.__module__}.{AzuriteIO.__name__}", _HOST: self.host}

    def make(self) -> Container:
        self._ask("PUT", "", {"restype": "container"})
        return self

    def key(self, location: str) -> str:
        """Of abfs and abfss alike."""
        return re.sub(rf"^abfss?://{LAKE}@{re.escape(DOMAIN)}/", "", location)

    def entries(self, prefix: str) -> dict[str, str]:
        return {
            name: f"{_text(blob, 'Etag')}: {_text(blob, 'Content-Length')} bytes"
            for name, blob in self._listed(prefix).items()
            if _FOLDER not in blob
        }

    def folders(self, prefix: str) -> set[str]:
        """The folders below a prefix that are marked as such."""
        return {name for name, blob in self._listed(prefix).items() if _FOLDER in blob}

    def get(self, key: str) -> bytes:
        return self._ask("GET", key)

    def put(self, key: str, data: bytes) -> None:
        self._ask("PUT", key, data=data, headers={"x-ms-blob-type": "BlockBlob"})

    def delete(self, key: str) -> None:
        self._ask("DELETE", key)

    def _listed(self, prefix: str) -> dict[str, str]:
        found: dict[str, str] = {}
        query = {"restype": "container", "comp": "list", "include": "metadata", "prefix": prefix}
        while True:
            text = self._ask("GET", "", query).decode()
            found |= {unescape(_text(blob, "Name")): blob for blob in _BLOB.findall(text)}
            more = _MARKER.search(text)
            if more is None:
                return found
            query["marker"] = unescape(more[1])

    def _ask(
        self,
        method: str,
        key: str,
        query: Mapping[str, str] | None = None,
        data: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        path = f"/{ACCOUNT}/{LAKE}" + (f"/{quote(key)}" if key else "")
        target = f"{path}?{urlencode(query, quote_via=quote)}" if query else path
        sent = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": _VERSION, **(headers or {})}
        server = http.client.HTTPConnection(self.host, timeout=60)
        try:
            signed = sent | {"Authorization": _signature(method, target, sent, len(data))}
            server.request(method, target, body=data or None, headers=signed)
            answer = server.getresponse()
            body = answer.read()
        finally:
            server.close()
        if answer.status >= 300:
            raise OSError(f"{method} {target}: {answer.status} {body[:300]!r}")
        return body


def _text(blob: str, tag: str) -> str:
    found = re.search(f"<{tag}>(.*?)</{tag}>", blob, re.DOTALL)
    return found[1] if found else ""


def _signature(method: str, target: str, headers: Mapping[str, str], size: int) -> str:
    """The header of Azure's SharedKey authorization."""
    address = urlsplit(target)
    own = "".join(f"{name}:{value}\n" for name, value in sorted(headers.items()))
    parameters = "".join(f"\n{name}:{unquote(value)}" for name, value in sorted(parse_qsl(address.query)))
    plain = [method, "", "", str(size or ""), *[""] * 8]
    signed = "\n".join(plain) + f"\n{own}/{ACCOUNT}{address.path}{parameters}"
    made = hmac.new(base64.b64decode(KEY), signed.encode(), hashlib.sha256).digest()
    return f"SharedKey {ACCOUNT}:{base64.b64encode(made).decode()}"


class AzuriteIO(PyArrowFileIO):
    """pyiceberg's reader of such a container, by Arrow's client; pyiceberg's own takes a container@host for a name."""

    def __init__(self, properties: dict[str, str]) -> None:
        super().__init__(properties)
        authority = {f"{each}_storage_authority": properties[_HOST] for each in ("blob", "dfs")}
        scheme = {f"{each}_storage_scheme": "http" for each in ("blob", "dfs")}
        files = AzureFileSystem(ACCOUNT, account_key=KEY, **authority, **scheme)
        self.fs_by_scheme = lambda *_: files

    @staticmethod
    def parse_location(location: str, properties: Any = None) -> tuple[str, str, str]:
        del properties
        address = urlsplit(location)
        return address.scheme, address.netloc, f"{address.username}{address.path}"
