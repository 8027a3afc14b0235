"""Redaction of secrets in URLs, confs and Java errors, before a text is shown, logged or stored.

    jdbc:postgresql://db/meta?user=a&password=pw     jdbc:postgresql://db/meta?user=a&password=***
    https://user:pw@catalog/v1                       https://***@catalog/v1
    Authorization: Bearer eyJhbGciOi…                Authorization: Bearer ***

The names cover ``spark.redaction.regex`` and the signed URLs of S3, Azure and GCS. A possible secret is redacted too,
since the error remains readable without it.
"""

from __future__ import annotations

import re

HIDDEN = "***"
_NAME = (
    r"[\w.\-]*(?:secret|passw(?:or)?d|pwd|token|credential|access[._\-]?key|account[._\-]?key|api[._\-]?key|signature)"
    r"[\w.\-]*"
)
_SECRET_NAME = re.compile(_NAME, re.IGNORECASE)
_RULES = (
    # https://user:password@host
    (re.compile(r"(?<=://)[^/\s@'\"]+(?=@)"), HIDDEN),
    # jdbc:oracle:thin:user/password@host
    (re.compile(r"(jdbc:oracle:\w+:)[^/@\s]+/[^@\s]+(?=@)", re.IGNORECASE), rf"\1{HIDDEN}"),
    # password=…, X-Amz-Signature=…, and Azure's sig=…
    (re.compile(rf"((?:{_NAME}|\bsig)\s*=\s*[\"']?)[^\s\"'&;,)}}\]]+", re.IGNORECASE), rf"\1{HIDDEN}"),
    # "token": "…"
    (re.compile(rf"([\"']{_NAME}[\"']\s*:\s*[\"'])[^\"']*(?=[\"'])", re.IGNORECASE), rf"\1{HIDDEN}"),
    (re.compile(r"\b(Bearer|Basic)\s+[\w+/=.~\-]{16,}", re.IGNORECASE), rf"\1 {HIDDEN}"),
    # The id of an AWS key: not a secret by itself, but part of a credential.
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"), HIDDEN),
)


def redacted(text: str) -> str:
    """The text with possible secrets replaced."""
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text


def names_a_secret(key: str) -> bool:
    """Whether a conf, property or option of this name is likely to hold a secret."""
    return _SECRET_NAME.fullmatch(key) is not None
