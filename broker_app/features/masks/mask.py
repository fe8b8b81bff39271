"""Mask: the configuration of one mask, independent of any database."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from broker_app.base.marked import mark as _

#: names of headers, and pointers, of one mask; characters of one
MOST, LONGEST = 100, 300
#: parts of a pointer: each is one more reading of a part of the body
MOST_PARTS: Final = 16
#: headers without which a message could not be shown
_NEEDED: Final = frozenset(("content-type", "content-length", "destination"))
#: the part of a pointer that stands for every member or item
ANY: Final = "*"


class MaskMember(NamedTuple):
    """A member of the spec of a mask: check, schema of the API, command line, and list and form of the
    console follow from it. `label` and `about` are translated by the console, `fault` returns the error
    of an item of a list, empty if it is valid."""

    label: str
    about: str
    fault: Callable[[str], str] | None = None


def _member(label: str, about: str, fault: Callable[[str], str] | None = None, default: Any = ()) -> Any:
    return field(default=default, metadata={"member": MaskMember(label, about, fault)})


def _header_fault(name: str) -> str:
    if name.lower() in _NEEDED:
        return f"{name} cannot be hidden: a message is not shown without it"
    return "" if name == name.strip() else f"{name[:80]!r} has blanks at an end"


def _pointer_fault(text: str) -> str:
    try:
        parts = parts_of(text)
    except ValueError as error:
        return str(error)
    return f"{text[:80]} has more than {MOST_PARTS} parts" if len(parts) > MOST_PARTS else ""


@dataclass(frozen=True, slots=True)
class Mask:
    """One mask: of messages of `destination` (an address, a pattern such as `/queue/orders.>`, or `>`), the
    `headers` and the `fields` of JSON bodies are hidden from all but administrators and members of
    `groups`."""

    name: str
    destination: str = _member(
        _("Destination"),
        _("a queue or topic such as /queue/orders, a pattern such as /queue/orders.>, or > for all"),
        default="",
    )
    headers: tuple[str, ...] = _member(
        _("Headers"), _("names of headers whose values are hidden; case does not matter"), _header_fault
    )
    fields: tuple[str, ...] = _member(
        _("Fields"),
        _("JSON pointers to values of bodies, such as /card/number; * is any member or item: /lines/*/price"),
        _pointer_fault,
    )
    groups: tuple[str, ...] = _member(_("Groups"), _("their members see the values, as administrators do"))
    comment: str = _member(_("Comment"), _("free text"), default="")


#: the members of the spec by name, each with its default
MEMBERS: Final[Mapping[str, tuple[MaskMember, Any]]] = MappingProxyType(
    {
        one.name: (
            one.metadata["member"],
            list(one.default) if isinstance(one.default, tuple) else one.default,
        )
        for one in fields(Mask)
        if "member" in one.metadata
    }
)


def parts_of(pointer: str) -> tuple[str, ...]:
    """The parts of a JSON pointer (RFC 6901); none for the empty one, which is the whole body. Raises
    ValueError."""
    if not pointer.startswith("/"):
        raise ValueError(f"{pointer[:80]!r} is no JSON pointer: it begins with /, as /card/number does")
    parts = pointer[1:].split("/")
    for part in parts:
        if "~" in part.replace("~0", "").replace("~1", ""):
            raise ValueError(f"{pointer[:80]!r} is no JSON pointer: ~ is written as ~0")
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in parts)
