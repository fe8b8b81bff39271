"""The grammar of one statement, which is parsed to a `Set`, an `Append` or an `Include`.

A file is parsed statement by statement (`positions.STATEMENT`), so that each error is reported.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from broker_app.zero.errors import Errors
from broker_app.zero.positions import STATEMENT, Position, SourceText
from broker_app.zero.values import Pieces, Reference, Value

if TYPE_CHECKING:
    from lark import Lark, Token
    from lark.exceptions import UnexpectedInput

#: nesting of objects and arrays, and names of a key
MAX_DEPTH = 32

GRAMMAR = r"""
start: [statement]
?statement: KEY "=" value -> set
    | KEY "+=" value -> append
    | INCLUDE STRING [object] -> include
?value: object
    | array
    | STRING -> string
    | NUMBER -> number
    | TRUE -> true
    | FALSE -> false
    | NULL -> null
    | REFERENCE -> reference
object: LBRACE [member ("," member)*] "}"
member: STRING ":" value
array: LSQB [value ("," value)*] "]"

KEY: /\/[^\s=#"{}\[\],]*[^\s=#"{}\[\],+]/
INCLUDE: "@include"
STRING: /"(?:[^"\\\n]|\\[^\n])*"/
NUMBER: /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![\w.])/
TRUE: /true(?!\w)/
FALSE: /false(?!\w)/
NULL: /null(?!\w)/
REFERENCE: /\$\{[^{}"\n]*\}/
LBRACE: "{"
LSQB: "["
%ignore /[ \t\r\n\f]+/
%ignore /#[^\n]*/
"""

_TOKEN_NAMES = {
    "KEY": "a key such as /config/mom/port", "INCLUDE": "@include", "STRING": "a string",
    "NUMBER": "a number", "TRUE": "true", "FALSE": "false", "NULL": "null", "REFERENCE": "a reference ${…}",
    "LBRACE": "{", "LSQB": "[", "RBRACE": "}", "RSQB": "]", "COMMA": ",", "COLON": ":", "EQUAL": "=",
    "__ANON_0": "+=", "$END": "the end of the statement",
}  # fmt: skip
_VALUE = frozenset("STRING NUMBER TRUE FALSE NULL REFERENCE LBRACE LSQB".split())
_REFERENCE = re.compile(r"\$\{([^{}\"\\\n]*)\}")
_SMART = "\u201c\u201d\u201e\u201f\u2018\u2019'"


class Set(NamedTuple):
    """`KEY = value`"""

    key: str
    position: Position
    value: Value


class Append(NamedTuple):
    """`KEY += value`"""

    key: str
    position: Position
    value: Value


class Include(NamedTuple):
    """`@include "path" {…}`; `arguments` is None without an object."""

    path: Value
    position: Position
    arguments: Value | None


Statement = Set | Append | Include


class _StatementError(Exception):
    """Text that is not a valid statement."""

    def __init__(self, offset: int, detail: str) -> None:
        super().__init__(detail)
        self.offset = offset
        self.detail = detail


def parse(source: SourceText, errors: Errors) -> list[Statement]:
    """Return the statements of a text; everything else is added to `errors`."""
    found: list[Statement] = []
    for offset, text in source.statements():
        try:
            statement = _statement(text)
        except _StatementError as wrong:
            errors.add(source.position(offset + wrong.offset), wrong.detail)
            continue
        if statement is not None:
            found.append(_shifted(statement, source.name, source.position(offset).line - 1))
    return found


# When a file is read again, nearly all of its statements are the same; parsing is most of the work.
@lru_cache(maxsize=16_384)
def _statement(text: str) -> Statement | None:
    """The statement of a text, with positions as if it began a file; None for only comments.
    Raises _Wrong."""
    from lark.exceptions import UnexpectedInput

    try:
        trees = _parser().parse(text).children
    except UnexpectedInput as error:
        raise _StatementError(*_explain(text, error)) from None
    return _Reader(SourceText("", text)).statement(trees[0]) if trees else None


def _shifted(statement: Statement, file: str, lines: int) -> Statement:
    """The statement with positions in a file, `lines` further down."""

    def position(of: Position) -> Position:
        return Position(file, of.line + lines, of.column)

    def value(of: Value) -> Value:
        content = of.content
        if isinstance(content, Mapping):
            content = {name: value(inner) for name, inner in content.items()}
        elif of.kind == "an array":
            content = tuple(value(inner) for inner in of.parts.values())
        return Value(content, position(of.position), of.named and position(of.named))

    if isinstance(statement, Include):
        arguments = statement.arguments and value(statement.arguments)
        return Include(value(statement.path), position(statement.position), arguments)
    return statement._replace(position=position(statement.position), value=value(statement.value))


@lru_cache(maxsize=1)
def _parser() -> Lark:
    # Created when a file is read: most nodes have none, and loading the library takes 0.1 s.
    from lark import Lark

    return Lark(GRAMMAR, parser="lalr", lexer="basic", maybe_placeholders=False)


class _Reader:
    """Converts the syntax tree of a statement to values."""

    def __init__(self, source: SourceText) -> None:
        self._source = source

    def _position(self, token: Token) -> Position:
        return self._source.position(_at(token))

    def statement(self, tree: Any) -> Statement:
        """The statement of a tree of the rule `statement`."""
        first, second, *rest = tree.children
        if tree.data == "include":
            return Include(self.value(second), self._position(first), self.value(rest[0]) if rest else None)
        if first.count("/") > MAX_DEPTH:
            raise _StatementError(_at(first), f"a key has at most {MAX_DEPTH} names")
        kind = Set if tree.data == "set" else Append
        return kind(str(first), self._position(first), self.value(second))

    def value(self, tree: Any, depth: int = 0) -> Value:
        """The value of a tree, `depth` objects and arrays deep."""
        if not hasattr(tree, "data"):
            return self._string(tree)
        first = tree.children[0]
        position = self._position(first)
        if depth == MAX_DEPTH and tree.data in ("object", "array"):
            raise _StatementError(_at(first), f"objects and arrays may be nested {MAX_DEPTH} deep")
        match tree.data:
            case "object":
                return Value(self._members(tree.children[1:], depth + 1), position)
            case "array":
                return Value(tuple(self.value(inner, depth + 1) for inner in tree.children[1:]), position)
            case "string":
                return self._string(first)
            case "number":
                return Value(self._number(first), position)
            case "reference":
                return Value(self._reference(str(first)[2:-1], _at(first)), position)
        return Value({"true": True, "false": False}.get(tree.data), position)

    def _members(self, trees: list[Any], depth: int) -> dict[str, Value]:
        members: dict[str, Value] = {}
        for tree in trees:
            token, value = tree.children
            name = self._decoded(str(token)[1:-1], _at(token) + 1)
            if name in members:
                where = members[name].named
                assert where is not None
                raise _StatementError(_at(token), f"{name!r} is already in this object, in line {where.line}")
            members[name] = self.value(value, depth).named_at(self._position(token))
        return members

    def _number(self, token: Token) -> int | float:
        try:
            number: int | float = json.loads(token)
        except ValueError:  # more digits than Python turns into a number
            number = math.inf
        if number in (math.inf, -math.inf):
            raise _StatementError(_at(token), "this number is too large")
        return number

    def _string(self, token: Token) -> Value:
        """A string with its references. `$` written as \\u0024 does not begin one."""
        raw, begin = str(token)[1:-1], _at(token) + 1
        parts: list[str | Reference] = []
        end = 0
        for match in _REFERENCE.finditer(raw):
            parts.append(self._text(raw[end : match.start()], begin + end))
            parts.append(self._reference(match[1], begin + match.start()))
            end = match.end()
        text = self._text(raw[end:], begin + end)
        if not parts:
            return Value(text, self._position(token))
        return Value(Pieces((*parts, text)), self._position(token))

    def _text(self, raw: str, offset: int) -> str:
        """The text between references."""
        if "${" in raw:
            detail = "this ${ has no } in the same string; a plain ${ is written \\u0024{"
            raise _StatementError(offset + raw.index("${"), detail)
        return self._decoded(raw, offset)

    def _decoded(self, raw: str, offset: int) -> str:
        try:
            text: str = json.loads(f'"{raw}"')
        except json.JSONDecodeError as error:
            detail = "this is not an escape sequence of JSON; write \\\\ for a backslash"
            if "control" in error.msg:
                detail = "a control character must be written as an escape sequence, such as \\t"
            raise _StatementError(offset + max(0, error.pos - 1), detail) from None
        if any("\ud800" <= char <= "\udfff" for char in text):
            raise _StatementError(offset, "this string has half of a surrogate pair in it")
        return text

    def _reference(self, name: str, offset: int) -> Reference:
        if not name.strip():
            raise _StatementError(
                offset, "a reference names a variable, or a key: ${users}, ${/config/mom/name}"
            )
        return Reference(name.strip())


def _at(token: Token) -> int:
    """The offset of a token in its statement."""
    return token.start_pos or 0


def _explain(text: str, error: UnexpectedInput) -> tuple[int, str]:
    """Return (offset, description of the error). Values of the file are not repeated: they may be secret."""
    from lark.exceptions import UnexpectedCharacters, UnexpectedToken

    offset = min(error.pos_in_stream or 0, len(text))
    if isinstance(error, UnexpectedCharacters):
        return offset, _explain_character(text, offset)
    assert isinstance(error, UnexpectedToken)
    expected = set(error.accepts or error.expected)
    token = error.token
    if token.type == "$END":
        return token.end_pos or 0, f"the statement ends here, expected {_alternatives(expected)}"
    if token.startswith(("//", "/*")):
        return offset, _explain_character(text, offset)
    if token.type in ("RBRACE", "RSQB") and text[:offset].rstrip().endswith(","):
        return text[:offset].rindex(","), f"remove the comma before {token}"
    return offset, f"found {_TOKEN_NAMES.get(token.type, token.type)}, expected {_alternatives(expected)}"


def _explain_character(text: str, offset: int) -> str:
    char, rest = text[offset], text[offset : offset + 2]
    if char == '"':
        return "this string does not end in its line"
    if char in _SMART:
        return 'a string must be in straight double quotes: "…"'
    if rest == "${":
        return "this ${ has no }"
    if rest in ("//", "/*"):
        return "comments begin with #"
    if char == "@":
        return "the only directive is @include"
    if not STATEMENT.match(text):
        return "a statement begins with a key such as /config/mom/port, or with @include"
    if char.isdecimal() or char in "+-.":
        return "this is not a JSON number"
    if char.isalpha():
        return 'a string must be in double quotes: "…"; other values are numbers, true, false and null'
    return f"{char!r} is not allowed here"


def _alternatives(expected: set[str]) -> str:
    words = [_TOKEN_NAMES.get(name, name) for name in sorted(expected - _VALUE)]
    if expected >= _VALUE:
        words.insert(0, "a value")
    else:
        words += [_TOKEN_NAMES[name] for name in sorted(expected & _VALUE)]
    return " or ".join(words)
