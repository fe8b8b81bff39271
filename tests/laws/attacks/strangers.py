"""Inputs from servers of strangers: the answers of receivers of webhooks, and frames of brokers at the other
end of bridges."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable

from broker_app.base.system_topics import REFUSED_SUBSCRIPTION
from broker_app.features.bridge.remote import Remote
from broker_app.features.callbacks.webhooks.callback import Callback
from broker_app.features.callbacks.webhooks.signature import new_secret
from tests.callback.webhooks.receiver import Received, answer, receiver
from tests.laws.attacks.senders import USER, filled, over_tcp
from tests.support.awaiting import until
from tests.support.hostile_answers import ANSWERS
from tests.support.node_process import NodeProcess

#: exchanges with a receiver, and the queues that are forwarded over a bridge
EXCHANGES, FLOWS = 10, 50
CONNECTED = b"CONNECTED\nversion:1.2\nserver:x\n"
#: a client of a MOM, and of another broker
MOM, FOREIGN = CONNECTED + b"mom-bridge:1\n\n\0", CONNECTED + b"\n\0"
PROBLEM = json.dumps({"type": "/docs/problems/#full", "status": 503, "detail": "x" * 200}).encode()
DEEP = b'{"a":' * 10_000


def _message(number: int, body: bytes, *lines: bytes) -> bytes:
    head = b"".join(line + b"\n" for line in (b"MESSAGE", b"message-id:%d" % number, *lines))
    return head + b"content-length:%d\n\n%b\0" % (len(body), body)


def _refusal(body: bytes) -> Callable[[int], bytes]:
    subscription = b"subscription:" + REFUSED_SUBSCRIPTION.encode()
    return lambda n: _message(n, body, subscription, b"receipt-id:f%d" % n)


#: how a remote broker accepts the client, and what it sends then, again and again
SENT: dict[str, tuple[bytes, Callable[[int], bytes]]] = {
    "receipts of nothing": (MOM, lambda n: b"RECEIPT\nreceipt-id:%d\n\n\0" % n),
    "receipts of another broker": (FOREIGN, lambda n: b"RECEIPT\nreceipt-id:%d\n\n\0" % n),
    "receipts in other words": (FOREIGN, lambda n: b"RECEIPT\nreceipt-id:%d\nx:y\n\n\0" % n),
    "positions": (MOM, lambda n: _message(n, b"", b"subscription:f1", b"accepted:%d" % n, b"count:1")),
    "refusals": (MOM, _refusal(PROBLEM)),
    "refusals with nested JSON": (MOM, _refusal(DEEP)),
    "messages": (MOM, lambda n: _message(n, b"x")),
    "large messages": (MOM, lambda n: _message(n, bytes(60_000))),
    "header lines": (
        MOM,
        lambda n: b"MESSAGE\n" + b"".join(b"h%d:\n" % i for i in range(80)) + b"\n\0",
    ),
    "escapes": (MOM, lambda n: b"MESSAGE\na:%b\n\n\0" % (b"\\c" * 2_000)),
    "heart-beats": (MOM, lambda n: b"\n" * 1_000),
    "an endless greeting": (b"CONNECTED\n", lambda n: b"h%d:x\n" % n),
    "refused logins": (b"", lambda n: b"ERROR\nmessage:no\n\n%b\0" % (b"x" * 1_000)),
    "no STOMP": (b"", lambda n: b"220 mail.example.org\r\n"),
}


@contextlib.asynccontextmanager
async def hostile_receiver(kind: str, *, when_asked: bool = False) -> AsyncIterator[tuple[str, list[int]]]:
    """The URL of a receiver that answers so, and the sizes of what it was sent; `when_asked` it answers so
    already when it is asked whether it agrees to be called."""
    async with receiver() as there:
        sizes: list[int] = []

        async def behave(request: Received, writer: asyncio.StreamWriter) -> None:
            sizes.append(len(request.body))
            writer.write(ANSWERS[kind])
            await writer.drain()
            writer.close()

        there.behavior = behave
        there.on_options = behave if when_asked else answer(200, webhook_allowed_origin="*")
        yield there.url, sizes


def callback_to(url: str) -> Callback:
    """A callback of the ordinary user."""
    return Callback(
        "hook",
        url,
        owner=USER,
        queue="a",
        secret=new_secret(),
        timeout_s=5.0,
        retry_s=0.01,
        max_retry_s=0.01,
        max_in_flight=10,
    )


async def pushes(node: NodeProcess, sizes: list[int], least: int) -> str:
    """Send messages that are pushed, until the receiver was called so often."""
    await over_tcp(node, b"SEND\ndestination:/queue/a\n\nx\0" * EXCHANGES)
    await until(lambda: len(sizes) >= least)
    await asyncio.sleep(0.5)  # what was answered is read
    return f"{len(sizes)} exchanges"


@contextlib.asynccontextmanager
async def hostile_broker(kind: str) -> AsyncIterator[tuple[Remote, list[int]]]:
    """A bridge to a broker that sends so, and how often it was connected to."""
    accepts, each = SENT[kind]
    sent = accepts + filled(each)
    connections: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(1)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\0")
            writer.write(sent)
            await writer.drain()
            while await reader.read(1 << 18):  # what the flows send
                pass
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        yield Remote("b", "127.0.0.1", port=port, retry_s=0.1, scan_s=1.0, stalled_s=5.0), connections


async def forwards(node: NodeProcess, connections: list[int]) -> str:
    """Send messages that are to be forwarded, until the other broker was connected to."""
    frames = (b"SEND\ndestination:/queue/storeAndForward:b/queue/q%d\n\nx\0" % n for n in range(FLOWS))
    await over_tcp(node, b"".join(frames))
    await until(lambda: bool(connections))
    await asyncio.sleep(2.0)  # what it sent is read
    return f"{len(connections)} connections"
