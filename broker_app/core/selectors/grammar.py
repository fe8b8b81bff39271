"""The grammar of selectors, and the errors of texts that do not follow it."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from broker_app.core.errors import Refused

if TYPE_CHECKING:
    from lark import Lark, Token, Tree
    from lark.exceptions import UnexpectedInput

#: maximum number of characters of a selector
MAX_LENGTH = 4_096

# The SQL-92 subset of JMS 2.0, section 3.8.1. Keywords are not names, in upper or lower case.
GRAMMAR = r"""
?start: either
?either: both (OR both)*
?both: negation (AND negation)*
?negation: NOT negation -> negated
    | predicate
?predicate: sum
    | sum (EQUAL | UNEQUAL | ORDER) sum -> compared
    | sum [NOT] BETWEEN sum AND sum -> between
    | sum [NOT] IN "(" item ("," item)* ")" -> among
    | sum [NOT] LIKE STRING [ESCAPE STRING] -> like
    | sum IS [NOT] NULL -> null
?sum: product ((PLUS | MINUS) product)*
?product: signed ((TIMES | DIVIDED) signed)*
?signed: (PLUS | MINUS) signed -> sign
    | atom
?atom: name | literal | "(" either ")"
name: NAME | QUOTED
literal: STRING | NUMBER | TRUE | FALSE
item: STRING | (PLUS | MINUS)? NUMBER

AND.2: /and(?![\w$.])/i
OR.2: /or(?![\w$.])/i
NOT.2: /not(?![\w$.])/i
BETWEEN.2: /between(?![\w$.])/i
IN.2: /in(?![\w$.])/i
LIKE.2: /like(?![\w$.])/i
ESCAPE.2: /escape(?![\w$.])/i
IS.2: /is(?![\w$.])/i
NULL.2: /null(?![\w$.])/i
TRUE.2: /true(?![\w$.])/i
FALSE.2: /false(?![\w$.])/i
EQUAL: "="
UNEQUAL.2: "<>" | "!="
ORDER: "<=" | ">=" | "<" | ">"
PLUS: "+"
MINUS: "-"
TIMES: "*"
DIVIDED: "/"
NUMBER: /(0x[0-9a-f]+l?|(\d+\.\d*|\.\d+|\d+)(e[+-]?\d+)?[fdl]?)(?![\w$])/i
STRING: /'([^']|'')*'/
QUOTED: /"([^"]|"")+"/
NAME: /[^\W\d][\w$.]*|[$][\w$.]*/
%ignore /\s+/
"""

_SPOKEN = {
    "EQUAL": "=", "UNEQUAL": "<>", "ORDER": "< <= > >=", "PLUS": "+", "MINUS": "-", "TIMES": "*",
    "DIVIDED": "/", "LPAR": "(", "RPAR": ")", "COMMA": ",", "NUMBER": "a number", "STRING": "a text in '…'",
    "NAME": "a header name", "QUOTED": 'a header name in "…"', "$END": "the end",
}  # fmt: skip


def parse(text: str) -> Tree[Token]:
    """The tree of a selector. Raises Refused("invalid-selector") that names line, column and what was
    expected there."""
    if len(text) > MAX_LENGTH:
        raise Refused(
            "invalid-selector", f"the selector has {len(text)} characters; {MAX_LENGTH} are allowed"
        )
    from lark.exceptions import UnexpectedInput

    try:
        return _parser().parse(text)
    except UnexpectedInput as error:
        raise _refusal(text, error) from None


def refused(text: str, position: int, what: str) -> Refused:
    """The refusal of a selector for what stands at `position`, counted in characters from 0."""
    before = text[:position]
    line, column = before.count("\n") + 1, position - (before.rfind("\n") + 1) + 1
    return Refused("invalid-selector", f"selector, line {line} column {column}: {what}")


@lru_cache(maxsize=1)
def _parser() -> Lark:
    # Made when the first selector comes: loading the library and making its tables takes a tenth of a second.
    from lark import Lark

    return Lark(GRAMMAR, parser="lalr", lexer="basic", propagate_positions=True, maybe_placeholders=False)


def _refusal(text: str, error: UnexpectedInput) -> Refused:
    from lark.exceptions import UnexpectedCharacters, UnexpectedToken

    position = error.pos_in_stream or 0
    if isinstance(error, UnexpectedCharacters):
        if text[position] in "'\"":
            return refused(text, position, f"the text that begins with {text[position]} is not closed")
        return refused(text, position, f"{text[position : position + 20]!r} is not allowed in a selector")
    assert isinstance(error, UnexpectedToken)
    token = error.token
    spoken = ", ".join(sorted({_SPOKEN.get(name, name) for name in error.accepts or error.expected}))
    if token.type == "$END":
        return refused(text, len(text), f"the selector ends, expected {spoken}")
    return refused(text, position, f"found {str(token)[:40]!r}, expected {spoken}")
