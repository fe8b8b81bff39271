"""The parser of selectors, the SQL-92 subset of JMS 2.0, section 3.8.1, by the precedence of operators.

    condition   condition OR condition, condition AND condition, NOT condition, predicate
    predicate   sum, sum = sum (or <> != < <= > >=), sum [NOT] BETWEEN sum AND sum,
                sum [NOT] IN (item, …), sum [NOT] LIKE string [ESCAPE string], sum IS [NOT] NULL
    sum         names, literals and (condition) with + - * / between them and signs before them

What is a condition and what is a value is left to the compiler. Nodes that are not complete are on a list, so
that a text may nest parentheses as deeply as it is long.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from broker_app.base.refused import Refused
from broker_app.core.selectors.scanner import END, INVALID, NAME, NUMBER, QUOTED, STRING, Token, scan

# Kinds of nodes; a group is an open parenthesis, or the whole selector.
GROUP, EITHER, BOTH, NEGATED = "group", "either", "both", "negated"
COMPARED, BETWEEN, AMONG, LIKE, NULL = "compared", "between", "among", "like", "null"
SUM, PRODUCT, SIGN = "sum", "product", "sign"

#: how tightly the kinds of nodes bind their operands, and how tightly a name, a literal or a group is bound
_BINDING: Final = {
    GROUP: 0, EITHER: 1, BOTH: 2, NEGATED: 3,
    COMPARED: 4, BETWEEN: 4, AMONG: 4, LIKE: 4, NULL: 4, SUM: 5, PRODUCT: 6, SIGN: 7,
}  # fmt: skip
_OF_PREDICATE, _OF_SUM, _OF_ATOM = _BINDING[COMPARED], _BINDING[SUM], 8
#: operators between two operands, and those whose node has as many operands as follow one another
_INFIX: Final = {
    "OR": EITHER, "AND": BOTH, "+": SUM, "-": SUM, "*": PRODUCT, "/": PRODUCT,
    **dict.fromkeys(("=", "<>", "!=", "<", "<=", ">", ">="), COMPARED),
}  # fmt: skip
_CHAINED: Final = frozenset((EITHER, BOTH, SUM, PRODUCT))
#: words behind the first operand of a predicate; before three of them there may be NOT
_PREDICATES: Final = {"BETWEEN": BETWEEN, "IN": AMONG, "LIKE": LIKE, "IS": NULL}
_NEGATABLE: Final = ("BETWEEN", "IN", "LIKE")
_LEAVES: Final = frozenset((NAME, QUOTED, STRING, NUMBER, "TRUE", "FALSE"))
_SIGNS: Final = ("+", "-")

# What refusals show of that.
_SHOWN: Final = {
    NAME: "a header name", QUOTED: 'a header name in "…"', NUMBER: "a number", STRING: "a text in '…'",
    END: "the end",
}  # fmt: skip
_CALCULATIONS: Final = ("*", "+", "-", "/")
_COMPARISONS: Final = ("=", "<>", "< <= > >=", "NOT", *_PREDICATES)


class Node:
    """An operation: its kind, the position where it begins, its operands, and its other tokens (operators,
    items of IN, pattern and escape character of LIKE). `negated` is true for NOT IN and the like."""

    __slots__ = ("at", "kind", "negated", "operands", "tokens")

    def __init__(self, kind: str, at: int, operands: list[Tree], tokens: list[Token]) -> None:
        self.kind = kind
        self.at = at
        self.operands = operands
        self.tokens = tokens
        self.negated = False


Tree = Node | Token


def parse(text: str) -> Tree:
    """The tree of a selector. Raises Refused("invalid-selector") that names line, column and what was
    expected there."""
    return _Parser(text).parse()


def refused(text: str, position: int, what: str) -> Refused:
    """The refusal of a selector for what stands at `position`, counted in characters from 0."""
    before = text[:position]
    line, column = before.count("\n") + 1, position - (before.rfind("\n") + 1) + 1
    return Refused("invalid-selector", f"selector, line {line} column {column}: {what}")


class _Parser:
    """Reads operands and operators in turn."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._rest = scan(text)
        self._rest.reverse()  # the next token is the last one
        #: nodes that wait for an operand, the innermost last
        self._open = [Node(GROUP, 0, [], [])]
        self._parentheses = 0
        # The operand that was read last, where it begins (with its parentheses), and how tightly it is bound.
        self._operand: Tree = self._open[0]
        self._at = 0
        self._bound = _OF_ATOM

    def parse(self) -> Tree:
        self._read_operand()
        while self._read_operator():
            self._read_operand()
        return self._operand

    def _read_operand(self) -> None:
        """Read NOT, signs and opening parentheses, and the name or literal behind them."""
        token = self._rest.pop()
        while (kind := token.kind) not in _LEAVES:
            if kind == "(":
                self._open.append(Node(GROUP, token.at, [], []))
                self._parentheses += 1
            elif kind in _SIGNS:
                self._open.append(Node(SIGN, token.at, [], [token]))
            elif kind == "NOT" and self._is_in_condition():
                self._open.append(Node(NEGATED, token.at, [], []))
            else:
                negation = ("NOT",) if self._is_in_condition() else ()
                raise self._unexpected(token, (*_LEAVES, *_SIGNS, "(", *negation))
            token = self._rest.pop()
        self._operand, self._at, self._bound = token, token.at, _OF_ATOM

    def _read_operator(self) -> bool:
        """Read what follows an operand, to the operator before the next one; False at the end."""
        while True:
            token = self._rest.pop()
            kind = token.kind
            if kind in _INFIX:
                self._begin_infix(token, _INFIX[kind])
                return True
            if kind in _PREDICATES or kind == "NOT":
                if self._read_predicate(token) == BETWEEN:
                    return True
            elif kind == ")" and self._parentheses:
                self._complete(_BINDING[GROUP], token)
                self._at, self._bound = self._open.pop().at, _OF_ATOM
                self._parentheses -= 1
            elif kind == END and not self._parentheses:
                self._complete(_BINDING[GROUP], token)
                return False
            else:
                raise self._unexpected(token, self._continuations())

    def _begin_infix(self, token: Token, kind: str) -> None:
        """Begin a node with the last operand as its first one, or go on with the node that it belongs to."""
        if kind == BOTH:
            self._complete(_OF_PREDICATE, token)
            if _is_half(self._open[-1]):  # the AND of BETWEEN
                self._open[-1].operands.append(self._operand)
                return
        binding = _BINDING[kind]
        self._complete(binding, token)
        outer = self._open[-1]
        if outer.kind == kind and kind in _CHAINED:
            outer.operands.append(self._operand)
            outer.tokens.append(token)
        elif _BINDING[outer.kind] < binding < self._bound:
            self._open.append(Node(kind, self._at, [self._operand], [token]))
        else:
            raise self._unexpected(token, self._continuations())

    def _read_predicate(self, token: Token) -> str:
        """Read BETWEEN, or all of another predicate, which becomes the operand. Its kind."""
        self._complete(_OF_PREDICATE, token)
        if self._bound <= _OF_PREDICATE or not self._is_in_condition():
            raise self._unexpected(token, self._continuations())
        negated = token.kind == "NOT"
        if negated:
            token = self._take(*_NEGATABLE)
        kind = _PREDICATES[token.kind]
        node = Node(kind, self._at, [self._operand], [])
        node.negated = negated
        if kind == BETWEEN:
            self._open.append(node)
            return kind
        if kind == AMONG:
            node.tokens = self._items()
        elif kind == LIKE:
            node.tokens = self._pattern()
        elif self._take("NOT", "NULL").kind == "NOT":
            node.negated = True
            self._take("NULL")
        self._operand, self._bound = node, _OF_PREDICATE
        return kind

    def _items(self) -> list[Token]:
        """The strings and numbers in the parentheses of IN, with the signs of numbers."""
        items = []
        separator = self._take("(")
        while separator.kind != ")":
            token = self._take(STRING, NUMBER, *_SIGNS)
            if token.kind in _SIGNS:
                items.append(token)
                token = self._take(NUMBER)
            items.append(token)
            separator = self._take(",", ")")
        return items

    def _pattern(self) -> list[Token]:
        """The pattern of LIKE, and the escape character if there is one."""
        tokens = [self._take(STRING)]
        if self._rest[-1].kind == "ESCAPE":
            self._take("ESCAPE")
            tokens.append(self._take(STRING))
        return tokens

    def _take(self, *kinds: str) -> Token:
        """The next token, which must be of one of these kinds."""
        token = self._rest.pop()
        if token.kind not in kinds:
            raise self._unexpected(token, kinds)
        return token

    def _complete(self, binding: int, token: Token) -> None:
        """Complete the innermost nodes that bind more tightly, with the last operand; `token` follows it."""
        nodes = self._open
        while (bound := _BINDING[nodes[-1].kind]) > binding:
            if _is_half(nodes[-1]):
                raise self._unexpected(token, self._continuations())
            node = nodes.pop()
            node.operands.append(self._operand)
            self._operand, self._at, self._bound = node, node.at, bound

    def _is_in_condition(self) -> bool:
        """True where a condition may stand, False within a predicate."""
        return _BINDING[self._open[-1].kind] < _OF_PREDICATE

    # ------------------------------------------------------------------ refusals

    def _continuations(self) -> Iterable[str]:
        """The kinds of tokens that may follow the last operand."""
        operand = self._operand
        if self._bound >= _OF_SUM:
            yield from _CALCULATIONS
        elif isinstance(operand, Node) and operand.kind == LIKE and len(operand.tokens) == 1:
            yield "ESCAPE"
        around = next(node for node in reversed(self._open) if _BINDING[node.kind] < _OF_SUM)
        yield "AND"
        if _is_half(around):
            return
        yield from ("OR", ")" if self._parentheses else END)
        if self._bound >= _OF_SUM and _BINDING[around.kind] < _OF_PREDICATE:
            yield from _COMPARISONS

    def _unexpected(self, token: Token, expected: Iterable[str]) -> Refused:
        text, at = self._text, token.at
        if token.kind == INVALID:
            if token.text in "'\"":
                return refused(text, at, f"the text that begins with {token.text} is not closed")
            return refused(text, at, f"{text[at : at + 20]!r} is not allowed in a selector")
        shown = ", ".join(sorted(_SHOWN.get(kind, kind) for kind in expected))
        found = "the selector ends" if token.kind == END else f"found {token.text[:40]!r}"
        return refused(text, at, f"{found}, expected {shown}")


def _is_half(node: Node) -> bool:
    """True for BETWEEN of which AND has not been read."""
    return node.kind == BETWEEN and len(node.operands) == 1
