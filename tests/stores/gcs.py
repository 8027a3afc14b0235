"""A bucket of Google Cloud Storage, read without Spark's code: the JSON API by plain HTTP, no retries, no relay."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from tests.stores.store import Store

LAKE = "lake"
_API = "/storage/v1/b"


@dataclass(frozen=True)
class Objects(Store):
    """The bucket ``lake`` of a server at ``host`` (name and port)."""

    host: str

    @property
    def root(self) -> str:
        return f"gs://{LAKE}/"

    @property
    def readable(self) -> dict[str, str]:
        return {
            "gcs.service.host": f"http://{self.host}",
            "gcs.oauth2.token": "none",
            "gcs.oauth2.token-expires-at": "4102444800000",
        }

    def key(self, location: str) -> str:
        return location.removeprefix(self.root)

    def make(self) -> Objects:
        self._ask("POST", _API, json.dumps({"name": LAKE}).encode())
        return self

    def entries(self, prefix: str) -> dict[str, str]:
        """Each entry is the object's JSON."""
        found: dict[str, str] = {}
        query = {"prefix": prefix}
        while True:
            page = json.loads(self._ask("GET", f"{_API}/{LAKE}/o?{urlencode(query)}"))
            found |= {item["name"]: json.dumps(item) for item in page.get("items", ())}
            if not page.get("nextPageToken"):
                return found
            query["pageToken"] = page["nextPageToken"]

    def get(self, key: str) -> bytes:
        return self._ask("GET", f"{self._place(key)}?alt=media")

    def put(self, key: str, data: bytes) -> None:
        query = urlencode({"uploadType": "media", "name": key})
        self._ask("POST", f"/upload{_API}/{LAKE}/o?{query}", data)

    def delete(self, key: str) -> None:
        self._ask("DELETE", self._place(key))

    def generation(self, key: str) -> int:
        """The number of an object's version; 0 if there is none."""
        status, body = self._answer("GET", self._place(key))
        if status == http.client.NOT_FOUND:
            return 0
        found: dict[str, Any] = json.loads(body)
        return int(found["generation"])

    def _place(self, key: str) -> str:
        return f"{_API}/{LAKE}/o/{quote(key, safe='')}"

    def _ask(self, method: str, path: str, data: bytes | None = None) -> bytes:
        status, body = self._answer(method, path, data)
        if status >= 300:
            raise OSError(f"{method} {path}: {status} {body[:300]!r}")
        return body

    def _answer(self, method: str, path: str, data: bytes | None = None) -> tuple[int, bytes]:
        server = http.client.HTTPConnection(self.host, timeout=60)
        try:
            server.request(method, path, body=data)
            answer = server.getresponse()
            return answer.status, answer.read()
        finally:
            server.close()
