"""The handlers at this site, and the requests that each of them works on."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from itertools import count
from typing import Final, Protocol

from broker_app.base.refused import Refused
from broker_app.core.model import Peer
from broker_app.features.channels.content import CallOutcome, ChannelContent
from broker_app.features.channels.deadlines import Deadlines
from broker_app.features.channels.requests import MOST_WAITING, Answered
from broker_app.features.channels.statuses import INVALID, NOSERVER, REP_UNAVAIL

#: clients with a subscription to it have a handler
REQUESTS: Final = "/topic/$channel.requests"
NO_HANDLER: Final = f"it has no handler: no application there has subscribed to {REQUESTS}"
NONE_READY: Final = "busy: each handler there works on as many calls as it may, or has failed"
#: requests that one handler works on, at most
MOST_CALLS: Final = 64
#: requests whose time has passed that are remembered, so that a late answer is no error of the handler
_MOST_LATE: Final = 10_000


class Handler(Protocol):
    """The taker of calls from applications: a subscription of a client, or a function in the broker."""

    @property
    def peer(self) -> Peer | None:
        """The connection that answers; None for a function."""

    @property
    def is_ready(self) -> bool:
        """True while it takes another call."""

    def call(self, id: str, site: str, content: ChannelContent, *, multiple: bool) -> None:
        """Take a call from a site. `id` is empty for a message; `multiple` is whether the answer may have
        several parts."""


@dataclass(slots=True)
class Call:
    """A request that a handler works on. `answered` is called once, unless its time passes before."""

    handler: Handler
    multiple: bool
    answered: Answered


class Handlers:
    """The handlers of this site, which take turns. The id of a request names this start of the broker, so
    that no answer from before a restart is taken for one to a later request."""

    def __init__(self) -> None:
        #: the numbers of the requests of each handler; the next one in turn is at the front
        self._handlers: dict[Handler, set[int]] = {}
        self._calls: dict[int, Call] = {}
        self._numbers = count(1)
        self._start = secrets.token_hex(4)
        self._deadlines = Deadlines(self._timed_out)
        self._late: dict[int, None] = {}

    def __len__(self) -> int:
        return len(self._handlers)

    def add(self, handler: Handler) -> None:
        """Add a handler."""
        self._handlers[handler] = set()

    def remove(self, handler: Handler) -> list[Call]:
        """Remove a handler. Returns the requests that it has not answered."""
        numbers = self._handlers.pop(handler, ())
        for number in numbers:
            self._deadlines.remove(number)
        return [self._calls.pop(number) for number in numbers]

    def next(self) -> Handler:
        """The handler whose turn it is, for a message. Raises Refused if there is none."""
        if not self._handlers:
            raise Refused(NOSERVER, NO_HANDLER)
        handler = next((one for one in self._handlers if one.is_ready), None)
        if handler is None:
            raise Refused(REP_UNAVAIL, NONE_READY)
        return self._turn(handler)

    def begin(self, timeout_ms: int, answered: Answered, *, multiple: bool) -> tuple[Handler, str]:
        """The handler that gets a request, and the id of the request. Raises Refused."""
        if not self._handlers:
            raise Refused(NOSERVER, NO_HANDLER)
        for handler, calls in self._handlers.items():
            if len(calls) < MOST_CALLS and handler.is_ready and len(self._calls) < MOST_WAITING:
                break
        else:
            raise Refused(REP_UNAVAIL, NONE_READY)
        number = next(self._numbers)
        self._calls[number] = Call(handler, multiple, answered)
        calls.add(number)
        self._turn(handler)
        self._deadlines.add(number, timeout_ms / 1000)
        return handler, f"{self._start}.{number}"

    def _turn(self, handler: Handler) -> Handler:
        """Have another handler be the next one in turn."""
        if len(self._handlers) > 1:
            self._handlers[handler] = self._handlers.pop(handler)
        return handler

    def find(self, peer: Peer, id: str) -> Call | None:
        """The request that a client answers; None for one whose time has passed. Raises Refused."""
        start, _, digits = id.partition(".")
        number = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 20 else 0
        if start == self._start and number in self._late:
            return None
        call = self._calls.get(number) if start == self._start else None
        if call is None or call.handler.peer is not peer:
            raise Refused(
                INVALID,
                f"header channel-call: {id[:40]!r} waits for no answer of this connection; a request is "
                "answered once, on the connection that has got it",
            )
        return call

    def answer(self, id: str, answer: CallOutcome) -> bool:
        """End a request of a handler; returns False if it waits no longer."""
        number = int(id.partition(".")[2])
        call = self._calls.pop(number, None)
        if call is None:
            return False
        self._handlers[call.handler].discard(number)
        self._deadlines.remove(number)
        call.answered(answer)
        return True

    def stop(self) -> None:
        """Forget all requests."""
        self._deadlines.stop()

    def _timed_out(self, number: int) -> None:
        call = self._calls.pop(number)
        self._handlers[call.handler].discard(number)
        self._late[number] = None
        if len(self._late) > _MOST_LATE:
            del self._late[next(iter(self._late))]
