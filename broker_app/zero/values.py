"""JSON values of a file, where each part has its position."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from broker_app.zero.positions import Position

Scalar = str | int | float | bool | None


class Reference(NamedTuple):
    """`${name}`: a variable, or a key that begins with a slash."""

    name: str

    @property
    def is_key(self) -> bool:
        return self.name.startswith("/")


class Pieces(NamedTuple):
    """A string with references in it: its texts and references in turn."""

    parts: tuple[str | Reference, ...]


@dataclass(frozen=True, slots=True)
class Value:
    """One value: a scalar, a tuple of values, a mapping of members, or a reference to be resolved.

    `named` is the place of the name, where the value is a member of an object.
    """

    content: Scalar | Reference | Pieces | tuple[Value, ...] | Mapping[str, Value]
    position: Position
    named: Position | None = None

    def plain(self) -> Any:
        """The JSON value, of a value without references."""
        if isinstance(self.content, Mapping):
            return {name: value.plain() for name, value in self.content.items()}
        if isinstance(self.content, tuple) and not isinstance(self.content, Reference | Pieces):
            return [value.plain() for value in self.content]
        return self.content

    def find(self, pointer: str) -> Value:
        """The value at a path ("users/0"), or the nearest one around it."""
        value = self
        for name in pointer.split("/"):
            inner = value.parts.get(name)
            if inner is None:
                break
            value = inner
        return value

    @property
    def parts(self) -> Mapping[str, Value]:
        """The values right inside it, by name or by number."""
        if isinstance(self.content, Mapping):
            return self.content
        if isinstance(self.content, tuple) and not isinstance(self.content, Reference | Pieces):
            return {str(index): value for index, value in enumerate(self.content)}
        return {}

    @property
    def is_json(self) -> bool:
        """True unless it is an unresolved reference, which was reported already."""
        return not isinstance(self.content, Reference | Pieces)

    @property
    def is_whole(self) -> bool:
        """True if neither it nor a value inside it is an unresolved reference."""
        return all(value.is_json for value in self.walk())

    @property
    def kind(self) -> str:
        """Its JSON type in words."""
        match self.content:
            case None:
                return "null"
            case bool():
                return "true or false"
            case int() | float():
                return "a number"
            case Mapping():
                return "an object"
            case str() | Pieces():
                return "a string"
            case Reference():
                return "a reference"
        return "an array"

    def walk(self) -> Iterator[Value]:
        """Itself and all values inside it."""
        yield self
        for inner in self.parts.values():
            yield from inner.walk()

    def named_at(self, position: Position | None) -> Value:
        """The same value as a member of an object whose name is at `position`."""
        return replace(self, named=position)
