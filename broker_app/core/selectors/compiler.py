"""The compiler of selectors: conditions on message headers in the SQL-92 subset of JMS become closures.

Logic has three values: a comparison with a header that is missing is unknown (None), and so is what
follows from it; a selector matches when it is true. Headers are text. Where text meets a number or a truth
value it is read as one ("10" is 10, "true" is TRUE); text that is none makes the comparison unknown. Texts
are equal or not; they have an order only where both are numbers.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Final

from broker_app.base.refused import Refused
from broker_app.core.message import Envelope, Message, MessageIds
from broker_app.core.selectors import parser, scanner
from broker_app.core.selectors.parser import Node, Tree, parse, refused
from broker_app.core.selectors.scanner import Token
from broker_app.core.selectors.selector import LONG, Anchors, Expression, Selector, Value, as_number

#: a piece of a pattern: its characters, None for any character
Piece = list[str | None]

#: characters of a selector, and depth of its nested expressions
MAX_LENGTH = 1_024
MAX_DEPTH = 50
MAX_PATTERN = 256
#: compiled selectors that are cached
CACHED = 2_048

_CALLED = {"JMSType": "type", "JMSCorrelationID": "correlation-id", "JMSReplyTo": "reply-to"}
# Properties of a message that are not headers. Those of the second table differ between messages that share a
# header block.
_SHARED: dict[str, Callable[[Envelope], Value]] = {
    "destination": lambda envelope: envelope.address,
    "group": lambda envelope: (envelope.options.group or None) if envelope.options else None,
    "persistent": lambda envelope: envelope.persistent,
    "priority": lambda envelope: envelope.priority,
    "JMSDeliveryMode": lambda envelope: "PERSISTENT" if envelope.persistent else "NON_PERSISTENT",
    "JMSDestination": lambda envelope: envelope.address,
    "JMSPriority": lambda envelope: envelope.priority,
    "JMSXGroupID": lambda envelope: (envelope.options.group or None) if envelope.options else None,
}
_OWN: dict[str, Callable[[Message, MessageIds], Value]] = {
    "expires": lambda message, _: message.expires_ms or None,
    "message-id": lambda message, ids: ids.of(message).decode(),
    "timestamp": lambda message, _: message.time_ms,
    "JMSExpiration": lambda message, _: message.expires_ms,
    "JMSMessageID": lambda message, ids: ids.of(message).decode(),
    "JMSTimestamp": lambda message, _: message.time_ms,
}
#: properties that change while a message waits, so that a match could not be kept
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
_NAMES: Final = (scanner.NAME, scanner.QUOTED)
_TRUTHS: Final = {"TRUE": True, "FALSE": False}
_NO_ANCHORS: Final[Anchors] = {}
#: a prefix of ActiveMQ clients that asks for what is the default here
_CONVERTING = re.compile(r"\s*convert_string_expressions:")


def compile(text: str) -> Selector:
    """Compile the selector of a client. Raises Refused("invalid-selector") with line and column."""
    if len(text) > MAX_LENGTH:
        raise Refused(
            "invalid-selector",
            f"the selector has {len(text):,} characters; at most {MAX_LENGTH:,} are allowed",
        )
    return compile_stored(text)


@lru_cache(maxsize=CACHED)
def compile_stored(text: str) -> Selector:
    """Compile a selector that was accepted before, however long they were allowed to be then."""
    prefix = _CONVERTING.match(text)
    source = " " * prefix.end() + text[prefix.end() :] if prefix else text
    compiler = _Compiler(source)
    part = compiler.condition(parse(source), 0)
    return Selector(
        text,
        part.value,
        part.anchors,
        timely=compiler.timely,
        parts=compiler.parts,
        searches=compiler.searches,
    )


class _Part:
    """A compiled expression: its value, where it begins, and its kind. `name` is that of a plain header,
    `literal` the value of a literal."""

    __slots__ = ("anchors", "at", "kind", "literal", "name", "value")

    def __init__(
        self,
        value: Expression,
        at: int,
        kind: str,
        anchors: Anchors = _NO_ANCHORS,
        name: str = "",
        literal: Value = None,
    ) -> None:
        self.value = value
        self.at = at
        self.kind = kind
        self.anchors = anchors
        self.name = name
        self.literal = literal


_CONDITION, _TERM, _EITHER = "condition", "term", "either"  # a header may be used as both


class _Compiler:
    """Makes closures of a syntax tree, from the leaves up."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.timely = False
        self.parts = 0
        self.searches = 0

    def condition(self, tree: Tree, depth: int) -> _Part:
        part = self.part(tree, depth)
        if part.kind == _TERM:
            raise self._refused(part.at, "a condition is expected here, not a value")
        if part.kind == _EITHER and part.literal is None:
            return _Part(_truth(part.value), part.at, _CONDITION)
        return part

    def term(self, tree: Tree, depth: int) -> _Part:
        return self._as_term(self.part(tree, depth))

    def part(self, tree: Tree, depth: int) -> _Part:
        if depth > MAX_DEPTH:
            raise self._refused(tree.at, f"more than {MAX_DEPTH} nested expressions")
        self.parts += 1
        if isinstance(tree, Node):
            return _COMPILERS[tree.kind](self, tree, depth + 1)
        return self._name(tree) if tree.kind in _NAMES else self._literal(tree)

    def _as_term(self, part: _Part) -> _Part:
        if part.kind == _CONDITION:
            raise self._refused(part.at, "a value is expected here, not a condition")
        return part

    def _refused(self, at: int, what: str) -> Refused:
        return refused(self._text, at, what)

    # ------------------------------------------------------------------ leaves

    def _name(self, token: Token) -> _Part:
        at = token.at
        name = token.text if token.kind == scanner.NAME else token.text[1:-1].replace('""', '"')
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

    def _literal(self, token: Token) -> _Part:
        if token.kind in _TRUTHS:
            truth = _TRUTHS[token.kind]
            return _Part(lambda headers, message, ids: truth, token.at, _EITHER, literal=truth)
        return _constant(self._value(token), token.at)

    def _value(self, token: Token) -> str | int | float:
        text = token.text
        if token.kind == scanner.STRING:
            return text[1:-1].replace("''", "'")
        digits = text.lower()
        number = int(digits.rstrip("l"), 16) if digits.startswith("0x") else as_number(digits.rstrip("fdl"))
        if number is None or (isinstance(number, int) and abs(number) >= LONG):
            raise self._refused(token.at, f"{text[:40]} does not fit into 64 bits")
        return number

    # ------------------------------------------------------------------ logic

    def _either(self, node: Node, depth: int) -> _Part:
        parts = [self.condition(operand, depth) for operand in node.operands]
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

    def _both(self, node: Node, depth: int) -> _Part:
        parts = [self.condition(operand, depth) for operand in node.operands]
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

    def _negated(self, node: Node, depth: int) -> _Part:
        part = self.condition(node.operands[0], depth)
        return _Part(_not(part.value), node.at, _CONDITION)

    # ------------------------------------------------------------------ comparisons

    def _compared(self, node: Node, depth: int) -> _Part:
        sign = node.tokens[0].text
        one, other = (self.part(operand, depth) for operand in node.operands)
        # (a > 1) = TRUE is a comparison of truths, which are equal or not.
        if sign not in ("=", "<>", "!="):
            self._as_term(one)
            self._as_term(other)
        anchors = _NO_ANCHORS
        if sign == "=":
            for name, literal in ((one.name, other.literal), (other.name, one.literal)):
                if name and literal is not None and not isinstance(literal, bool):
                    anchors = {name: frozenset((literal,))}
        return _Part(_comparison(sign, one.value, other.value), one.at, _CONDITION, anchors)

    def _between(self, node: Node, depth: int) -> _Part:
        value, low, high = (self.term(operand, depth) for operand in node.operands)
        above = _comparison(">=", value.value, low.value)
        below = _comparison("<=", value.value, high.value)

        def between(headers: Mapping[str, str], message: Message, ids: MessageIds) -> Value:
            from_low = above(headers, message, ids)
            if from_low is False:
                return False
            to_high = below(headers, message, ids)
            return None if from_low is None and to_high else to_high

        return _Part(_negated_if(node, between), value.at, _CONDITION)

    def _among(self, node: Node, depth: int) -> _Part:
        part = self._header(node, "IN", depth)
        wanted = frozenset(self._items(node.tokens))
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

        anchors = {part.name: wanted} if part.name and not node.negated else _NO_ANCHORS
        return _Part(_negated_if(node, among), part.at, _CONDITION, anchors)

    def _items(self, tokens: list[Token]) -> Iterator[str | int | float]:
        negative = False
        for token in tokens:
            if token.kind in ("+", "-"):
                negative = token.kind == "-"
                continue
            value = self._value(token)
            yield -value if negative and not isinstance(value, str) else value
            negative = False

    def _like(self, node: Node, depth: int) -> _Part:
        part = self._header(node, "LIKE", depth)
        pattern, *escapes = node.tokens
        fits = self._pattern(pattern, escapes[0] if escapes else None)
        value_of = part.value

        def like(headers: Mapping[str, str], message: Message, ids: MessageIds) -> Value:
            value = value_of(headers, message, ids)
            return fits(value) if isinstance(value, str) else None

        return _Part(_negated_if(node, like), part.at, _CONDITION)

    def _pattern(self, token: Token, escape_token: Token | None) -> Callable[[str], bool]:
        pattern, at = str(self._value(token)), token.at
        if len(pattern) > MAX_PATTERN:
            raise self._refused(at, f"the pattern has {len(pattern)} characters; {MAX_PATTERN} are allowed")
        escape = None if escape_token is None else str(self._value(escape_token))
        if escape_token is not None and escape is not None and len(escape) != 1:
            raise self._refused(escape_token.at, "ESCAPE takes one character")
        pieces: list[Piece] = [[]]
        characters = iter(pattern)
        for character in characters:
            if character == escape:
                character = next(characters, "")
                if character not in ("%", "_", escape):
                    raise self._refused(
                        at, f"what follows {escape} in the pattern must be % or _ or {escape}"
                    )
                pieces[-1].append(character)
            elif character == "%":
                pieces.append([])
            else:
                pieces[-1].append(None if character == "_" else character)
        self.searches += sum(2 if None in piece else 1 for piece in pieces[1:-1] if piece)
        return _fitting(pieces)

    def _null(self, node: Node, depth: int) -> _Part:
        part = self._header(node, "IS NULL", depth)
        value_of = part.value

        def null(headers: Mapping[str, str], message: Message, ids: MessageIds) -> Value:
            return value_of(headers, message, ids) is None

        return _Part(_negated_if(node, null), part.at, _CONDITION)

    def _header(self, node: Node, operation: str, depth: int) -> _Part:
        subject = node.operands[0]
        if subject.kind not in _NAMES:
            raise self._refused(subject.at, f"{operation} needs the name of a header before it")
        return self.part(subject, depth)

    # ------------------------------------------------------------------ arithmetic

    def _calculated(self, node: Node, depth: int) -> _Part:
        first, *others = (self.term(operand, depth) for operand in node.operands)
        steps = [(_HANDLERS[sign.text], part.value) for sign, part in zip(node.tokens, others, strict=True)]
        start = first.value

        def calculated(headers: Mapping[str, str], message: Message, ids: MessageIds) -> Value:
            result = _numeric(start(headers, message, ids))
            for operation, operand in steps:
                number = _numeric(operand(headers, message, ids))
                if result is None or number is None:
                    return None
                try:
                    result = operation(result, number)
                except (ZeroDivisionError, OverflowError):
                    return None
            return result

        return _Part(calculated, first.at, _TERM)

    def _sign(self, node: Node, depth: int) -> _Part:
        part = self.term(node.operands[0], depth)
        sign = operator.neg if node.tokens[0].text == "-" else operator.pos
        if isinstance(part.literal, int | float) and not isinstance(part.literal, bool):
            return _constant(sign(part.literal), node.at)
        value_of = part.value

        def signed(headers: Mapping[str, str], message: Message, ids: MessageIds) -> Value:
            number = _numeric(value_of(headers, message, ids))
            return None if number is None else sign(number)

        return _Part(signed, node.at, _TERM)


#: kind of a node → what compiles it
_COMPILERS: Final[dict[str, Callable[[_Compiler, Node, int], _Part]]] = {
    parser.EITHER: _Compiler._either,
    parser.BOTH: _Compiler._both,
    parser.NEGATED: _Compiler._negated,
    parser.COMPARED: _Compiler._compared,
    parser.BETWEEN: _Compiler._between,
    parser.AMONG: _Compiler._among,
    parser.LIKE: _Compiler._like,
    parser.NULL: _Compiler._null,
    parser.SUM: _Compiler._calculated,
    parser.PRODUCT: _Compiler._calculated,
    parser.SIGN: _Compiler._sign,
}


def _negated_if(node: Node, condition: Expression) -> Expression:
    return _not(condition) if node.negated else condition


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


_HANDLERS: dict[str, Callable[[float, float], float]] = {
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


def _fitting(pieces: list[Piece]) -> Callable[[str], bool]:
    """Return whether a text is made of `pieces` with anything between them. Each piece is searched for once,
    from where the last one ended, in a time that grows with the text alone."""
    first, *middle = pieces
    begins = _place(first)
    if not middle:
        return lambda text: len(text) == len(first) and begins(text, 0)
    last = middle.pop()
    ends = _place(last)
    searches = [_search(piece) for piece in middle if piece]
    shortest = sum(map(len, pieces))

    def fits(text: str) -> bool:
        if len(text) < shortest or not begins(text, 0):
            return False
        at = len(first)
        for search in searches:
            at = search(text, at)
            if at < 0:
                return False
        end = len(text) - len(last)
        return at <= end and ends(text, end)

    return fits


def _place(piece: Piece) -> Callable[[str, int], bool]:
    """Return whether a piece stands at a place of a text that is long enough."""
    if None not in piece:
        literal = "".join(filter(None, piece))
        return lambda text, at: text.startswith(literal, at)
    wanted = [(index, character) for index, character in enumerate(piece) if character is not None]
    return lambda text, at: all(text[at + index] == character for index, character in wanted)


def _search(piece: Piece) -> Callable[[str, int], int]:
    """The end of the first occurrence of a piece behind a place, -1 when there is none."""
    length = len(piece)
    if None not in piece:
        literal = "".join(filter(None, piece))

        def find(text: str, at: int) -> int:
            found = text.find(literal, at)
            return found + length if found >= 0 else -1

        return find
    # Bit i of a number: the first i + 1 characters of the piece end where the text was read to.
    anything = sum(1 << index for index, character in enumerate(piece) if character is None)
    masks: dict[str, int] = {}
    for index, character in enumerate(piece):
        if character is not None:
            masks[character] = masks.get(character, anything) | 1 << index
    whole = 1 << (length - 1)

    def walk(text: str, at: int) -> int:
        state = 0
        for index in range(at, len(text)):
            state = (state << 1 | 1) & masks.get(text[index], anything)
            if state & whole:
                return index + 1
        return -1

    return walk
