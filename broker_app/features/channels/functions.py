"""Functions of libraries as handlers at this site: reflexes of the kind `channel`.

They run in the process of their library, one call after the other, within their time limit. A call is made
once: when the process ends meanwhile, its outcome is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final, Protocol

from broker_app.base.refused import Refused
from broker_app.features.channels.content import CallOutcome, ChannelContent, checked
from broker_app.features.channels.handlers import MOST_CALLS, Handler
from broker_app.features.channels.statuses import BUFFER_SMALL, INVALID, KEYEMPTY, REP_UNAVAIL
from broker_app.reflex.chain import ProcessStep
from broker_app.reflex.libraries import wire
from broker_app.reflex.libraries.library_client import CallFailure
from broker_app.reflex.subject import ChannelSubject

#: bytes of the calls that a function has not returned from, beyond which it is given no more
_MOST_BYTES: Final = 32 * 1024 * 1024


class Calls(Protocol):
    """The calls that functions are given; `Channels` has them."""

    functions: list[str]

    def add(self, handler: Handler) -> None:
        """Add a handler."""

    def remove(self, handler: Handler) -> None:
        """Remove a handler."""

    def end_call(self, id: str, answer: CallOutcome) -> None:
        """Take the answer to a request."""

    def send(self, site: str, content: ChannelContent) -> None:
        """Send a message to a site. Raises Refused."""


class FunctionHandler:
    """The function of one declaration. `most_bytes` is the largest body of an answer."""

    peer = None

    def __init__(self, step: ProcessStep, calls: Calls, most_bytes: int) -> None:
        self._step = step
        self._calls = calls
        self._most_bytes = most_bytes
        #: calls that it has not returned from, and their bytes
        self._number = self._bytes = 0

    @property
    def is_ready(self) -> bool:
        """True while it takes another call: its library has not failed, and not too much waits for it."""
        if self._number >= MOST_CALLS or self._bytes >= _MOST_BYTES:
            return False
        return not self._step.client.breaker.is_open

    def call(self, id: str, site: str, content: ChannelContent, *, multiple: bool) -> None:
        """Call the function."""
        facts = wire.ChannelFacts(site, content.lengths, bool(id), multiple)
        subject = ChannelSubject(content.body, facts)
        self._number += 1
        self._bytes += subject.size
        ended = partial(self._ended, id, subject.size)
        failure = self._step.call(subject, ended, once=True)
        if failure is not None:
            ended(failure)

    def _ended(self, id: str, size: int, result: wire.CallResult | CallFailure) -> None:
        self._number -= 1
        self._bytes -= size
        step = self._step
        if isinstance(result, CallFailure):
            step.statistics.failed(step.declaration, result.reason)
            reason = f"reflex {step.declaration.name} has failed: the outcome is unknown"
            self._answer(id, CallOutcome(REP_UNAVAIL, reason=reason))
            return
        if result.error:
            step.statistics.failed(step.declaration, result.error)
        else:
            step.statistics.decided(result.micros, accepted=True)
        self._answer(id, self._answer_of(result))
        for sent in result.messages:
            self._send(sent)

    def _answer(self, id: str, answer: CallOutcome) -> None:
        if id:
            self._calls.end_call(id, answer)

    def _answer_of(self, result: wire.CallResult) -> CallOutcome:
        name = self._step.declaration.name
        if result.answer is not None:
            try:
                return CallOutcome(content=self._content(result.answer, result.answer_headers.get("parts")))
            except Refused as refused:
                self._unpublished(f"its answer cannot be sent: {refused.detail}")
                return CallOutcome(KEYEMPTY, reason=f"the answer of reflex {name} cannot be sent")
        if result.reason == BUFFER_SMALL:
            return CallOutcome(BUFFER_SMALL, reason="the answer has several parts, and one was asked for")
        how = "failed" if result.error else "returned"
        return CallOutcome(KEYEMPTY, reason=f"reflex {name} has {how} without an answer")

    def _send(self, sent: wire.NewMessageFacts) -> None:
        """Send a message back to the site of a message."""
        try:
            self._calls.send(sent.destination, self._content(sent.body, sent.headers.get("parts")))
        except Refused as refused:
            self._unpublished(f"its message to site {sent.destination} cannot be sent: {refused.detail}")

    def _unpublished(self, reason: str) -> None:
        self._step.statistics.unpublished += 1
        self._step.statistics.note(self._step.declaration, reason)

    def _content(self, body: bytes, lengths: str | None) -> ChannelContent:
        """The content that a function has sent. Raises Refused."""
        if len(body) > self._most_bytes:
            raise Refused(INVALID, f"it has {len(body):,} bytes; a message has at most {self._most_bytes:,}")
        return checked(body, lengths)


class FunctionHandlers:
    """The functions that are handlers now."""

    def __init__(self, calls: Calls, most_bytes: int) -> None:
        self._calls = calls
        self._most_bytes = most_bytes
        self._handlers: dict[ProcessStep, FunctionHandler] = {}

    def use(self, steps: Sequence[ProcessStep]) -> None:
        """Have these functions and no others as handlers."""
        self._calls.functions = [step.declaration.name for step in steps]
        for step in [step for step in self._handlers if step not in steps]:
            self._calls.remove(self._handlers.pop(step))
        for step in steps:
            if step not in self._handlers:
                handler = self._handlers[step] = FunctionHandler(step, self._calls, self._most_bytes)
                self._calls.add(handler)
