"""Calls to the master while it moves: each is answered, times out or is unknown, and none is made twice."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import Counter

import mom_client
from mom_client import channels as ch
from tests.support.awaiting import until
from tests.support.broker_process import BrokerProcess

#: of a call; those that wait for an answer of a broker that was killed end with it
TIMEOUT_S = 3.0
#: seconds after an answer until the next call of a caller
_PAUSE_S = 0.0 if "SOAK" in os.environ else 0.02
#: a call that may have been made, and whose answer is not known
UNKNOWN = (ch.DB_TIMEOUT, ch.DB_REP_UNAVAIL, ch.DB_NOSERVER)


async def environment(
    broker: BrokerProcess, handler: ch.Handler | None = None, *, uri: str = "", site: str | None = None
) -> ch.Environment:
    """An environment at a broker, or at those of a failover URI, which has started. At one broker it stays:
    elsewhere it would belong to another site."""
    env = await mom_client.environment(
        uri or f"static:(stomp://127.0.0.1:{broker.stomp_port})",
        site=site,
        login=broker.user,
        passcode=broker.password,
    )
    if handler is not None:
        await env.repmgr_msg_dispatch(handler)
    await env.repmgr_start()
    return env


class Calls:
    """The calls of one application to the master, and what the handlers saw of them, by the name of each."""

    def __init__(self) -> None:
        self._next = 0
        self.handled: Counter[bytes] = Counter()
        self.by_handler: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()

    def handler(self, name: str = "") -> ch.Handler:
        """A handler, which answers with the number of the call."""

        async def handle(channel: ch.ResponseChannel, parts: list[bytes], need_response: bool) -> None:
            (number,) = parts
            self.handled[number] += 1
            self.by_handler[name] += 1
            with contextlib.suppress(ch.EINVAL):  # the broker that asked has ended
                await channel.send_msg([b"answer to " + number])

        return handle

    async def answered(self, more: int) -> None:
        """Wait until so many more calls are answered."""
        wanted = self.outcomes["answered"] + more
        await until(lambda: self.outcomes["answered"] >= wanted, 30)

    async def answered_by(self, name: str) -> None:
        """Wait until a handler has got one more call."""
        before = self.by_handler[name]
        await until(lambda: self.by_handler[name] > before, 30)

    async def make(self, channel: ch.Channel, stop: asyncio.Event) -> None:
        """Make one call after the other, until `stop`."""
        while not stop.is_set():
            self._next += 1
            number = str(self._next).encode()
            try:
                answer = await channel.send_request([number], timeout_s=TIMEOUT_S)
            except UNKNOWN as error:
                self.outcomes[type(error).__name__] += 1
                await asyncio.sleep(0.02)
            else:
                assert answer == b"answer to " + number, "the answer of another call"
                assert self.handled[number] == 1
                self.outcomes["answered"] += 1
                await asyncio.sleep(_PAUSE_S)
