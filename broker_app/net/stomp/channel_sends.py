"""SEND frames to applications at sites: `/channel/SITE`, `/channel/$master`, and `/channel/$answer`."""

from __future__ import annotations

from functools import partial
from typing import Final, NamedTuple

from broker_app.base.refused import Refused
from broker_app.features.channels.content import checked
from broker_app.features.channels.requests import DEFAULT_TIMEOUT_MS, MAX_TIMEOUT_MS
from broker_app.features.channels.statuses import OK
from broker_app.net.stomp.conversation import Conversation
from mom_client.stomp.frame import Headers

PREFIX: Final = "/channel/"
_ANSWER: Final = "$answer"
_FLAGS: Final = {"true": True, "false": False}


class ChannelSend(NamedTuple):
    """The meaning of the headers of such a SEND, but for ids. A request has `reply_to`."""

    site: str
    lengths: str | None
    opens: bool = False
    reply_to: str = ""
    timeout_ms: int = DEFAULT_TIMEOUT_MS
    multiple: bool = False
    status: str = OK

    @property
    def is_answer(self) -> bool:
        """True for the answer of a handler."""
        return self.site == _ANSWER


def is_channel(given: Headers) -> bool:
    """Return whether a SEND is for a site."""
    return given.get("destination", "").startswith(PREFIX)


def plan(given: Headers) -> ChannelSend:
    """The meaning of the headers. Raises Refused."""
    if "transaction" in given:
        raise Refused("unsupported", "what is sent to a site is not stored: it is in no transaction")
    site, lengths = given["destination"].removeprefix(PREFIX), given.get("parts")
    if site == _ANSWER:
        if not given.get("channel-call"):
            raise Refused("invalid", "header channel-call is missing; an answer has that of its request")
        return ChannelSend(site, lengths, status=given.get("channel-status", OK))
    reply_to = given.get("reply-to", "")
    if not reply_to:
        return ChannelSend(site, lengths, _flag(given, "channel-open"))
    if not reply_to.startswith("/temp-queue/"):
        raise Refused("invalid", f"header reply-to is {reply_to[:80]!r}; it must be a temporary queue")
    if not given.get("correlation-id"):
        raise Refused("invalid", "header correlation-id is missing; the answer will have it")
    return ChannelSend(
        site,
        lengths,
        reply_to=reply_to,
        timeout_ms=_timeout_ms(given),
        multiple=_flag(given, "multiple"),
    )


def send(conversation: Conversation, planned: ChannelSend, given: Headers, body: bytes) -> None:
    """Hand over what a client has sent. Raises Refused; a request is answered in any case."""
    channels = conversation.sessions.channels
    if planned.opens:
        channels.check(planned.site)
        return
    content = checked(body, planned.lengths)
    if planned.is_answer:
        channels.answer(conversation.peer, given["channel-call"], planned.status, content)
    elif planned.reply_to:
        answered = partial(channels.publisher.reply, planned.reply_to, given["correlation-id"])
        channels.request(planned.site, content, planned.timeout_ms, answered, multiple=planned.multiple)
    else:
        channels.send(planned.site, content)


def _flag(given: Headers, name: str) -> bool:
    value = given.get(name, "false")
    if value not in _FLAGS:
        raise Refused("invalid", f"header {name} is {value[:40]!r}; it must be true or false")
    return _FLAGS[value]


def _timeout_ms(given: Headers) -> int:
    value = given.get("timeout-ms", "0")
    if not (value.isascii() and value.isdigit()) or len(value) > 10 or int(value) > MAX_TIMEOUT_MS:
        raise Refused(
            "invalid",
            f"header timeout-ms is {value[:40]!r}; it must be a number from 0, which is the default of "
            f"{DEFAULT_TIMEOUT_MS}, to {MAX_TIMEOUT_MS}",
        )
    return int(value) or DEFAULT_TIMEOUT_MS
