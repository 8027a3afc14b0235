"""Redaction of secrets in URLs, confs, SQL and Java errors, before a text is shown, logged or stored.

    jdbc:postgresql://db/meta?user=a&password=pw     jdbc:postgresql://db/meta?user=a&password=***
    https://user:pw@catalog/v1                       https://***@catalog/v1
    abfss://container@account/t                      the same: a container of Azure is no user
    Authorization: Bearer eyJhbGciOi…                Authorization: Bearer ***
    'password' = 'pw', {"token": "pw"}               'password' = '***', {"token": "***"}

The names cover ``spark.redaction.regex`` and the signed URLs of S3, Azure and GCS. A possible secret is redacted too,
since the error remains readable without it. The time is linear in the length of the text.
"""

from __future__ import annotations

import re

HIDDEN = "***"

_Span = tuple[int, int]
_KEY = r"(?:account|api|private|encryption|sse(?:[._\-]?c)?)[._\-]?key(?![._\-]?id\b)"
_WORD = re.compile(
    rf"secret|passw(?:or)?d|passphrase|pwd|token|credential|signature|authorization|cookie|{_KEY}|access[._\-]?key"
    r"|(?<![a-z])(?:sig|sas)(?![a-z])|(?<![a-z])header\.",
    re.IGNORECASE,
)
# After these names, a line such as ``password: …`` is hidden to its end, and after the next, one word.
_STRONG = re.compile(
    r"(?:secret|passw(?:or)?d|passphrase|pwd|authorization|cookie|(?:secret|access|account|api|private)[._\-]?key)$",
    re.IGNORECASE,
)
_MEDIUM = re.compile(r"(?:^|[._\-])(?:token|credential|signature|sig|sas)$", re.IGNORECASE)
_RUN = re.compile(r"[\w.\-]*")
_LINK = re.compile(
    r"(?P<quote>\\*[\"'])?(?P<space>\s*)(?P<sign>=>|->|==?|:|,|%3[DA])?(?P<gap>\s*)"
    r"(?P<scheme>(?:Bearer|Basic|Digest|Negotiate)\s+)?(?P<escapes>\\*)(?P<opening>[\"'])?",
    re.IGNORECASE,
)
_QUOTE = re.compile(r"(?<!\\)(\\*)([\"'])")
_BARE = re.compile(r"[^\s&\"']*")
_ENCODED = re.compile(r"(?:[^\s&\"'%]|%(?!26))*")
_JSON = re.compile(r"[^\s,}\]]*")
_LINE = re.compile(r"[^\r\n]*")
_BRACED = re.compile(r"(?:[^}]|\}\})*")
_OPTION_VALUE = re.compile(r"(?:[^\s&\"',;]|[;,](?![\w.\-]+=))*")
_NEXT_ENTRY = re.compile(r",\s*[\w.\-]+\s*->|$", re.MULTILINE)
_PROSE = re.compile(r"[A-Za-z][a-z'\-]*|\d{1,9}|[a-z][a-z\d+.\-]*://.*", re.DOTALL)
_TYPE = re.compile(r"(?:string|binary|boolean|(?:big|small|tiny)?int|long|float|double|date|timestamp\w*|decimal|"
                   r"array|map|struct|variant|void|char|varchar)\b")  # fmt: skip
_OURS = re.compile(r"got (?:'\*\*\*'|nothing), expected ")  # a message of OptionError
_ENDS = ",;.)]}\\"  # after a secret, more likely the punctuation of the text around it

_PLACE = re.compile(r"[^\s\"']+")
_PORT = re.compile(r"\d{1,5}/")
_OF_CONTAINERS = re.compile(r"(?<![a-z])(?:abfs|wasb)s?://$")
_ORACLE = re.compile(r"jdbc:oracle:\w+:", re.IGNORECASE)
_RULES = (
    (re.compile(r"(-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----).*?(-----END|\Z)", re.DOTALL), rf"\1{HIDDEN}\2"),
    (re.compile(r"\b(Bearer\s+)(?!(?:access|auth\w*|credentials?|is|of|or|realm|scheme|tokens?|was)\b)[\w+/=.~\-]+",
                re.IGNORECASE), rf"\1{HIDDEN}"),
    (re.compile(r"\b(Basic\s+)(?![A-Za-z][a-z]*(?![\w+/=]))[\w+/=.~\-]+", re.IGNORECASE), rf"\1{HIDDEN}"),
    (re.compile(r"\b(SharedKey(?:Lite)?\s+[^\s:]+:)[\w+/=]+", re.IGNORECASE), rf"\1{HIDDEN}"),
    (re.compile(r"(?<![\w\-])eyJ[\w\-]{8,}(?:\.[\w\-]*){1,3}\.[\w\-]+"), HIDDEN),  # a JSON web token
    # The id of an AWS key: not a secret by itself, but part of a credential.
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"), HIDDEN),
)  # fmt: skip


def redacted(text: str) -> str:
    """The text with possible secrets replaced."""
    if "@" in text:
        text = _PLACE.sub(lambda place: without_user(place[0]), text)
    text = _without_values(text)
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text


def names_a_secret(key: str) -> bool:
    """Whether a conf, property or option of this name is likely to hold a secret."""
    return _WORD.search(key) is not None


def without_user(place: str) -> str:
    """``scheme://user:password@host`` without the user; a password may contain ``@`` and ``/``.

    This is also how a table with such a path is called where it is stored, and how it is looked up there.
    """
    last = place.rfind("@")
    if last < 0:
        return place
    oracle = _ORACLE.search(place)
    if oracle and oracle.end() <= place.find("/", oracle.end()) < last:  # jdbc:oracle:thin:user/password@host
        return f"{place[: oracle.end()]}{HIDDEN}{place[last:]}"
    parts: list[str] = []
    done, start = 0, place.find("://")
    while 0 <= start < last:
        start += 3
        slash = place.find("/", start)
        stop = len(place) if slash < 0 else slash
        colon = place.find(":", start, stop)
        with_password = colon >= 0 and not _PORT.match(place, colon + 1)
        at = last if with_password else place.rfind("@", start, stop)
        if at >= 0 and not _has_no_user(place, start, stop):
            parts += (place[done:start], HIDDEN)
            done = start = at
        start = place.find("://", start)
    return "".join((*parts, place[done:]))


def _has_no_user(place: str, start: int, stop: int) -> bool:
    """Whether ``container@account`` of Azure, or ``host;password={…}`` of SQL Server, begins at ``start``."""
    scheme = place[max(start - len("sqlserver://"), 0) : start].lower()
    at = place.find("@", start, stop)
    before = place[start : stop if at < 0 else at]
    if scheme == "sqlserver://":
        return ";" in before
    return at >= 0 and ":" not in before and _OF_CONTAINERS.search(scheme) is not None


def _without_values(text: str) -> str:
    """The text without the values of the names in it that are likely to have a secret one."""
    parts: list[str] = []
    done = at = 0
    while (word := _WORD.search(text, at)) is not None:
        run = _RUN.match(text, word.end())
        at = run.end() if run else word.end()
        start, end = word.start(), at
        while start > done and (text[start - 1] in "_.-" or text[start - 1].isalnum()):
            start -= 1
        while text[end - 1] in ".-" and end > word.end():
            end -= 1
        low, high = _value(text, start, end) or (0, 0)
        if low < high:
            parts += (text[done:low], HIDDEN)
            done = at = high
    return "".join((*parts, text[done:]))


def _value(text: str, start: int, end: int) -> _Span | None:
    """Where the value of the name from ``start`` to before ``end`` is; None if none follows."""
    link = _LINK.match(text, end)
    if link is None:
        return None
    name, sign, value = text[start:end], (link["sign"] or "").upper(), link.start("escapes")
    if link["opening"]:
        value = link.end()
        close = _closing(text, value, len(link["escapes"]), link["opening"])
        pair = sign == "," and text[close + 1 : close + 2] in (")", "]")
        option = link["space"] and not sign  # OPTIONS (password 'pw')
        return (value, close) if option or sign not in ("", ",") or (pair and link["quote"]) else None
    if sign in ("=", "==", "=>"):
        return _assigned(text, value, query=text[start - 1 : start] in ("?", "&") if start else False)
    if sign.startswith("%"):
        return _stripped(text, value, _ENCODED.match(text, value))
    if sign == "->":
        found = _NEXT_ENTRY.search(text, value)
        return _stripped(text, value, found, start=True)
    if sign == ":":
        return _after_colon(text, name, link, value)
    if link["space"] and not sign and not link["quote"]:
        word = _BARE.match(text, value)
        shown = word[0] if word else ""
        if name.startswith("--") or (
            name.lower().endswith("credential") and re.search(r"[^:]:(?!//)[^:]", shown)
        ):
            return _stripped(text, value, word)
    return None


def _usual(name: str) -> bool:
    """Whether a secret usually has such a name, so that less punctuation is proof enough."""
    return name.startswith("--") or bool(_STRONG.search(name) or _MEDIUM.search(name))


def _after_colon(text: str, name: str, link: re.Match[str], value: int) -> _Span | None:
    """``password: …``; but a table's name or an exception before a message is no secret's name."""
    if link["quote"]:
        return _stripped(text, value, _JSON.match(text, value))
    if name.endswith(("Exception", "Error")) or _OURS.match(text, value):
        return None
    strong = _STRONG.search(name) is not None
    if not link["gap"]:
        hidden = _usual(name) and not _TYPE.match(text, value)  # ``token:string`` is a part of a schema
        return _stripped(text, value, _BARE.match(text, value)) if hidden else None
    if strong:
        return _stripped(text, value, _LINE.match(text, value))
    word = _BARE.match(text, value)
    shown = word[0] if word else ""
    alone = shown[-1:] in tuple(",;)]}") or text[value + len(shown) : value + len(shown) + 1] in (
        "",
        "\n",
        "\r",
    )
    if _PROSE.fullmatch(shown.rstrip(_ENDS + ":")) and not (alone and _MEDIUM.search(name)):
        return None
    return _stripped(text, value, word)


def _assigned(text: str, value: int, *, query: bool) -> _Span | None:
    """After ``=``: in braces, to the next option, or to the next blank; ``query``: in a URL, to the next ``&``."""
    if text[value : value + 1] == "{":
        braced = _BRACED.match(text, value + 1)
        return (value + 1, braced.end()) if braced else None
    return _stripped(text, value, (_BARE if query else _OPTION_VALUE).match(text, value))


def _stripped(text: str, value: int, found: re.Match[str] | None, *, start: bool = False) -> _Span | None:
    """From ``value`` to the end of ``found``, or to its start, without the punctuation at the end."""
    if found is None:
        return None
    high = found.start() if start else found.end()
    while high > value and text[high - 1] in _ENDS:
        high -= 1
    return value, high


def _closing(text: str, at: int, escapes: int, quote: str) -> int:
    r"""The position of the quote that ends a text, before its own backslashes; the end if it is not closed.

    A text in JSON that is itself in a text begins with ``\"``, and a quote inside it is ``\\\"``.
    """
    skip = -1
    for found in _QUOTE.finditer(text, at):
        count = len(found[1])
        if found[2] != quote or found.end() - 1 == skip:
            continue
        if count < escapes or count % (2 * escapes + 2) == escapes:
            doubled = not escapes and text[found.end() : found.end() + 1] == quote
            if doubled:
                skip = found.end()
                continue
            return found.end() - 1 - escapes if count >= escapes else found.start()
    return len(text)
