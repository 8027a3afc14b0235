"""Secrets that URLs, confs and errors of Java carry, replaced before a text is shown, logged or kept.

    jdbc:postgresql://db/meta?user=a&password=pw     jdbc:postgresql://db/meta?user=a&password=***
    https://user:pw@catalog/v1                       https://***@catalog/v1
    Authorization: Bearer eyJhbGciOi…                Authorization: Bearer ***

The names are those of ``spark.redaction.regex`` and of the signed URLs of S3, Azure and GCS. A word that only may be a
secret is replaced too: an error without it can still be read.
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
    # password=…, X-Amz-Signature=…, and the sig=… of Azure
    (re.compile(rf"((?:{_NAME}|\bsig)\s*=\s*[\"']?)[^\s\"'&;,)}}\]]+", re.IGNORECASE), rf"\1{HIDDEN}"),
    # "token": "…"
    (re.compile(rf"([\"']{_NAME}[\"']\s*:\s*[\"'])[^\"']*(?=[\"'])", re.IGNORECASE), rf"\1{HIDDEN}"),
    (re.compile(r"\b(Bearer|Basic)\s+[\w+/=.~\-]{16,}", re.IGNORECASE), rf"\1 {HIDDEN}"),
    # The id of an AWS key: not a secret by itself, but what belongs to one.
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"), HIDDEN),
)


def redacted(text: str) -> str:
    """The text without what looks like a secret."""
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text


def names_a_secret(key: str) -> bool:
    """Is a conf, property or option of this name likely to hold a secret?"""
    return _SECRET_NAME.fullmatch(key) is not None
