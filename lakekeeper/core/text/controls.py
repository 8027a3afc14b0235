"""Control characters in names and messages of others, shown by their codes."""

from __future__ import annotations

import re

# C0, DEL and C1; separators of lines and paragraphs; marks, embeddings, overrides and isolates of the direction.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def visible(text: str, *, keep: str = "") -> str:
    r"""``text`` with each control character as ``\xNN`` or ``\uNNNN``, except those in ``keep``."""
    return _CONTROL.sub(lambda found: found[0] if found[0] in keep else _code(found[0]), text)


def _code(character: str) -> str:
    number = ord(character)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"
