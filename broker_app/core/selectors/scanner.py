"""The scanner of selectors: a text becomes tokens."""

from __future__ import annotations

import re
from typing import Final

# Kinds of tokens. Keywords and signs are kinds of their own: the word in capitals, the sign itself.
NAME, QUOTED, STRING, NUMBER = "name", "quoted", "string", "number"
#: the end of the text, and a place where no token begins
END, INVALID = "end", "invalid"

_WORDS = ("AND", "OR", "NOT", "BETWEEN", "IN", "LIKE", "ESCAPE", "IS", "NULL", "TRUE", "FALSE")
_KEYWORDS: Final = {word: word for word in _WORDS}

# Each part can be read in one way only, so that the time to scan a text is linear, whatever it is.
_TOKEN: Final = re.compile(
    r"""\s*+(?:
        (?P<name> [^\W\d][\w$.]*+ | [$][\w$.]*+ )
      | (?P<sign> <= | >= | <> | != | [-+*/=<>(),] )
      | (?P<string> '(?:[^']++|'')*' )
      | (?P<number> (?i: 0x[0-9a-f]+l? | (?:\d+\.\d*|\.\d+|\d+)(?:e[+-]?\d+)?[fdl]? )(?![\w$]) )
      | (?P<quoted> "(?:[^"]++|"")+" )
      | (?P<end> \Z )
      | (?P<invalid> . )
    )""",
    re.VERBOSE | re.DOTALL,
)


class Token:
    """A token: its kind, its text, and its position, counted in characters from 0."""

    __slots__ = ("at", "kind", "text")

    def __init__(self, kind: str, text: str, at: int) -> None:
        self.kind = kind
        self.text = text
        self.at = at


def scan(text: str) -> list[Token]:
    """The tokens of a text. The last one is of the kind END, or INVALID where no token begins."""
    tokens = []
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or INVALID
        found, at = match[kind], match.start(kind)
        if kind == "name":
            kind = _KEYWORDS.get(found.upper(), NAME)
        elif kind == "sign":
            kind = found
        tokens.append(Token(kind, found, at))
        if kind in (END, INVALID):
            break
    return tokens
