"""Members of the spec of a resource, declared where the broker works with them.

Check, schema of the API, command line, form of the console and definitions follow from the declaration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from types import MappingProxyType
from typing import Any, NamedTuple


class SpecMember(NamedTuple):
    """A member that is a truth, a number between `least` and `most`, or one of `choices`, each with its
    label. The console translates `about` and all labels."""

    label: str
    about: str
    least: float = 0
    most: float = 0
    choices: Mapping[str, str] = MappingProxyType({})

    def fault(self, value: Any) -> str:
        """The error of a value of the right type; empty if it is valid."""
        if self.choices and value not in self.choices:
            return f"must be one of {', '.join(self.choices)}"
        if self.most and not self.least <= value <= self.most:
            return f"must be between {self.least:.12g} and {self.most:.12g}"
        return ""


def member(default: Any, label: str, about: str, **rule: Any) -> Any:
    """A field of a data class that is a member of the spec."""
    return field(default=default, metadata={"member": SpecMember(label, about, **rule)})


def members_of(kind: type) -> Mapping[str, tuple[SpecMember, Any]]:
    """The members that a data class declares, by name, each with its default."""
    return MappingProxyType(
        {one.name: (one.metadata["member"], one.default) for one in fields(kind) if one.metadata}
    )
