"""STOMP frames of message channels, as a client of any library would send them."""

from __future__ import annotations

from typing import NamedTuple

SUBSCRIBE = b"SUBSCRIBE\nid:h\ndestination:/topic/$channel.requests\nreceipt:s\n\n\0"
ANSWER = "/channel/$answer"


class Received(NamedTuple):
    """A frame that came."""

    command: str
    headers: dict[str, str]
    body: bytes


def received(frame: bytes) -> Received:
    head, _, body = frame.partition(b"\n\n")
    command, *lines = head.decode().split("\n")
    return Received(command, dict(line.split(":", 1) for line in lines), body)


def send(to: str, body: bytes = b"", receipt: str = "", **headers: str) -> bytes:
    """A SEND; underscores in names of headers are hyphens."""
    given = {"destination": to, **headers, **({"receipt": receipt} if receipt else {})}
    given["content-length"] = str(len(body))
    lines = "".join(f"{name.replace('_', '-')}:{value}\n" for name, value in given.items())
    return b"SEND\n%b\n%b\0" % (lines.encode(), body)


def request(to: str, body: bytes = b"", *, id: str = "1", receipt: str = "", **headers: str) -> bytes:
    """A SEND that asks for an answer with this correlation id."""
    asks = {"reply_to": "/temp-queue/answers", "correlation_id": id}
    return send(to, body, receipt, **asks, **headers)


def answer(call: Received, body: bytes = b"", receipt: str = "", **headers: str) -> bytes:
    """The SEND by which a handler answers."""
    return send(ANSWER, body, receipt, channel_call=call.headers["channel-call"], **headers)
