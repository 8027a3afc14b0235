"""Authentication of the tests' REST catalog: a bearer token, an OAuth token, or an AWS signature.

An OAuth client first exchanges its id and secret for a token. A signature (version 4) is made with a secret key, and is
computed here again from the request.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass
from email.message import Message
from urllib.parse import parse_qs, parse_qsl, quote, urlsplit

_PLAIN = "-_.~"
_SIGNED = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<key>[^/]+)/(?P<scope>\d{8}/[^/]+/[^/]+/aws4_request), "
    r"SignedHeaders=(?P<names>[^,]+), Signature=(?P<signature>[0-9a-f]{64})"
)


@dataclass(frozen=True)
class Request:
    """A request as it arrived."""

    method: str
    target: str
    headers: Message[str, str]
    body: bytes


Admission = Callable[[Request], bool]


def anyone(_: Request) -> bool:
    return True


def with_token(token: str) -> Admission:
    """Admits requests with this token."""
    return lambda request: request.headers.get("Authorization", "") == f"Bearer {token}"


def exchanged(body: bytes, credential: str) -> bool:
    """Whether an OAuth client that requests a token has this credential, ``id:secret``."""
    form = {name: found[0] for name, found in parse_qs(body.decode()).items()}
    given = f"{form.get('client_id', '')}:{form.get('client_secret', '')}"
    return form.get("grant_type") == "client_credentials" and hmac.compare_digest(given, credential)


def with_signature(key: str, secret: str) -> Admission:
    """Admits requests signed with the secret of this key."""

    def admits(request: Request) -> bool:
        found = _SIGNED.fullmatch(request.headers.get("Authorization", ""))
        if found is None or found["key"] != key:
            return False
        wanted = _signature(request, secret, found["scope"], found["names"].split(";"))
        return hmac.compare_digest(wanted, found["signature"])

    return admits


def _signature(request: Request, secret: str, scope: str, names: list[str]) -> str:
    """The signature of a request over the headers with these names."""
    address = urlsplit(request.target)
    pairs = sorted(
        (quote(name, safe=_PLAIN), quote(value, safe=_PLAIN))
        for name, value in parse_qsl(address.query, keep_blank_values=True)
    )
    lines = [
        request.method,
        quote(address.path, safe=_PLAIN + "/"),
        "&".join(f"{name}={value}" for name, value in pairs),
        *(f"{name}:{' '.join(request.headers.get(name, '').split())}" for name in names),
        "",
        ";".join(names),
        hashlib.sha256(request.body).hexdigest(),
    ]
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    text = "\n".join(("AWS4-HMAC-SHA256", request.headers.get("X-Amz-Date", ""), scope, digest))
    secret_of = f"AWS4{secret}".encode()
    for step in scope.split("/"):
        secret_of = hmac.digest(secret_of, step.encode(), "sha256")
    return hmac.digest(secret_of, text.encode(), "sha256").hex()
