"""Numbered messages, and the account of what became of them on the way through two brokers."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, Protocol

import mom_client
from tests.support.awaiting import until
from tests.support.node_process import NodeProcess

#: seconds between the windows of a sender: at full speed, brokers compute as long as a test takes
PAUSE_S = 0.01 if "SOAK" in os.environ else 0.1


class Broker(Protocol):
    """The server that clients connect to: a `BrokerProcess` or a `NodeProcess`."""

    @property
    def host(self) -> str: ...
    @property
    def stomp_port(self) -> int: ...
    @property
    def user(self) -> str: ...
    @property
    def password(self) -> str: ...


def client(broker: Broker, /, **options: Any) -> mom_client.Client:
    """A client that does not come back by itself, since it would send again what had no receipt."""
    address = f"stomp://{broker.host}:{broker.stomp_port}"
    login = {"login": broker.user, "passcode": broker.password}
    return mom_client.connect(address, **{"reconnect": False, **login, **options})


@contextlib.contextmanager
def broker_may_end() -> Iterator[None]:
    """Passes over what clients raise when their broker is killed, stops or is away."""
    try:
        yield
    except (mom_client.ConnectionLost, OSError):
        pass
    except mom_client.Refused as refused:
        if refused.code != "not-active":
            raise


class Account:
    """The messages of one queue, in the order in which they were sent, from 0.

    A message is promised when its receipt came. A sender continues with the next number when a connection
    breaks, so a number is in the first broker once, or not at all.
    """

    def __init__(self, destination: str, *, padding: int = 0) -> None:
        self.destination = destination
        self.sent = 0
        self.promised: set[int] = set()
        self.arrived: list[int] = []
        self._padding = b"." * padding

    def body(self, number: int) -> bytes:
        return b"%d:" % number + self._padding

    async def send(self, count: int, sender: mom_client.Client, *, window: int = 500, **options: Any) -> None:
        """Send `count` more; returns when the receipts are there. Raises what a send raises."""
        until = self.sent + count
        while self.sent < until:
            numbers = range(self.sent, min(until, self.sent + window))
            self.sent = numbers.stop
            answers = [sender.send_nowait(self.destination, self.body(one), **options) for one in numbers]
            found = await asyncio.gather(*answers, return_exceptions=True)
            self.promised.update(one for one, error in zip(numbers, found, strict=True) if error is None)
            for error in found:
                if error is not None:
                    raise error

    async def send_for_ever(
        self, broker: Broker, *, window: int = 20, pause_s: float = 0.0, **options: Any
    ) -> None:
        """Send until cancelled, through all that happens to the broker."""
        while True:
            with broker_may_end():
                async with client(broker) as sender:
                    while True:
                        await self.send(window, sender, window=window, **options)
                        await asyncio.sleep(pause_s)
            await asyncio.sleep(0.01)

    async def drain(
        self,
        broker: Broker,
        queue: str,
        *,
        quiet_s: float = 1.0,
        timeout_s: float = 60.0,
        check: Callable[[int, mom_client.Message], None] = lambda number, message: None,
    ) -> None:
        """Take all that comes to a queue, until everything promised is there and nothing more comes for
        `quiet_s`. `check` looks at each message."""
        async with client(broker) as receiver, receiver.subscribe(f"/queue/{queue}", ack="auto") as messages:
            missing = self.promised.difference(self.arrived)
            with contextlib.suppress(mom_client.Timeout):
                while True:
                    message = await messages.get(timeout_s if missing else quiet_s)
                    number = int(message.body.split(b":", 1)[0])
                    check(number, message)
                    self.arrived.append(number)
                    missing.discard(number)

    def faults(self) -> list[str]:
        """The errors, in words: losses, repeats and disorder. Empty when each came once, in order."""
        times = Counter(self.arrived)
        lost = sorted(self.promised.difference(times))
        repeated = sorted(number for number, count in times.items() if count > 1)
        behind = [pair for pair in zip(self.arrived, self.arrived[1:], strict=False) if pair[1] < pair[0]]
        found = []
        if lost:
            found.append(f"{len(lost)} of {len(self.promised)} promised were lost, among them {lost[:5]}")
        if repeated:
            found.append(f"{len(repeated)} came more than once, among them {repeated[:5]}")
        if behind:
            found.append(f"{len(behind)} came behind a later one, as {behind[:3]} (earlier, later)")
        return found


async def grown(accounts: Sequence[Account], by: int) -> None:
    """Wait until so many more messages of each are promised, however slow the machine is."""
    wanted = [(one, len(one.promised) + by) for one in accounts]
    await until(lambda: all(len(one.promised) >= number for one, number in wanted), 60)


async def check_counters(home: NodeProcess, bridge: str) -> None:
    """Check that the counters of a bridge's flows add up since the node started, without a gap."""
    async with home.rest() as rest:
        reply = await rest.get(f"/bridges/{bridge}/status")
        flows = reply.raise_for_status().json()["flows"]
    assert flows
    for flow in flows:
        answered = flow["accepted"] + flow["refused"] + flow["unanswered"]
        assert flow["sent"] == answered + flow["in_flight"], flow
        assert flow["gap"] == 0, flow


@contextlib.asynccontextmanager
async def working(*actions: Any) -> AsyncIterator[None]:
    """Coroutines that run for the length of a `with` block and are cancelled at its end. Raises what one of
    them raised."""
    tasks = [asyncio.ensure_future(action) for action in actions]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    for error in ended:
        if isinstance(error, Exception):
            raise error
