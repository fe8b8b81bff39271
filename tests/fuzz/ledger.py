"""A ledger of confirmed messages: each is received, once unless it is marked."""

from __future__ import annotations

import asyncio

import mom_client
from tests.fuzz.rights import LEDGER, PASSWORD
from tests.support.broker_process import BrokerProcess


class Ledger:
    """The confirmed and the received messages of a queue that no operator touches."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._address = f"stomp://{broker.host}:{broker.stomp_port}"
        self._seen: set[int] = set()
        self.confirmed: set[int] = set()
        self.received: set[int] = set()
        self.broken: list[str] = []
        self.stop = asyncio.Event()

    async def produce(self) -> None:
        async with mom_client.connect(self._address, login="keeper", passcode=PASSWORD) as client:
            number = 0
            while not self.stop.is_set():
                await client.send(f"/queue/{LEDGER}", b"%d" % number)
                self.confirmed.add(number)
                number += 1

    async def consume(self) -> None:
        async with (
            mom_client.connect(self._address, login="keeper", passcode=PASSWORD) as client,
            client.subscribe(f"/queue/{LEDGER}") as messages,
        ):
            async for message in messages:
                number = int(message.body)
                if number in self._seen and message.headers.get("redelivered") != "true":
                    self.broken.append(f"message {number} came twice and does not say so")
                self._seen.add(number)
                await message.ack()
                self.received.add(number)
