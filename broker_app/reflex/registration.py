"""Registrations: services that connect to the broker, as reflexes see them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

#: a mark: callback brokers may serve the service
CALLBACKS = "callbacks"


@dataclass(frozen=True, slots=True)
class Registration:
    """A service that registers, or has registered.

    `machine` is what it calls its machine, else the address that it connects from; `connection` the id of its
    connection (empty for those by REST). `marks` are what registration reflexes have noted, such as
    `CALLBACKS`."""

    name: str
    user: str = ""
    machine: str = ""
    type: str = ""
    events: tuple[str, ...] = ()
    connection: str = ""
    transport: str = ""
    marks: frozenset[str] = frozenset()
    #: the name of the token that its client logged in with; empty without one
    token: str = ""

    @property
    def has_callbacks(self) -> bool:
        """True if a callback broker may serve it."""
        return CALLBACKS in self.marks

    def with_marks(self, marks: frozenset[str]) -> Registration:
        """The same, with further marks."""
        return replace(self, marks=self.marks | marks) if marks - self.marks else self


@dataclass(frozen=True, slots=True)
class RegistrationVerdict:
    """The decision about a registration: `registration` with its marks if it is accepted, else the `reflex`
    that refuses it, the reason, and further `facts` for the client."""

    accepted: bool
    registration: Registration
    reflex: str = ""
    reason: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
