"""Selectors: conditions on the headers of a message, in the SQL-92 subset of JMS, compiled to closures.

Logic has three values: a comparison with a header that is missing is unknown (None), and so is what
follows from it; a selector matches when it is true. Headers are text. Where text meets a number or a truth
value it is read as one ("10" is 10, "true" is TRUE); text that is none makes the comparison unknown. Texts
are equal or not; they have an order only where both are numbers.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from broker_app.core import block
from broker_app.core.errors import Refused
from broker_app.core.message import Envelope, Message, MessageIds
from broker_app.core.selector_grammar import parse, refused

if TYPE_CHECKING:
    from lark import Token, Tree

Value = str | int | float | bool | None
#: (headers, message, ids) → value
Expression = Callable[[Mapping[str, str], Message, MessageIds], Value]
#: header name → the values of which it must have one
Anchors = dict[str, frozenset[str | int | float]]

#: expressions within expressions
MAX_DEPTH = 50
MAX_PATTERN = 256
#: selectors kept compiled
CACHED = 2_048
_LONG = 1 << 63

_NUMBER = re.compile(r"[+-]?(?:\d+|(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?)", re.ASCII)
_CALLED = {"JMSType": "type", "JMSCorrelationID": "correlation-id", "JMSReplyTo": "reply-to"}
# What the broker knows of a message. The second table differs between messages of one header block.
_SHARED: dict[str, Callable[[Envelope], Value]] = {
    "destination": lambda envelope: envelope.address,
    "group": lambda envelope: (envelope.special.group or None) if envelope.special else None,
    "persistent": lambda envelope: envelope.persistent,
    "priority": lambda envelope: envelope.priority,
    "JMSDeliveryMode": lambda envelope: "PERSISTENT" if envelope.persistent else "NON_PERSISTENT",
    "JMSDestination": lambda envelope: envelope.address,
    "JMSPriority": lambda envelope: envelope.priority,
    "JMSXGroupID": lambda envelope: (envelope.special.group or None) if envelope.special else None,
}
_OWN: dict[str, Callable[[Message, MessageIds], Value]] = {
    "expires": lambda message, _: message.expires_ms or None,
    "message-id": lambda message, ids: ids.of(message).decode(),
    "timestamp": lambda message, _: message.time_ms,
    "JMSExpiration": lambda message, _: message.expires_ms,
    "JMSMessageID": lambda message, ids: ids.of(message).decode(),
    "JMSTimestamp": lambda message, _: message.time_ms,
}
#: what changes while a message waits; a choice that was made could not be kept
_CHANGING = ("JMSRedelivered", "JMSXDeliveryCount", "redelivered", "attempt")

_RELATIONS: dict[str, Callable[..., bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
#: what ActiveMQ's clients put before a selector to get what is the rule here
_CONVERTING = re.compile(r"\s*convert_string_expressions:")


class Selector:
    """A compiled selector. `anchors` are headers that must have one of few values, for an index;
    `timely` says whether it looks at more than the header block."""

    __slots__ = ("_condition", "anchors", "text", "timely")

    def __init__(self, text: str, condition: Expression, anchors: Anchors, timely: bool) -> None:
        self.text = text
        self.anchors = anchors
        self.timely = timely
        self._condition = condition

    def matches(self, message: Message, ids: MessageIds) -> bool:
        """Whether the selector is true of `message`; `ids` are those of its broker."""
        return self._condition(block.headers(message.envelope.block), message, ids) is True

    def accepts(self, headers: Mapping[str, str], message: Message, ids: MessageIds) -> bool:
        """Like `matches`, for who has taken the message's header block apart already."""
        return self._condition(headers, message, ids) is True


@lru_cache(maxsize=CACHED)
def compile(text: str) -> Selector:
    """The selector that `text` says. Raises Refused("invalid-selector") that names line and column."""
    prefix = _CONVERTING.match(text)
    source = " " * prefix.end() + text[prefix.end() :] if prefix else text
    compiler = _Compiler(source)
    part = compiler.condition(parse(source), 0)
    return Selector(text, part.value, part.anchors, compiler.timely)


class _Part(NamedTuple):
    """A piece of a selector: what it says, where it begins, and what it is."""

    value: Expression
    at: int
    kind: str
    anchors: Anchors = {}  # noqa: RUF012 - never changed
    name: str = ""
    literal: Value = None


_CONDITION, _TERM, _EITHER = "condition", "term", "either"  # a header may be used as both


class _Compiler:
    """Makes closures of a tree, from the leaves up."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.timely = False

    def condition(self, tree: Tree[Token], depth: int) -> _Part:
        part = self.part(tree, depth)
        if part.kind == _TERM:
            raise self._refused(part.at, "a condition is expected here, and this is a value")
        if part.kind == _EITHER and part.literal is None:
            return part._replace(value=_truth(part.value), kind=_CONDITION)
        return part

    def term(self, tree: Tree[Token], depth: int) -> _Part:
        part = self.part(tree, depth)
        if part.kind == _CONDITION:
            raise self._refused(part.at, "a value is expected here, and this is a condition")
        return part

    def part(self, tree: Tree[Token], depth: int) -> _Part:
        if depth > MAX_DEPTH:
            raise self._refused(tree.meta.start_pos, f"more than {MAX_DEPTH} expressions in one another")
        made: _Part = getattr(self, "_" + tree.data)(tree, depth + 1)
        return made

    def _refused(self, at: int, what: str) -> Refused:
        return refused(self._text, at, what)

    # ------------------------------------------------------------------ leaves

    def _name(self, tree: Tree[Token], depth: int) -> _Part:
        token = _tokens(tree)[0]
        at = token.start_pos or 0
        name = str(token) if token.type == "NAME" else token[1:-1].replace('""', '"')
        name = _CALLED.get(name, name)
        if name in _CHANGING:
            raise self._refused(at, f"{name} changes while a message waits and cannot select it")
        if name in _OWN:
            self.timely = True
            own = _OWN[name]
            return _Part(lambda headers, message, ids: own(message, ids), at, _EITHER)
        if name in _SHARED:
            shared = _SHARED[name]
            return _Part(lambda headers, message, ids: shared(message.envelope), at, _EITHER)
        return _Part(lambda headers, message, ids: headers.get(name), at, _EITHER, name=name)

    def _literal(self, tree: Tree[Token], depth: int) -> _Part:
        token = _tokens(tree)[0]
        at = token.start_pos or 0
        if token.type in ("TRUE", "FALSE"):
            truth = token.type == "TRUE"
            return _Part(lambda headers, message, ids: truth, at, _EITHER, literal=truth)
        return _constant(self._value(token), at)

    def _value(self, token: Token) -> str | int | float:
        if token.type == "STRING":
            return token[1:-1].replace("''", "'")
        digits = token.lower()
        number = int(digits.rstrip("l"), 16) if digits.startswith("0x") else as_number(digits.rstrip("fdl"))
        if number is None or (isinstance(number, int) and abs(number) >= _LONG):
            raise self._refused(token.start_pos or 0, f"{token[:40]} does not fit into 64 bits")
        return number

    # ------------------------------------------------------------------ logic

    def _either(self, tree: Tree[Token], depth: int) -> _Part:
        parts = [self.condition(child, depth) for child in _trees(tree)]
        conditions = [part.value for part in parts]

        def either(headers: Mapping[str, str], message: Message, ids: MessageIds) -> Value:
            result: Value = False
            for condition in conditions:
                value = condition(headers, message, ids)
                if value is True:
                    return True
                if value is None:
                    result = None
            return result

        shared = set(parts[0].anchors).intersection(*(part.anchors for part in parts))
        anchors = {
            name: frozenset[str | int | float]().union(*(p.anchors[name] for p in parts)) for name in shared
        }
        return _Part(either, parts[0].at, _CONDITION, anchors)

    def _both(self, tree: Tree[Token], depth: int) -> _Part:
        parts = [self.condition(child, depth) for child in _trees(tree)]
        conditions = [part.value for part in parts]

        def both(headers: Mapping[str, str], message: Message, ids: MessageIds) -> Value:
            result: Value = True
            for condition in conditions:
                value = condition(headers, message, ids)
                if value is False:
                    return False
                if value is None:
                    result = None
            return result

        anchors: Anchors = {}
        for part in parts:
            for name, values in part.anchors.items():
                if name not in anchors or len(values) < len(anchors[name]):
                    anchors[name] = values
        return _Part(both, parts[0].at, _CONDITION, anchors)

    def _negated(self, tree: Tree[Token], depth: int) -> _Part:
        part = self.condition(_trees(tree)[0], depth)
        return _Part(_not(part.value), tree.meta.start_pos, _CONDITION)

    # ------------------------------------------------------------------ comparisons

    def _compared(self, tree: Tree[Token], depth: int) -> _Part:
        sign = str(_tokens(tree)[0])
        children = _trees(tree)
        # (a > 1) = TRUE is a comparison of truths.
        one, other = (self.part(child, depth) for child in children)
        if sign not in ("=", "<>", "!="):
            one, other = (self.term(child, depth) for child in children)
        anchors: Anchors = {}
        if sign == "=":
            for name, literal in ((one.name, other.literal), (other.name, one.literal)):
                if name and literal is not None and not isinstance(literal, bool):
                    anchors = {name: frozenset((literal,))}
        return _Part(_comparison(sign, one.value, other.value), one.at, _CONDITION, anchors)

    def _between(self, tree: Tree[Token], depth: int) -> _Part:
        value, low, high = (self.term(child, depth) for child in _trees(tree))
        above = _comparison(">=", value.value, low.value)
        below = _comparison("<=", value.value, high.value)

        def between(headers: Mapping[str, str], message: Message, ids: MessageIds) -> Value:
            from_low = above(headers, message, ids)
            if from_low is False:
                return False
            to_high = below(headers, message, ids)
            return None if from_low is None and to_high else to_high

        return _Part(_negated_if(tree, between), value.at, _CONDITION)

    def _among(self, tree: Tree[Token], depth: int) -> _Part:
        subject, *items = _trees(tree)
        part = self._header(subject, "IN", depth)
        wanted = frozenset(self._item(item) for item in items)
        texts = frozenset(item for item in wanted if isinstance(item, str))
        numbers = frozenset(item for item in wanted if not isinstance(item, str))
        value_of = part.value

        def among(headers: Mapping[str, str], message: Message, ids: MessageIds) -> Value:
            value = value_of(headers, message, ids)
            if value is None:
                return None
            if isinstance(value, str):
                if value in texts:
                    return True
                if not numbers:
                    return False
                number = as_number(value)
                return None if number is None else number in numbers
            if isinstance(value, bool):
                return None
            return value in numbers or any(as_number(text) == value for text in texts)

        anchors = {part.name: wanted} if part.name and not _has(tree, "NOT") else {}
        return _Part(_negated_if(tree, among), part.at, _CONDITION, anchors)

    def _item(self, tree: Tree[Token]) -> str | int | float:
        *signs, token = _tokens(tree)
        value = self._value(token)
        return -value if signs and signs[0] == "-" and not isinstance(value, str) else value

    def _like(self, tree: Tree[Token], depth: int) -> _Part:
        part = self._header(_trees(tree)[0], "LIKE", depth)
        pattern, *escapes = (token for token in _tokens(tree) if token.type == "STRING")
        fits = self._pattern(pattern, escapes[0] if escapes else None)
        value_of = part.value

        def like(headers: Mapping[str, str], message: Message, ids: MessageIds) -> Value:
            value = value_of(headers, message, ids)
            return fits(value) if isinstance(value, str) else None

        return _Part(_negated_if(tree, like), part.at, _CONDITION)

    def _pattern(self, token: Token, escape_token: Token | None) -> Callable[[str], bool]:
        pattern, at = str(self._value(token)), token.start_pos or 0
        if len(pattern) > MAX_PATTERN:
            raise self._refused(at, f"the pattern has {len(pattern)} characters; {MAX_PATTERN} are allowed")
        escape = None if escape_token is None else str(self._value(escape_token))
        if escape is not None and len(escape) != 1:
            raise self._refused(
                escape_token.start_pos or 0 if escape_token else at, "ESCAPE takes one character"
            )
        pieces: list[str] = [""]
        characters = iter(pattern)
        for character in characters:
            if character == escape:
                character = next(characters, "")
                if character not in ("%", "_", escape):
                    raise self._refused(
                        at, f"what follows {escape} in the pattern must be % or _ or {escape}"
                    )
                pieces[-1] += re.escape(character)
            elif character == "%":
                pieces.append("")
            else:
                pieces[-1] += "." if character == "_" else re.escape(character)
        return _fitting(pieces)

    def _null(self, tree: Tree[Token], depth: int) -> _Part:
        part = self._header(_trees(tree)[0], "IS NULL", depth)
        value_of = part.value

        def null(headers: Mapping[str, str], message: Message, ids: MessageIds) -> Value:
            return value_of(headers, message, ids) is None

        return _Part(_negated_if(tree, null), part.at, _CONDITION)

    def _header(self, tree: Tree[Token], deed: str, depth: int) -> _Part:
        if tree.data != "name":
            raise self._refused(tree.meta.start_pos, f"{deed} needs the name of a header before it")
        return self.part(tree, depth)

    # ------------------------------------------------------------------ arithmetic

    def _sum(self, tree: Tree[Token], depth: int) -> _Part:
        return self._calculated(tree, depth)

    def _product(self, tree: Tree[Token], depth: int) -> _Part:
        return self._calculated(tree, depth)

    def _calculated(self, tree: Tree[Token], depth: int) -> _Part:
        first, *others = (self.term(child, depth) for child in _trees(tree))
        steps = [(_DEEDS[str(sign)], part.value) for sign, part in zip(_tokens(tree), others, strict=True)]
        start = first.value

        def calculated(headers: Mapping[str, str], message: Message, ids: MessageIds) -> Value:
            result = _numeric(start(headers, message, ids))
            for deed, operand in steps:
                number = _numeric(operand(headers, message, ids))
                if result is None or number is None:
                    return None
                try:
                    result = deed(result, number)
                except (ZeroDivisionError, OverflowError):
                    return None
            return result

        return _Part(calculated, first.at, _TERM)

    def _sign(self, tree: Tree[Token], depth: int) -> _Part:
        part = self.term(_trees(tree)[0], depth)
        sign = operator.neg if _tokens(tree)[0] == "-" else operator.pos
        if isinstance(part.literal, int | float) and not isinstance(part.literal, bool):
            return _constant(sign(part.literal), tree.meta.start_pos)
        value_of = part.value

        def signed(headers: Mapping[str, str], message: Message, ids: MessageIds) -> Value:
            number = _numeric(value_of(headers, message, ids))
            return None if number is None else sign(number)

        return _Part(signed, tree.meta.start_pos, _TERM)


def _trees(tree: Tree[Token]) -> list[Tree[Token]]:
    return [child for child in tree.children if not isinstance(child, str)]


def _tokens(tree: Tree[Token]) -> list[Token]:
    return [child for child in tree.children if isinstance(child, str)]


def _has(tree: Tree[Token], kind: str) -> bool:
    return any(token.type == kind for token in _tokens(tree))


def _negated_if(tree: Tree[Token], condition: Expression) -> Expression:
    return _not(condition) if _has(tree, "NOT") else condition


def _constant(value: str | float, at: int) -> _Part:
    return _Part(lambda headers, message, ids: value, at, _TERM, literal=value)


def _not(condition: Expression) -> Expression:
    def negated(headers: Mapping[str, str], message: Message, ids: MessageIds) -> Value:
        value = condition(headers, message, ids)
        return None if value is None else not value

    return negated


def _truth(value_of: Expression) -> Expression:
    """A header as a condition."""

    def truth(headers: Mapping[str, str], message: Message, ids: MessageIds) -> Value:
        return _as_truth(value_of(headers, message, ids))

    return truth


def _as_truth(value: Value) -> bool | None:
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}.get(value.lower()) if isinstance(value, str) else None


def as_number(text: str) -> int | float | None:
    """The number that a header says, None when it says none."""
    if len(text) > 40 or not _NUMBER.fullmatch(text):
        return None
    try:
        number = int(text)
    except ValueError:
        return float(text)
    return number if -_LONG <= number < _LONG else float(text)


def _numeric(value: Value) -> int | float | None:
    if isinstance(value, str):
        return as_number(value)
    return None if isinstance(value, bool) else value


def _divide(one: float, other: float) -> float:
    """As Java does: whole numbers give whole numbers, cut towards zero."""
    if isinstance(one, int) and isinstance(other, int):
        quotient = abs(one) // abs(other)
        return quotient if (one < 0) == (other < 0) else -quotient
    return one / other


_DEEDS: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divide,
}


def _comparison(sign: str, one: Expression, other: Expression) -> Expression:
    relation = _RELATIONS[sign]
    of_equality = sign in ("=", "<>", "!=")

    def compared(headers: Mapping[str, str], message: Message, ids: MessageIds) -> Value:
        left = one(headers, message, ids)
        if left is None:
            return None
        right = other(headers, message, ids)
        if right is None:
            return None
        if of_equality and isinstance(left, str) and isinstance(right, str):
            return relation(left, right)
        if isinstance(left, bool) or isinstance(right, bool):
            truths = _as_truth(left), _as_truth(right)
            return None if None in truths or not of_equality else relation(*truths)
        numbers = _numeric(left), _numeric(right)
        return None if None in numbers else relation(*numbers)

    return compared


def _fitting(pieces: list[str]) -> Callable[[str], bool]:
    """Whether a text is made of `pieces` (regular expressions of fixed length) with anything between them.
    Each piece is looked for once, from where the last one ended, so no pattern takes long."""
    first, *middle = (re.compile(piece, re.DOTALL) for piece in pieces)
    if not middle:
        return lambda text: first.fullmatch(text) is not None
    last = re.compile(pieces[-1] + r"\Z", re.DOTALL)
    del middle[-1]

    def fits(text: str) -> bool:
        found = first.match(text)
        for piece in middle:
            if found is None:
                return False
            found = piece.search(text, found.end())
        return found is not None and last.search(text, found.end()) is not None

    return fits
