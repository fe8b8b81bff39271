"""The grammar of conditions: text to a condition, and why a text is none, with the place."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from broker_app.rules.condition import Both, Condition, Either, Not, depth
from broker_app.rules.errors import RuleError
from broker_app.rules.facts import FACTS, PATHS, Comparison, Operator, comparison, near_to

if TYPE_CHECKING:
    from lark import Lark, Token
    from lark.exceptions import UnexpectedInput

#: characters of a condition, and how deep its parts may lie in one another
MAX_LENGTH = 8_192
MAX_DEPTH = 32

# A parenthesis that an unquoted value opens, it closes itself, five deep.
_WITHIN = r"[^()\n]*+"
for _ in range(4):
    _WITHIN = rf"(?>[^()\n]|\({_WITHIN}\))*+"

# An unquoted value ends before &&, before ||, before the closing parenthesis, and with its line.
GRAMMAR = rf"""
?start: either
?either: both (_OR both)*
?both: negation (_AND negation)*
?negation: NOT negation -> negated
    | LPAR either ")" -> grouped
    | PATH OPERATOR (QUOTED | BARE) -> compared

LPAR: "("
_AND: "&&"
_OR: "||"
NOT: "!"
OPERATOR: "==" | "!=" | "=~"
PATH: /[\w\/.:-]+/
QUOTED: /"(?>[^"\\]|\\[\s\S])*+"|'(?>[^'\\]|\\[\s\S])*+'/
BARE: /(?=[^\s"'&|=])(?>[^()&|\n]|&(?!&)|\|(?!\|)|\({_WITHIN}\))++/
%ignore /\s+/
"""

_SPOKEN = {
    "_AND": "&&", "_OR": "||", "NOT": "!", "OPERATOR": "== != =~", "LPAR": "(", "RPAR": ")",
    "PATH": "/event/…", "QUOTED": "a value", "BARE": "a value", "$END": "the end",
}  # fmt: skip


@lru_cache(maxsize=20_000)
def parse(text: str) -> Condition | None:
    """The condition of `text`; None if it is empty, which always holds. Raises RuleError."""
    if len(text) > MAX_LENGTH:
        raise RuleError(f"the condition has {len(text)} characters; {MAX_LENGTH} are allowed")
    if not text.strip():
        return None
    from lark.exceptions import UnexpectedInput

    try:
        # The tree is built while it is parsed: what the parser returns is what the builder made.
        return cast(Condition, _parser().parse(text))
    except _Wrong as wrong:
        raise RuleError(wrong.detail, text, wrong.position) from None
    except UnexpectedInput as error:
        raise _unexpected(text, error) from None


class _Wrong(Exception):
    def __init__(self, detail: str, position: int) -> None:
        super().__init__(detail)
        self.detail, self.position = detail, position


class _Builder:
    """The parser's actions for the rules of the grammar."""

    def compared(self, children: list[Token]) -> Comparison:
        path, operator, value = children
        fact = PATHS.get(path)
        if fact is None:
            raise _Wrong(_unknown(path), _start(path))
        try:
            return comparison(fact, cast(Operator, str(operator)), _said(value))
        except ValueError as error:
            raise _Wrong(str(error), _start(value)) from None

    def negated(self, children: tuple[Token, Condition]) -> Condition:
        token, inner = children
        return _shallow(Not(inner), token)

    def grouped(self, children: tuple[Token, Condition]) -> Condition:
        token, inner = children
        return _shallow(inner, token)

    def both(self, children: list[Condition]) -> Condition:
        return Both(tuple(children))

    def either(self, children: list[Condition]) -> Condition:
        return Either(tuple(children))


@lru_cache(maxsize=1)
def _parser() -> Lark:
    # Made when the first condition comes: loading the library and its tables takes a tenth of a second.
    from lark import Lark

    return Lark(GRAMMAR, parser="lalr", lexer="contextual", transformer=_Builder(), maybe_placeholders=False)


def _start(token: Token) -> int:
    return token.start_pos or 0


def _said(value: Token) -> str:
    """The text that a value stands for. Raises _Wrong where an unquoted one looks like more than a value."""
    if value.type == "QUOTED":
        quote = value[0]
        return re.sub(rf"\\([{quote}\\])", r"\1", value[1:-1])
    if strange := re.search(r"[=!]=|=~|\s/event/", value):
        found = strange.group().strip()
        raise _Wrong(
            f"{found} in a value: is && or || missing before this? If not, put the value in quotes",
            _start(value) + strange.end() - len(found),
        )
    return value.strip()


def _unknown(path: str) -> str:
    near = near_to(path.rpartition("/")[2], FACTS)
    suggestion = f"did you mean /event/{near[0]}? Known" if near else "known"
    return f"there is no {path[:60]}; {suggestion} are {', '.join(PATHS)}"


def _shallow(condition: Condition, token: Token) -> Condition:
    if depth(condition) > MAX_DEPTH:
        raise _Wrong(f"the parts of a condition lie at most {MAX_DEPTH} deep in one another", _start(token))
    return condition


def _unexpected(text: str, error: UnexpectedInput) -> RuleError:
    from lark.exceptions import UnexpectedCharacters, UnexpectedToken

    position = error.pos_in_stream or 0
    names = set(error.allowed or ()) if isinstance(error, UnexpectedCharacters) else set()
    if isinstance(error, UnexpectedToken):
        names = set(error.accepts or error.expected)
        if error.token.type == "$END":
            position = len(text)
    expected = ", ".join(sorted({_SPOKEN[name] for name in names if name in _SPOKEN}))
    if position >= len(text.rstrip()):
        return RuleError(f"the condition ends here, expected {expected}", text, len(text.rstrip()))
    if text[position] in "'\"" and "QUOTED" in names:
        return RuleError(f"what begins with {text[position]} has no end", text, position)
    found = re.match(r"&&|\|\||[=!]=|=~|\S[\w/.:-]*", text[position:])
    what = found.group()[:40] if found else text[position]
    hint = "; a value closes the parentheses that it opens, or is in quotes" if what[0] == "(" else ""
    return RuleError(f"found {what!r}, expected {expected}{hint}", text, position)
