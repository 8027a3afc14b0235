"""The relay in front of an emulator of Google Cloud Storage. It gives what Google promises and the emulator does not.

    Spark, Google's connector ──► GcsRelay ──► fake-gcs-server     preconditions, also of uploads in several calls
    readers of the tests ────────────────────► fake-gcs-server

Google checks ``ifGenerationMatch`` when an object is put, copied, moved or deleted; 0 means that there is none yet. An
upload that has ended is answered again if its client asks for it again, as after a lost answer.
"""

from __future__ import annotations

import gzip
import json
import re
from email.parser import BytesParser
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.stores.faulty_s3 import Answer, Call, FaultyS3, Relay
from tests.stores.gcs import Objects

_MATCH = "ifGenerationMatch"
_JSON = (("Content-Type", "application/json; charset=UTF-8"),)
_OBJECT = re.compile(
    r"(?:/download)?/storage/v1/b/[^/]+/o(?:/(.+?)(?:/(rewriteTo/b/[^/]+/o|copyTo/b/[^/]+/o|moveTo/o)/(.+))?)?"
)


def _error(status: int, why: str, text: str) -> Answer:
    shown = {
        "code": status,
        "message": text,
        "errors": [{"domain": "global", "reason": why, "message": text}],
    }
    return Answer(status, _JSON, json.dumps({"error": shown}).encode())


_UNMET = _error(412, "conditionNotMet", "At least one of the pre-conditions you specified did not hold.")

_FLAT = Answer(200, _JSON, b'{"kind": "storage#storageLayout", "hierarchicalNamespace": {"enabled": false}}')
"""A bucket without folders of its own: a name with slashes is one name."""


class GcsRelay(FaultyS3):
    """The relay. Without a fault it passes calls on, and refuses those whose precondition does not hold."""

    def __init__(self, host: str) -> None:
        super().__init__(host, _GcsCalls)
        self.objects = Objects(host)
        self.uploads: dict[str, Call] = {}
        """By id: what an upload puts, and the generation that it expects."""
        self.expected: dict[str, str] = {}
        self.ended: dict[str, Answer] = {}


class _GcsCalls(Relay):
    busy = _error(503, "backendError", "Backend Error")
    page_size = "maxResults"
    server: GcsRelay

    def call_of(self, path: str, query: dict[str, str], body: bytes) -> Call:
        """``list``, ``stat``, ``get``, ``start`` of an upload, ``put``, ``copy``, ``move``, ``delete``."""
        conditional = _MATCH in query
        if path.startswith("/upload/"):
            if "upload_id" in query:
                return self.server.uploads.get(query["upload_id"], Call("put", "", conditional=False))
            verb = "start" if query.get("uploadType") == "resumable" else "put"
            return Call(verb, query.get("name") or self._named(body), conditional)
        found = _OBJECT.fullmatch(path)
        if found is None:
            return Call("layout" if path.endswith("/storageLayout") else "bucket", "", conditional)
        key, how, target = found.groups()
        if key is None:
            return Call("list", query.get("prefix", ""), conditional)
        if target:
            return Call("move" if how.startswith("move") else "copy", target, conditional)
        if self.command in ("GET", "HEAD"):
            return Call("get" if query.get("alt") == "media" else "stat", key, conditional)
        return Call(self.command.lower(), key, conditional)

    def refused(self, call: Call, body: bytes) -> Answer | None:
        query = parse_qs(urlsplit(self.path).query)
        upload = query.get("upload_id", [""])[0]
        if upload in self.server.ended:
            return self.server.ended[upload]
        if upload and not body and self.headers.get("Content-Range", "*/0")[-3:] != "*/0":
            # Nothing has arrived yet; the emulator would complete the upload as empty.
            return Answer(308, (), b"")
        wanted = self.server.expected.get(upload) or query.get(_MATCH, [""])[0]
        if not wanted or call.verb not in ("put", "copy", "move", "delete"):
            return None
        current = self.server.objects.generation(call.key)
        if int(wanted) == current or (call.verb == "delete" and not current):
            return None
        return _UNMET

    def ask(self, call: Call, body: bytes, *, target: str = "") -> Answer:
        if call.verb == "layout":
            return _FLAT
        if call.verb == "move":
            return self._moved(call)
        found = super().ask(call, body)
        query = parse_qs(urlsplit(self.path).query)
        if call.verb == "start":
            place = dict(found.headers).get("Location", "")
            upload = parse_qs(urlsplit(place).query)["upload_id"][0]
            self.server.uploads[upload] = Call("put", call.key, call.conditional)
            if _MATCH in query:
                self.server.expected[upload] = query[_MATCH][0]
        elif call.verb == "put" and found.status == 200 and "upload_id" in query:
            self.server.ended[query["upload_id"][0]] = found
        return found

    def stale(self, query: dict[str, str]) -> Answer:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        shown: list[Any] = []
        folders = set()
        for key, entry in sorted(self.server.before.items()):
            if key.startswith(prefix) and key >= query.get("startOffset", ""):
                head, cut, rest = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
                if cut:
                    folders.add(prefix + head + cut)
                if not cut or (not rest and query.get("includeTrailingDelimiter") == "true"):
                    shown.append(json.loads(entry))
        found = {"kind": "storage#objects", "items": shown, "prefixes": sorted(folders)}
        return Answer(200, _JSON, json.dumps(found).encode())

    def _moved(self, call: Call) -> Answer:
        """A move in one step, which the emulator does not have: a copy and a delete, with all writers locked out."""
        source = self.path.partition("/moveTo/")[0]
        bucket = source.partition("/o/")[0].rpartition("/")[2]
        target = urlsplit(self.path).path.partition("/moveTo/")[2]
        self.path = f"{source}/rewriteTo/b/{bucket}/{target}"
        copied = super().ask(call, b"")
        if copied.status == 200:
            self.server.objects.delete(unquote(source.partition("/o/")[2]))
            return Answer(200, _JSON, json.dumps(json.loads(copied.body)["resource"]).encode())
        return copied

    def received(self) -> bytes:
        """The body, decompressed: the emulator takes no empty one that is compressed."""
        body = super().received()
        if self.headers.get("Content-Encoding") == "gzip":
            del self.headers["Content-Encoding"]
            return gzip.decompress(body)
        return body

    def _named(self, body: bytes) -> str:
        """The name in the metadata with which an upload begins."""
        kind = self.headers.get("Content-Type", "")
        if kind.startswith("multipart/"):
            body = _parts(kind, body)[0]
        name: str = json.loads(body or b"{}").get("name", "")
        return name


def _parts(kind: str, body: bytes) -> list[bytes]:
    message = BytesParser().parsebytes(b"Content-Type: " + kind.encode() + b"\r\n\r\n" + body)
    parts: Any = message.get_payload()
    return [part.get_payload(decode=True) for part in parts]
