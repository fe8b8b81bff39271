"""The chains of all declarations, matched once for each address and type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from broker_app.core import header_block
from broker_app.core.message import Envelope
from broker_app.reflex.chain import ChainStep
from broker_app.reflex.declaration import OF_MESSAGES
from broker_app.reflex.patterns import Pattern, ServicePattern

Steps = tuple[ChainStep, ...]
NONE: Final[Steps] = ()
#: addresses, and types of one address, that are remembered
_MAX_CACHED: Final = 10_000
_MAX_TYPES: Final = 1_000


class _Matcher:
    """One declaration of messages, with its patterns."""

    __slots__ = ("event", "service", "step")

    def __init__(self, step: ChainStep) -> None:
        self.step = step
        self.service = ServicePattern(step.declaration.service)
        self.event = Pattern(step.declaration.event)


class _ByType:
    """The chains of one address."""

    __slots__ = ("_matchers", "_of_type", "steps")

    def __init__(self, matchers: Sequence[_Matcher]) -> None:
        self._matchers = matchers
        #: the chain of all types, None when it depends on the type
        self.steps: Steps | None = None
        if all(one.event.is_everything for one in matchers):
            self.steps = tuple(one.step for one in matchers)
        self._of_type: dict[str, Steps] = {}

    def of(self, type: str) -> Steps:
        """The chain of a type."""
        if self.steps is not None:
            return self.steps
        found = self._of_type.get(type)
        if found is None:
            if len(self._of_type) >= _MAX_TYPES:
                self._of_type.clear()
            found = self._of_type[type] = tuple(one.step for one in self._matchers if one.event.matches(type))
        return found


class MessageChains:
    """The chains of one kind of declarations of messages, in their order."""

    def __init__(self, kind: str, steps: Sequence[ChainStep]) -> None:
        assert kind in OF_MESSAGES
        self._matchers = [_Matcher(step) for step in steps if step.declaration.kind == kind]
        self._by_address: dict[str, _ByType] = {}

    def __bool__(self) -> bool:
        return bool(self._matchers)

    def find(self, address: str, envelope: Envelope) -> Steps:
        """The chain of messages to `address` with this envelope."""
        by_type = self._by_address.get(address)
        if by_type is None:
            by_type = self._learn(address)
        steps = by_type.steps
        return by_type.of(type_of(envelope.block)) if steps is None else steps

    def may_match(self, address: str) -> bool:
        """Return whether messages of a subscription to `address`, which may have wildcards, have a chain."""
        return any(one.service.overlaps(address) for one in self._matchers)

    def all_of(self, address: str) -> Steps:
        """The steps for messages to `address`, whatever their type."""
        return tuple(one.step for one in self._matchers if one.service.matches(address))

    def _learn(self, address: str) -> _ByType:
        if len(self._by_address) >= _MAX_CACHED:
            self._by_address.clear()
        found = _ByType([one for one in self._matchers if one.service.matches(address)])
        self._by_address[address] = found
        return found


class RegistrationChains:
    """The chains of one kind of declarations of registrations, in their order."""

    def __init__(self, kind: str, steps: Sequence[ChainStep]) -> None:
        self._matchers = [
            (Pattern(step.declaration.service), step) for step in steps if step.declaration.kind == kind
        ]

    def find(self, name: str) -> Steps:
        """The chain of a service."""
        return tuple(step for pattern, step in self._matchers if pattern.matches(name))


def type_of(block: bytes) -> str:
    """The header `type` of a block, empty for none."""
    if b"type:" not in block:
        return ""
    return header_block.headers(block).get("type", "")
