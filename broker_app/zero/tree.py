"""The tree of values by key, and the resolver of references. A key can be set only once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from broker_app.base.suggestions import suggestion
from broker_app.zero.errors import Errors
from broker_app.zero.grammar import Append, Set
from broker_app.zero.positions import Position
from broker_app.zero.values import Pieces, Reference, Value

#: values that references may make of those in the files
MAX_VALUES = 500_000
#: characters of a string with references in it
MAX_TEXT = 64 * 1024

Split = Callable[[str], Sequence[str]]


class TooLarge(Exception):
    """References that expand to more than `MAX_VALUES` or `MAX_TEXT`."""

    def __init__(self, position: Position) -> None:
        super().__init__(position)
        self.position = position


@dataclass
class Branch:
    """A key with keys or members below it, and the first positions of its value and its name."""

    position: Position
    named: Position | None
    members: dict[str, Node] = field(default_factory=dict)


@dataclass
class ArrayNode:
    """An array that can be extended, and the first positions of its value and its name."""

    position: Position
    named: Position | None
    values: list[Value]


Node = Branch | ArrayNode | Value


class Repeat(NamedTuple):
    """A key that was set again, which may be allowed."""

    key: str
    position: Position
    first: Position

    def __str__(self) -> str:
        return f"{self.key} is already set at {self.first.source}"


class Tree:
    """Values by key. `split` returns the names of a key; `arrays` are keys of arrays, where the first `+=`
    adds an element, too. Keys that `may_repeat` are no errors when they are set again: they are collected in
    `repeats`, and checked when all files are read."""

    def __init__(
        self,
        split: Split,
        arrays: frozenset[str],
        errors: Errors,
        may_repeat: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._split = split
        self._arrays = arrays
        self._errors = errors
        self._may_repeat = may_repeat
        self.repeats: list[Repeat] = []
        self.root = Branch(Position("", 0, 0), None)

    def set(self, statement: Set) -> None:
        """Set the value of a key that has none yet."""
        path = self._split(statement.key)
        branch = self._reach(path[:-1], statement)
        if branch is None:
            return
        there = branch.members.get(path[-1])
        if there is not None:
            self._add_repeat(statement.key, statement.position, there)
        else:
            branch.members[path[-1]] = _as_node(statement.value.named_at(statement.position))

    def append(self, statement: Append) -> None:
        """Add to an array or an object, which is created if it does not exist."""
        path = self._split(statement.key)
        branch = self._reach(path[:-1], statement)
        if branch is None:
            return
        name, value, listed = path[-1], statement.value, statement.key in self._arrays
        there = branch.members.get(name)
        if there is None and (value.kind == "an array" or (value.kind == "an object" and not listed)):
            branch.members[name] = _as_node(value.named_at(statement.position))
        elif there is None:
            branch.members[name] = ArrayNode(value.position, statement.position, [value])
        elif isinstance(there, Branch):
            self._merge(statement, there)
        elif isinstance(there, ArrayNode):
            there.values += value.parts.values() if value.kind == "an array" else [value]
        else:
            was = f"{there.kind}, set at {there.position.source}"
            self._errors.add(statement.position, f"{statement.key} is {was}: += adds to arrays and objects")

    def find(self, key: str) -> Node | None:
        """The value of a key, None if it is not set."""
        there: Node | None = self.root
        for name in self._split(key):
            if isinstance(there, Branch):
                there = there.members.get(name)
            elif isinstance(there, ArrayNode):
                there = dict(enumerate(there.values)).get(int(name)) if name.isdecimal() else None
            elif there is not None:
                there = there.parts.get(name)
        return there

    def keys(self) -> Iterator[str]:
        """Every key that is set."""
        stack = [("", self.root)]
        while stack:
            key, branch = stack.pop()
            for name, inner in branch.members.items():
                below = key + (name if name.startswith("/") else f"/{name}")
                yield below
                if isinstance(inner, Branch):
                    stack.append((below, inner))

    def _reach(self, path: Sequence[str], statement: Set | Append) -> Branch | None:
        branch = self.root
        for name in path:
            inner = branch.members.setdefault(name, Branch(statement.position, statement.position))
            if not isinstance(inner, Branch):
                kind = "an array" if isinstance(inner, ArrayNode) else inner.kind
                detail = f"{statement.key} cannot be set: {name} is {kind}, set at {inner.position.source}"
                self._errors.add(statement.position, detail)
                return None
            branch = inner
        return branch

    def _merge(self, statement: Append, branch: Branch) -> None:
        if statement.value.kind != "an object":
            detail = f"{statement.key} is an object, and {statement.value.kind} cannot be added to it"
            self._errors.add(statement.value.position, detail)
            return
        for name, value in statement.value.parts.items():
            there = branch.members.get(name)
            if there is not None:
                self._add_repeat(f"{statement.key}/{name}", value.named or value.position, there)
            else:
                branch.members[name] = _as_node(value)

    def _add_repeat(self, key: str, position: Position, there: Node) -> None:
        repeat = Repeat(key, position, there.named or there.position)
        if self._may_repeat(key):
            self.repeats.append(repeat)
        else:
            refuse_repeat(self._errors, repeat)


def refuse_repeat(errors: Errors, repeat: Repeat) -> None:
    """Add the error that a key is set twice."""
    errors.add(repeat.position, f"{repeat}; remove this one")


def _as_node(value: Value) -> Node:
    """A value as a node that can be extended."""
    if value.kind == "an array":
        return ArrayNode(value.position, value.named, list(value.parts.values()))
    if value.kind != "an object":
        return value
    branch = Branch(value.position, value.named)
    branch.members = {name: _as_node(inner) for name, inner in value.parts.items()}
    return branch


class Resolver:
    """Replaces references by the values that they name.

    A reference that names nothing is reported, and stays a reference; readers of values skip references.
    """

    def __init__(self, tree: Tree, errors: Errors, *, complete: bool) -> None:
        self._tree = tree
        self._errors = errors
        #: true if the tree has all statements; else a missing value may be in a statement with an error
        self._complete = complete
        self._left = MAX_VALUES

    def value(self, there: Node, trail: tuple[str, ...] = ()) -> Value:
        """A branch or value with nothing but values in it. `trail` are the keys that led here."""
        self._left -= 1
        if self._left < 0:
            raise TooLarge(there.position)
        if isinstance(there, Branch):
            members = {name: self.value(inner, trail) for name, inner in there.members.items()}
            return Value(members, there.position, there.named)
        if isinstance(there, ArrayNode):
            values = tuple(self.value(inner, trail) for inner in there.values)
            return Value(values, there.position, there.named)
        match there.content:
            case Reference():
                found = self._named(there.content, there.position, trail)
                return (
                    replace(found, position=there.position, named=there.named) if found is not None else there
                )
            case Pieces():
                return self._joined(there, there.content, trail)
        inside = {name: self.value(inner, trail) for name, inner in there.parts.items()}
        if there.kind == "an object":
            return replace(there, content=inside)
        return replace(there, content=tuple(inside.values())) if there.kind == "an array" else there

    def _named(self, reference: Reference, position: Position, trail: tuple[str, ...]) -> Value | None:
        key = reference.name
        if key in trail:
            chain = " → ".join((*trail[trail.index(key) :], key))
            self._errors.add(position, f"this reference leads to itself: {chain}")
        elif (there := self._tree.find(key)) is not None:
            return self.value(there, (*trail, key))
        elif self._complete:
            detail = f"{key} is not set{suggestion(key, self._tree.keys())}"
            self._errors.add(position, detail)
        return None

    def _joined(self, value: Value, pieces: Pieces, trail: tuple[str, ...]) -> Value:
        texts = []
        for part in pieces.parts:
            if isinstance(part, str):
                texts.append(part)
                continue
            found = self._named(part, value.position, trail)
            if found is None or isinstance(found.content, Reference | Pieces):
                return value
            try:
                texts.append(written(found))
            except ValueError as error:
                self._errors.add(value.position, f"${{{part.name}}} is {error}")
                return value
        if sum(map(len, texts)) > MAX_TEXT:
            raise TooLarge(value.position)
        return replace(value, content="".join(texts))


def written(value: Value) -> str:
    """A scalar as text inside a string. Raises ValueError for anything else."""
    content = value.content
    if isinstance(content, str):
        return content
    if isinstance(content, bool):
        return "true" if content else "false"
    if isinstance(content, int | float):
        return str(content)
    raise ValueError(f"{value.kind}, which cannot stand inside a string")
