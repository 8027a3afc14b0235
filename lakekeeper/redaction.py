"""Redaction of secrets in URLs, confs, SQL and Java errors, before a text is shown, logged or stored.

    jdbc:postgresql://db/meta?user=a&password=pw     jdbc:postgresql://db/meta?user=a&password=***
    https://user:pw@catalog/v1                       https://***@catalog/v1
    abfss://container@account/t                      the same: a container of Azure is no user
    Authorization: Bearer eyJhbGciOi…                Authorization: Bearer ***
    {Authorization=[Basic dXNl…], Host=[h]}          {Authorization=[***], Host=[h]}
    'password' = 'pw', {"token": "pw"}               'password' = '***', {"token": "***"}

The names cover ``spark.redaction.regex`` and the signed URLs of S3, Azure and GCS. A possible secret is redacted too,
since the error remains readable without it. The time is linear in the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

HIDDEN = "***"

_Span = tuple[int, int]
_KEY = r"(?:account|api|private|(?:en|de)cryption|provided|sse(?:[._\-]?c)?)[._\-]?key(?![._\-]?id\b)|master[._\-]?keys"
_WORD = re.compile(
    rf"secret|passw(?:or)?d|passphrase|pwd|token|credential|signature|authorization|cookie|{_KEY}|access[._\-]?key"
    r"|connection[._\-]?string|(?<![a-z])delegation(?=[=%])"
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
_LINK = (
    r"(?P<quote>\\*[\"'])?(?P<space>\s*)(?P<sign>=>|->|==?|:|,|%3[DA])?(?P<gap>\s*)"
    r"(?:(?:SCHEMES)\s+)?(?P<escapes>\\*)(?P<opening>[\"'])?"
)
_SCHEMES = "Bearer|Basic|Digest|Negotiate"
_TO_VALUE = re.compile(_LINK.replace("SCHEMES", _SCHEMES), re.IGNORECASE)
# After other names, ``token`` or ``apikey`` may be the value itself.
_TO_CREDENTIALS = re.compile(_LINK.replace("SCHEMES", f"{_SCHEMES}|Token|Api-?Key"), re.IGNORECASE)
_QUOTE = re.compile(r"(?<!\\)(\\*)([\"'])")
_BEGIN, _END = (rf"-----{edge} [A-Z ]{{0,40}}PRIVATE KEY-----" for edge in ("BEGIN", "END"))
_PRIVATE_KEY = re.compile(rf"({_BEGIN}).*?(?=-----END|\Z)", re.DOTALL)
# A private key is hidden before its name is found: it is one value, although its edges contain blanks.
_MAY_BE_KEY = rf"(?:{_BEGIN}{re.escape(HIDDEN)}(?:{_END})?)?"
_BARE = re.compile(rf"{_MAY_BE_KEY}[^\s&\"']*")
_ENCODED = re.compile(r"(?:[^\s&\"'%]|%(?!26))*")
_JSON = re.compile(r"[^\s,}\]]*")
_LINE = re.compile(rf"{_MAY_BE_KEY}[^\r\n]*")
_BRACED = re.compile(r"(?:[^}]|\}\})*")
_CLOSING = {"[": "]", "(": ")", "{": "}"}
_IN_BRACKETS = re.compile(r"[\[\](){}]|(?<=[\[({,:=\s])(?P<escapes>\\*)(?P<quote>[\"'])")
_LIST = re.compile(r"\[[^\[\]\r\n]*\]")
_OPTION_VALUE = re.compile(rf"{_MAY_BE_KEY}(?:[^\s&\"',;]|[;,](?![\w.\-]+=))*")
_NEXT_ENTRY = re.compile(r",\s*[\w.\-]+\s*->|$", re.MULTILINE)
_PROSE = re.compile(r"[A-Za-z][a-z'\-]*|\d{1,9}|[a-z][a-z\d+.\-]*://.*", re.DOTALL)
_TYPE = re.compile(r"(?:string|binary|boolean|(?:big|small|tiny)?int|long|float|double|date|timestamp\w*|decimal|"
                   r"array|map|struct|variant|void|char|varchar)\b")  # fmt: skip
_OURS = re.compile(r"got (?:'\*\*\*'|nothing), expected ")  # a message of OptionError
_ENDS = ",;.)]}\\"  # after a secret, more likely the punctuation of the text around it

_PLACE = re.compile(r"[^\s\"']+")
_COLLAPSED = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]+:/)(?!/)[^/\s@:]+:[^\s@]*@")
_PORT = re.compile(r"\d{1,5}/")
_OF_CONTAINERS = re.compile(r"(?<![a-z])(?:abfs|wasb)s?://$")
_ORACLE = re.compile(r"jdbc:oracle:\w+:", re.IGNORECASE)
_FORMS = (
    re.compile(r"\bBearer\s+(?!(?:access|auth\w*|bearer|credentials?|is|of|or|realm|scheme|tokens?|was)\b)"
               r"(?P<secret>[\w+/=.~\-]+)", re.IGNORECASE),
    re.compile(r"\bBasic\s+(?![A-Za-z][a-z]*(?![\w+/=]))(?P<secret>[\w+/=.~\-]+)", re.IGNORECASE),
    re.compile(r"\bSharedKey(?:Lite)?\s+[^\s:]+:(?P<secret>[\w+/=]+)", re.IGNORECASE),
    re.compile(r"(?<![\w\-])(?P<secret>eyJ[\w\-]{8,}(?:\.[\w\-]*){1,3}\.[\w\-]+)"),  # a JSON web token
    # The id of an AWS key: not a secret by itself, but part of a credential.
    re.compile(r"\b(?P<secret>(?:AKIA|ASIA)[A-Z0-9]{16})\b"),
)  # fmt: skip


def redacted(text: str) -> str:
    """The text with possible secrets replaced.

    Secrets are found by their names and by their forms in the same text: a name may be all that follows ``Basic``, and
    ``Basic`` all that follows a name.
    """
    if "@" in text:
        text = _PLACE.sub(lambda place: without_user(place[0]), text)
    text = _PRIVATE_KEY.sub(rf"\1{HIDDEN}", text)
    forms = (found.span("secret") for form in _FORMS for found in form.finditer(text))
    return _without(text, sorted((*_values(text), *forms)))


def _without(text: str, spans: Sequence[_Span]) -> str:
    """The text with these spans hidden, which are in order; those that touch are hidden as one."""
    parts: list[str] = []
    done = 0
    for low, high in spans:
        if low > done or not parts:
            parts += (text[done:low], HIDDEN)
        done = max(done, high)
    return "".join((*parts, text[done:]))


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
    collapsed = _COLLAPSED.match(place)
    if collapsed:  # scheme:/user:password@host, as pathlib spells it
        return f"{collapsed[1]}{HIDDEN}{place[collapsed.end() - 1 :]}"
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


def _values(text: str) -> Iterator[_Span]:
    """Where the values of the names are that are likely to have a secret one, in order."""
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
            yield low, high
            done = at = high


def _value(text: str, start: int, end: int) -> _Span | None:
    """Where the value of the name from ``start`` to before ``end`` is; None if none follows."""
    name = text[start:end]
    link = (_TO_CREDENTIALS if name.lower().endswith("authorization") else _TO_VALUE).match(text, end)
    if link is None:
        return None
    sign, value = (link["sign"] or "").upper(), link.start("escapes")
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
    blank = link["space"] and not sign and not link["quote"]
    return _after_blank(text, name, value) if blank else None


def _after_blank(text: str, name: str, value: int) -> _Span | None:
    """``--password …`` of a command line, or ``credential id:…``."""
    word = _BARE.match(text, value)
    shown = word[0] if word else ""
    pair = name.lower().endswith("credential") and re.search(r"[^:]:(?!//)[^:]", shown)
    return _stripped(text, value, word) if name.startswith("--") or pair else None


def _usual(name: str) -> bool:
    """Whether a secret usually has such a name, so that less punctuation is proof enough."""
    return name.startswith("--") or bool(_STRONG.search(name) or _MEDIUM.search(name))


def _after_colon(text: str, name: str, link: re.Match[str], value: int) -> _Span | None:
    """``password: …``; but a table's name or an exception before a message is no secret's name."""
    if link["quote"]:
        return _value_or_list(text, value, _JSON)
    if name.endswith(("Exception", "Error")) or _OURS.match(text, value):
        return None
    strong = _STRONG.search(name) is not None
    if not link["gap"]:
        if not _usual(name) or _TYPE.match(text, value):  # ``token:string`` is a part of a schema
            return None
        return _value_or_list(text, value, _BARE)
    if strong:
        return _stripped(text, value, _LINE.match(text, value))
    if _LIST.match(text, value):
        return _value_or_list(text, value, _BARE)
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
    """After ``=``: in brackets, to the next option, or to the next blank; ``query``: in a URL, to the next ``&``."""
    if text[value : value + 1] == "{":
        braced = _BRACED.match(text, value + 1)
        return (value + 1, braced.end()) if braced else None
    if query:
        return _stripped(text, value, _BARE.match(text, value))
    return _value_or_list(text, value, _OPTION_VALUE)


def _value_or_list(text: str, start: int, form: re.Pattern[str]) -> _Span | None:
    """A value of this form; of one in brackets, what is between them, unless more of it follows."""
    if text[start : start + 1] not in tuple(_CLOSING):
        return _stripped(text, start, form.match(text, start))
    close = _bracket(text, start)
    after = _stripped(text, close + 1, form.match(text, close + 1))
    return (start, after[1]) if after and after[0] < after[1] else (start + 1, close)


def _bracket(text: str, start: int) -> int:
    """The position of the bracket that closes the one at ``start``; the end of the text if it is not closed.

    A bracket in quotes closes nothing.
    """
    opening, depth, at = text[start], 0, start
    while (found := _IN_BRACKETS.search(text, at)) is not None:
        at = found.end()
        if found["quote"]:
            escapes = len(found["escapes"])
            at = _closing(text, at, escapes, found["quote"]) + escapes + 1
        elif found[0] == opening:
            depth += 1
        elif found[0] == _CLOSING[opening]:
            depth -= 1
            if not depth:
                return at - 1
    return len(text)


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
