"""The subject of a call: a message on its way or a registration, to decide about, or a call of a channel."""

from __future__ import annotations

from typing import Protocol

from broker_app.core import header_block
from broker_app.core.message import Envelope
from broker_app.reflex.api import Message, service_of
from broker_app.reflex.libraries import wire
from broker_app.reflex.registration import Registration

#: bytes that a call takes in addition to header block and body
CALL_BYTES = 100


class Called(Protocol):
    """The subject of a call of a function of a process."""

    @property
    def size(self) -> int:
        """Bytes of a call."""

    def call(self, id: int, function: int) -> wire.Call:
        """The call of a function of a process."""


class MessageSubject:
    """A message. `block` is its header block, `user` its sender, or the receiver of a delivery."""

    __slots__ = ("_headers", "address", "attempt", "body", "envelope", "message_id", "type", "user")

    def __init__(
        self,
        address: str,
        type: str,
        envelope: Envelope,
        body: bytes,
        user: str,
        message_id: bytes = b"",
        attempt: int = 1,
    ) -> None:
        self.address = address
        self.type = type
        self.envelope = envelope
        self.body = body
        self.user = user
        self.message_id = message_id
        self.attempt = attempt
        self._headers: dict[str, str] | None = None

    @property
    def headers(self) -> dict[str, str]:
        """The headers; not to be changed."""
        if self._headers is None:
            self._headers = header_block.headers(self.envelope.block)
        return self._headers

    @property
    def size(self) -> int:
        """Bytes of a call."""
        return CALL_BYTES + len(self.envelope.block) + len(self.body)

    def replaced(self, envelope: Envelope) -> None:
        """Take another envelope, of the message with changed headers."""
        self.envelope, self._headers = envelope, None

    def message(self) -> Message:
        """The message as functions get it."""
        return Message(
            service_of(self.address),
            self.address,
            self.type,
            self.headers,
            self.body,
            self.user,
            self.message_id.decode(),
            self.attempt,
        )

    def call(self, id: int, function: int) -> wire.Call:
        """The call of a function of a process."""
        return wire.Call(
            id,
            function,
            self.address,
            self.type,
            self.envelope.block,
            self.body,
            self.user,
            self.message_id.decode(),
            self.attempt,
        )


class RegistrationSubject:
    """A registration."""

    __slots__ = ("registration",)
    size = 4 * CALL_BYTES

    def __init__(self, registration: Registration) -> None:
        self.registration = registration

    def call(self, id: int, function: int) -> wire.Call:
        """The call of a function of a process."""
        of = self.registration
        facts = wire.RegistrationFacts(
            of.name, of.user, of.machine, of.type, list(of.events), of.connection, of.transport
        )
        return wire.Call(id, function, registration=facts)


class ChannelSubject:
    """A call of a message channel, from a site."""

    __slots__ = ("body", "facts")

    def __init__(self, body: bytes, facts: wire.ChannelFacts) -> None:
        self.body = body
        self.facts = facts

    @property
    def size(self) -> int:
        """Bytes of a call."""
        return CALL_BYTES + len(self.body) + len(self.facts.lengths or "")

    def call(self, id: int, function: int) -> wire.Call:
        """The call of a function of a process."""
        return wire.Call(id, function, body=self.body, channel=self.facts)


#: of a decision
Subject = MessageSubject | RegistrationSubject
