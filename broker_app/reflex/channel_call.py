"""A call of a message channel, as a function of a library gets it: with the names of `mom_client`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from mom_client.channel_errors import EINVAL
from mom_client.channel_parts import Part, joined, parts_of


class CallParts(NamedTuple):
    """A body, and the lengths of its parts; None for one part."""

    body: bytes
    lengths: str | None

    @property
    def number(self) -> int:
        """The number of parts."""
        return len(parts_of(*self))

    @property
    def headers(self) -> dict[str, str]:
        """The header with the lengths, if there is any."""
        return {"parts": self.lengths} if self.lengths is not None else {}


class ResponseChannel:
    """The channel of one call: for the answer to a request, or for messages back to its site. What is sent
    leaves when the function has returned."""

    def __init__(self, site: str, *, need_response: bool, multiple: bool) -> None:
        #: the site that has sent the call
        self.site = site
        self._need_response = need_response
        self._multiple = multiple
        self._is_ended = False
        self.answer: CallParts | None = None
        #: whether the answer had several parts, and one was asked for
        self.is_too_small = False
        #: to the site, which has asked for no answer
        self.messages: list[CallParts] = []

    def send_msg(self, parts: Iterable[Part]) -> None:
        """Answer the request, once; or send a message back to a site that asked for no answer."""
        if self._is_ended:
            raise EINVAL("the handler has returned: its channel has ended")
        sent = CallParts(*joined(parts))
        if not self._need_response:
            self.messages.append(sent)
            return
        if self.answer is not None or self.is_too_small:
            raise EINVAL("this request was answered before")
        if sent.number > 1 and not self._multiple:
            self.is_too_small = True
            raise EINVAL(
                f"the answer has {sent.number} parts, and one was asked for: the request needs multiple for "
                "that"
            )
        self.answer = sent

    def end(self) -> None:
        """The function has returned."""
        self._is_ended = True

    def close(self) -> None:
        """Refused: it belongs to the broker."""
        raise EINVAL("a handler does not close its channel: it ends when the handler returns")

    def set_timeout(self, timeout_s: float) -> None:
        """Refused: nothing waits on it."""
        raise EINVAL("the channel of a handler has no time limit")

    def send_request(self, parts: Iterable[Part], timeout_s: float = 0) -> None:
        """Refused: a function within the broker opens no channels."""
        raise EINVAL("the channel of a handler sends no requests: open one to the site, in an application")


class ChannelCall(NamedTuple):
    """The arguments of a handler."""

    channel: ResponseChannel
    parts: list[bytes]
    need_response: bool


class Handled(NamedTuple):
    """The end of a call: the channel with what was sent on it, and the exception that was raised, if any."""

    channel: ResponseChannel
    error: Exception | None
