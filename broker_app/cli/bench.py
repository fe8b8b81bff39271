"""`mom bench`: measures a broker from outside, with as many connections as wanted in one process."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from broker_app.cli import invocation
from broker_app.cli.destinations import address

if TYPE_CHECKING:
    import asyncio

    from broker_app.cli.contexts import Target
    from mom_client import Client, Subscription

app = typer.Typer(
    no_args_is_help=True,
    help="Measure a broker. With --url stomp://host:port the way is TCP; with a web address it is WebSocket.",
)

_COLUMNS = (
    "workload",
    "messages",
    "size",
    "clients",
    "seconds",
    "rate",
    "p50_ms",
    "p95_ms",
    "p99_ms",
    "max_ms",
)
_STAMP_BYTES = 8
_SCALES = {"k": 1_000, "m": 1_000_000}


def _number(text: str) -> int:
    scale = _SCALES.get(text[-1:].lower(), 1)
    digits = text[:-1] if scale > 1 else text
    if not digits.isdecimal() or not int(digits):
        raise typer.BadParameter(f"{text!r} is no number of messages such as 5000, 100k or 1M")
    return int(digits) * scale


_Destination = Annotated[
    str, typer.Argument(metavar="QUEUE", help="where the messages go; best an empty queue")
]
_Messages = Annotated[int, typer.Option(parser=_number, metavar="NUMBER", help="messages in all, like 100k")]
_Size = Annotated[int, typer.Option(min=_STAMP_BYTES, help="bytes of a body")]
_Clients = Annotated[int, typer.Option(min=1, help="connections for each side")]
_Window = Annotated[int, typer.Option(min=1, help="unconfirmed messages of a producer at most")]
_Credit = Annotated[int, typer.Option(min=1, help="unsettled messages of a consumer at most")]


@app.command()
def pub(
    ctx: typer.Context,
    destination: _Destination = "bench",
    msgs: _Messages = "20k",  # type: ignore[assignment]  # the parser makes the number
    size: _Size = 256,
    clients: _Clients = 1,
    window: _Window = 256,
) -> None:
    """Send. The times are those from sending to the receipt."""
    _run(ctx, Load("pub", address(destination), msgs, size, clients, window=window))


@app.command()
def sub(
    ctx: typer.Context,
    destination: _Destination = "bench",
    msgs: _Messages = "20k",  # type: ignore[assignment]  # the parser makes the number
    clients: _Clients = 1,
    credit: _Credit = 256,
) -> None:
    """Receive and acknowledge what `mom bench pub` has sent. There are no times, only the rate."""
    _run(ctx, Load("sub", address(destination), msgs, None, clients, credit=credit))


@app.command()
def e2e(
    ctx: typer.Context,
    destination: _Destination = "bench",
    msgs: _Messages = "20k",  # type: ignore[assignment]  # the parser makes the number
    size: _Size = 256,
    clients: _Clients = 1,
    window: _Window = 256,
    credit: _Credit = 256,
) -> None:
    """Send and receive at once. The times are those from sending to receiving."""
    _run(ctx, Load("e2e", address(destination), msgs, size, clients, window=window, credit=credit))


def _run(ctx: typer.Context, load: Load) -> None:
    import asyncio

    import uvloop

    given = invocation.of(ctx)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        seconds = runner.run(load.run(given.target()))
    given.output.rows(_COLUMNS, [load.result(seconds)])


@dataclass(slots=True)
class Load:
    """One measurement: `clients` producers with `window`, or consumers with `credit`, or as many of both."""

    workload: str
    where: str
    messages: int
    size: int | None
    clients: int
    window: int = 0
    credit: int = 0
    #: seconds that each message took
    delays: list[float] = field(default_factory=list)

    async def run(self, target: Target) -> float:
        """Connect, then send and receive everything; the seconds that took. Raises Failure."""
        import asyncio
        from contextlib import AsyncExitStack

        from broker_app.cli import wire

        async with AsyncExitStack() as stack:

            async def clients(count: int) -> list[Client]:
                return [await stack.enter_async_context(wire.connect(target)) for _ in range(count)]

            producers = await clients(self.clients if self.window else 0)
            subscriptions = [
                await stack.enter_async_context(client.subscribe(self.where, credit=self.credit))
                for client in await clients(self.clients if self.credit else 0)
            ]
            began = time.monotonic()
            try:
                async with asyncio.TaskGroup() as group:
                    for index, client in enumerate(producers):
                        # The first ones take what does not divide evenly.
                        share = (self.messages + self.clients - 1 - index) // self.clients
                        group.create_task(self._produce(client, share))
                    if subscriptions:
                        await self._consume(subscriptions, group)
            except ExceptionGroup as errors:
                raise errors.exceptions[0] from None
            return time.monotonic() - began

    async def _produce(self, client: Client, count: int) -> None:
        """Send `count` messages, at most `window` of them unconfirmed."""
        from collections import deque
        from functools import partial

        assert self.size is not None
        padding = bytes(self.size - _STAMP_BYTES)
        waiting: deque[asyncio.Future[None]] = deque()
        for _ in range(count):
            sent = time.monotonic_ns()
            receipt = client.send_nowait(self.where, sent.to_bytes(_STAMP_BYTES, "big") + padding)
            assert receipt is not None, "a confirmed send has a receipt"
            if not self.credit:
                receipt.add_done_callback(partial(self._confirmed, sent))
            waiting.append(receipt)
            if len(waiting) >= self.window:
                await waiting.popleft()
        for receipt in waiting:
            await receipt

    def _confirmed(self, sent_ns: int, receipt: asyncio.Future[None]) -> None:
        self.delays.append((time.monotonic_ns() - sent_ns) / 1e9)

    async def _consume(self, subscriptions: list[Subscription], group: asyncio.TaskGroup) -> None:
        """Receive until all consumers together have had all messages."""
        import asyncio

        finished = asyncio.Event()
        left = self.messages

        async def take(messages: Subscription) -> None:
            nonlocal left
            async for message in messages:
                if self.window:
                    sent = int.from_bytes(message.body[:_STAMP_BYTES], "big")
                    self.delays.append((time.monotonic_ns() - sent) / 1e9)
                await message.ack()
                left -= 1
                if left <= 0:
                    finished.set()
                    return

        tasks = [group.create_task(take(messages)) for messages in subscriptions]
        await finished.wait()
        for task in tasks:
            task.cancel()

    def result(self, seconds: float) -> dict[str, Any]:
        """One row of figures."""
        row: dict[str, Any] = {
            "workload": self.workload,
            "messages": self.messages,
            "size": self.size,
            "clients": self.clients,
            "seconds": round(seconds, 3),
            "rate": round(self.messages / seconds),
        }
        if self.delays:
            ordered = sorted(self.delays)
            for name, share in (("p50_ms", 0.50), ("p95_ms", 0.95), ("p99_ms", 0.99), ("max_ms", 1.0)):
                row[name] = round(1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))], 3)
        return row
