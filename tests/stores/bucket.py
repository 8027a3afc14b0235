"""A bucket of moto, read without Spark's code: plain HTTP, no retries, no relay."""

from __future__ import annotations

import http.client
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote
from xml.sax.saxutils import escape, unescape

from tests.faults.processes import free_port, running
from tests.stores.store import Store

LAKE, IMPATIENT = "lake", "impatient"
"""The buckets. Clients of the second one are configured not to retry."""
KEYS = {"access": "lakekeeper", "secret": "lakekeeper"}
REGION = "us-east-1"
VARIABLE = "LAKEKEEPER_MOTO"
_ENTRY = re.compile(r"<Contents>.*?</Contents>", re.DOTALL)
_KEY = re.compile(r"<Key>(.*?)</Key>", re.DOTALL)
_TOKEN = re.compile(r"<NextContinuationToken>(.*?)</NextContinuationToken>", re.DOTALL)


@dataclass(frozen=True)
class Bucket(Store):
    """A bucket of a server at ``host`` (name and port)."""

    host: str
    name: str = LAKE

    @property
    def address(self) -> str:
        return f"http://{self.host}"

    @property
    def root(self) -> str:
        return f"s3a://{self.name}/"

    @property
    def readable(self) -> dict[str, str]:
        return pyiceberg_properties(self)

    def key(self, location: str) -> str:
        return location.partition(f"://{self.name}/")[2]

    def make(self) -> Bucket:
        self._ask("PUT", f"/{self.name}")
        return self

    def entries(self, prefix: str) -> dict[str, str]:
        found: dict[str, str] = {}
        token = ""
        while True:
            more = f"&continuation-token={quote(token, safe='')}" if token else ""
            text = self._ask(
                "GET", f"/{self.name}?list-type=2&prefix={quote(prefix, safe='')}{more}"
            ).decode()
            found |= {unescape(_KEY.findall(entry)[0]): entry for entry in _ENTRY.findall(text)}
            page = _TOKEN.search(text)
            if page is None:
                return found
            token = unescape(page[1])

    def get(self, key: str) -> bytes:
        return self._ask("GET", f"/{self.name}/{quote(key)}")

    def put(self, key: str, data: bytes) -> None:
        self._ask("PUT", f"/{self.name}/{quote(key)}", data)

    def delete(self, key: str) -> None:
        self._ask("DELETE", f"/{self.name}/{quote(key)}")

    def put_back(self, prefix: str, kept: Mapping[str, bytes]) -> None:
        """Replace all objects below a prefix by these."""
        for key in self.keys(prefix) - set(kept):
            self.delete(key)
        for key, data in kept.items():
            self.put(key, data)

    def _ask(self, method: str, path: str, data: bytes | None = None) -> bytes:
        server = http.client.HTTPConnection(self.host, timeout=60)
        try:
            signed = f"AWS4-HMAC-SHA256 Credential={KEYS['access']}/20260101/{REGION}/s3/aws4_request"
            server.request(method, path, body=data, headers={"Authorization": signed})
            answer = server.getresponse()
            body = answer.read()
            if answer.status >= 300:
                raise OSError(f"{method} {path}: {answer.status} {body[:300]!r}")
            return body
        finally:
            server.close()


def listing(entries: Mapping[str, str], prefix: str, delimiter: str) -> bytes:
    """The answer to a listing of these entries, in one page."""
    shown, folders = [], set()
    for key, entry in sorted(entries.items()):
        if not key.startswith(prefix):
            continue
        head, cut, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
        if cut:
            folders.add(prefix + head + cut)
        else:
            shown.append(entry)
    common = "".join(
        f"<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>" for each in sorted(folders)
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"<Prefix>{escape(prefix)}</Prefix><MaxKeys>1000</MaxKeys>"
        f"<KeyCount>{len(shown) + len(folders)}</KeyCount><IsTruncated>false</IsTruncated>"
        f"{''.join(shown)}{common}</ListBucketResult>"
    ).encode()


def server_of_moto() -> str:
    """Moto's program. Raises FileNotFoundError."""
    program = os.environ.get(VARIABLE) or str(Path(__file__).parents[2] / "build/stores/env/bin/moto_server")
    if shutil.which(program) is None:
        raise FileNotFoundError(f"{program}: `make stores` installs moto, or {VARIABLE} names its server")
    return program


@contextmanager
def moto(log: Path) -> Iterator[Bucket]:
    """The two buckets, empty, in a server that lives as long as the context; the server writes to ``log``."""
    port = free_port()
    with running([server_of_moto(), "-H", "127.0.0.1", "-p", str(port)], port, log):
        Bucket(f"127.0.0.1:{port}", IMPATIENT).make()
        yield Bucket(f"127.0.0.1:{port}").make()


def pyiceberg_properties(bucket: Bucket) -> dict[str, str]:
    """What pyiceberg needs to read the bucket."""
    return {
        "s3.endpoint": bucket.address,
        "s3.access-key-id": KEYS["access"],
        "s3.secret-access-key": KEYS["secret"],
        "s3.region": REGION,
    }
