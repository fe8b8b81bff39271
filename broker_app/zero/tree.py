"""The tree of what was said, by key. The first one wins: nothing is said twice."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from broker_app.zero.errors import Errors
from broker_app.zero.grammar import Append, Set
from broker_app.zero.positions import Place
from broker_app.zero.values import Pieces, Reference, Value

#: values that references may make of those in the files
MAX_VALUES = 500_000
#: characters of a string with references in it
MAX_TEXT = 64 * 1024

Split = Callable[[str], Sequence[str]]


class TooMuch(Exception):
    """References that make more than `MAX_VALUES` or `MAX_TEXT` of what the files say."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.place = place


@dataclass
class Branch:
    """A key with keys or members below it, and where it was said first: as a value, and by name."""

    place: Place
    named: Place | None
    members: dict[str, Node] = field(default_factory=dict)


@dataclass
class Row:
    """An array, to which more can be added, and where it was said first."""

    place: Place
    named: Place | None
    values: list[Value]


Node = Branch | Row | Value


class Again(NamedTuple):
    """A key that was said although it was said before, which may be right."""

    key: str
    place: Place
    first: Place

    def __str__(self) -> str:
        return f"{self.key} is already set at {self.first.source}"


class Tree:
    """What was said. `split` takes a key to the names on the way to it; `arrays` are keys that hold arrays,
    so that what is added to them first is an element, too. Keys that `may_come_again` are no errors when they
    do: they are put into `again`, to be judged when all is read."""

    def __init__(
        self,
        split: Split,
        arrays: frozenset[str],
        errors: Errors,
        may_come_again: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._split = split
        self._arrays = arrays
        self._errors = errors
        self._may_come_again = may_come_again
        self.again: list[Again] = []
        self.root = Branch(Place("", 0, 0), None)

    def set(self, said: Set) -> None:
        """Says the value of a key that has none yet."""
        path = self._split(said.key)
        branch = self._reach(path[:-1], said)
        if branch is None:
            return
        there = branch.members.get(path[-1])
        if there is not None:
            self._already(said.key, said.place, there)
        else:
            branch.members[path[-1]] = _planted(said.value.named_at(said.place))

    def append(self, said: Append) -> None:
        """Adds to an array or an object, which is made where there is none."""
        path = self._split(said.key)
        branch = self._reach(path[:-1], said)
        if branch is None:
            return
        name, value, listed = path[-1], said.value, said.key in self._arrays
        there = branch.members.get(name)
        if there is None and (value.kind == "an array" or (value.kind == "an object" and not listed)):
            branch.members[name] = _planted(value.named_at(said.place))
        elif there is None:
            branch.members[name] = Row(value.place, said.place, [value])
        elif isinstance(there, Branch):
            self._merge(said, there)
        elif isinstance(there, Row):
            there.values += value.parts.values() if value.kind == "an array" else [value]
        else:
            was = f"{there.kind}, said at {there.place.source}"
            self._errors.add(said.place, f"{said.key} is {was}: += adds to arrays and objects")

    def find(self, key: str) -> Node | None:
        """What is said of a key, if anything is."""
        there: Node | None = self.root
        for name in self._split(key):
            if isinstance(there, Branch):
                there = there.members.get(name)
            elif isinstance(there, Row):
                there = dict(enumerate(there.values)).get(int(name)) if name.isdecimal() else None
            elif there is not None:
                there = there.parts.get(name)
        return there

    def keys(self) -> Iterator[str]:
        """Every key of which something is said."""
        stack = [("", self.root)]
        while stack:
            key, branch = stack.pop()
            for name, inner in branch.members.items():
                below = key + (name if name.startswith("/") else f"/{name}")
                yield below
                if isinstance(inner, Branch):
                    stack.append((below, inner))

    def _reach(self, path: Sequence[str], said: Set | Append) -> Branch | None:
        branch = self.root
        for name in path:
            inner = branch.members.setdefault(name, Branch(said.place, said.place))
            if not isinstance(inner, Branch):
                kind = "an array" if isinstance(inner, Row) else inner.kind
                detail = f"{said.key} cannot be: {name} is {kind}, said at {inner.place.source}"
                self._errors.add(said.place, detail)
                return None
            branch = inner
        return branch

    def _merge(self, said: Append, branch: Branch) -> None:
        if said.value.kind != "an object":
            detail = f"{said.key} is an object, and {said.value.kind} cannot be added to it"
            self._errors.add(said.value.place, detail)
            return
        for name, value in said.value.parts.items():
            there = branch.members.get(name)
            if there is not None:
                self._already(f"{said.key}/{name}", value.named or value.place, there)
            else:
                branch.members[name] = _planted(value)

    def _already(self, key: str, place: Place, there: Node) -> None:
        again = Again(key, place, there.named or there.place)
        if self._may_come_again(key):
            self.again.append(again)
        else:
            refuse_again(self._errors, again)


def refuse_again(errors: Errors, again: Again) -> None:
    """A key that must not have been said twice."""
    errors.add(again.place, f"{again}; the first one wins, so this one has to go")


def _planted(value: Value) -> Node:
    """A value as something to which more can be said."""
    if value.kind == "an array":
        return Row(value.place, value.named, list(value.parts.values()))
    if value.kind != "an object":
        return value
    branch = Branch(value.place, value.named)
    branch.members = {name: _planted(inner) for name, inner in value.parts.items()}
    return branch


class Resolver:
    """Puts what references name in their place.

    What names nothing is told, and stays a reference; so whoever looks at values passes over references.
    """

    def __init__(self, tree: Tree, errors: Errors, *, complete: bool) -> None:
        self._tree = tree
        self._errors = errors
        #: whether all that the files say is in the tree; else what is not there may just be unreadable
        self._complete = complete
        self._left = MAX_VALUES

    def value(self, there: Node, trail: tuple[str, ...] = ()) -> Value:
        """A branch or value with nothing but values in it. `trail` are the keys that led here."""
        self._left -= 1
        if self._left < 0:
            raise TooMuch(there.place)
        if isinstance(there, Branch):
            members = {name: self.value(inner, trail) for name, inner in there.members.items()}
            return Value(members, there.place, there.named)
        if isinstance(there, Row):
            values = tuple(self.value(inner, trail) for inner in there.values)
            return Value(values, there.place, there.named)
        match there.content:
            case Reference():
                found = self._named(there.content, there.place, trail)
                return replace(found, place=there.place, named=there.named) if found is not None else there
            case Pieces():
                return self._joined(there, there.content, trail)
        inside = {name: self.value(inner, trail) for name, inner in there.parts.items()}
        if there.kind == "an object":
            return replace(there, content=inside)
        return replace(there, content=tuple(inside.values())) if there.kind == "an array" else there

    def _named(self, reference: Reference, place: Place, trail: tuple[str, ...]) -> Value | None:
        key = reference.name
        if key in trail:
            chain = " → ".join((*trail[trail.index(key) :], key))
            self._errors.add(place, f"this reference leads to itself: {chain}")
        elif (there := self._tree.find(key)) is not None:
            return self.value(there, (*trail, key))
        elif self._complete:
            detail = f"nothing is said of {key}{suggestion(key, self._tree.keys())}"
            self._errors.add(place, detail)
        return None

    def _joined(self, value: Value, pieces: Pieces, trail: tuple[str, ...]) -> Value:
        texts = []
        for part in pieces.parts:
            if isinstance(part, str):
                texts.append(part)
                continue
            found = self._named(part, value.place, trail)
            if found is None or isinstance(found.content, Reference | Pieces):
                return value
            try:
                texts.append(written(found))
            except ValueError as error:
                self._errors.add(value.place, f"${{{part.name}}} is {error}")
                return value
        if sum(map(len, texts)) > MAX_TEXT:
            raise TooMuch(value.place)
        return replace(value, content="".join(texts))


def written(value: Value) -> str:
    """A scalar as it stands inside a string. Raises ValueError for anything else."""
    content = value.content
    if isinstance(content, str):
        return content
    if isinstance(content, bool):
        return "true" if content else "false"
    if isinstance(content, int | float):
        return str(content)
    raise ValueError(f"{value.kind}, which cannot stand inside a string")


def suggestion(word: str, known: Iterator[str] | Sequence[str]) -> str:
    """What may have been meant, as the end of a sentence."""
    near = difflib.get_close_matches(word, list(known)[:10_000], n=1)
    return f"; did you mean {near[0]}?" if near else ""
