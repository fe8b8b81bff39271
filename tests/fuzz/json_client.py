"""A client that sends valid, nearly valid and invalid operations of `mom.v1.json`, and checks only what it
may receive."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import websockets
from websockets.asyncio.client import ClientConnection

from broker_app.net.json.operations import OPERATIONS
from tests.fuzz.rights import CANARY
from tests.fuzz.stomp_client import FILTERS, NAMES, NUMBERS, ODD, QUEUES, SELECTORS, TOPICS
from tests.support.broker_process import BrokerProcess
from tests.support.patience import patient

#: any value that no member should have
WRONG: list[Any] = [
    None,
    True,
    -1,
    0.5,
    10**30,
    "x" * 5_000,
    [],
    {},
    [[]] * 100,
    {"a": {}},
    "\ud83d\ude00",
    "\0",
]
#: what is no operation
GARBAGE = [
    b"{",
    b"[" * 5_000,
    b"{}" * 5_000,
    b'{"op":"ping"',
    b'{"op":' * 1_000,
    b'"' * 100,
    b"\xff{}",
    b"null",
]
SERVICES = [*(queue.removeprefix("/queue/") for queue in QUEUES), *NAMES]
IDS = "1234"


class JsonFuzz:
    """One user's connections, one after the other. `may_get` is whether a destination may be delivered to
    it."""

    def __init__(
        self,
        broker: BrokerProcess,
        user: str,
        password: str,
        random: Random,
        may_get: Callable[[str], bool],
    ) -> None:
        self._url = f"ws://{broker.host}:{broker.port}/ws"
        self._login = json.dumps({"op": "login", "login": user, "passcode": password})
        self._user = user
        self._random = random
        self._may_get = may_get
        self._receipts: list[str] = []
        self._seqs: list[int] = [1]
        self._registrations: list[str] = ["x"]
        self.broken: list[str] = []
        self.operations_sent = self.events_got = 0

    async def run(self) -> None:
        """Connect, talk and leave, for ever."""
        while True:
            with contextlib.suppress(OSError, TimeoutError, websockets.WebSocketException):
                async with asyncio.timeout(patient(20)):
                    await self._connection()
            await asyncio.sleep(0.02)

    async def _connection(self) -> None:
        protocols: Any = ["mom.v1.json"]
        link = await websockets.connect(self._url, subprotocols=protocols, max_size=None, close_timeout=1)
        try:
            async with link:
                await self._talk(link)
        finally:
            link.transport.abort()  # a close that is cancelled leaves it open

    async def _talk(self, link: ClientConnection) -> None:
        random = self._random
        self._receipts.clear()
        reading = asyncio.create_task(self._read(link))
        try:
            await link.send(self._login if random.random() < 0.97 else self._operations())
            for _ in range(random.randrange(1, 60)):
                await link.send(self._operations())
                await asyncio.sleep(random.choice([0, 0.005, 0.02, 0.05]))  # others have a turn, too
                if reading.done():
                    break
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _read(self, link: ClientConnection) -> None:
        async for text in link:
            if CANARY in str(text):
                self.broken.append(f"{self._user} has read the canary: {text!r:.1000}")
            event = json.loads(text)
            self.events_got += 1
            self._check(event)
            self._note(event)

    def _check(self, event: dict[str, Any]) -> None:
        for address in _addresses(event):
            if not self._may_get(address):
                self.broken.append(f"{self._user} got an event of {address}: {str(event)[:1000]}")

    def _note(self, event: dict[str, Any]) -> None:
        """Remember what later operations may be about."""
        for message in (event, *event.get("items", ())):
            if len(self._receipts) < 1_000 and "receipt" in message:
                self._receipts.append(message["receipt"])
        self._seqs = event.get("seqs") or self._seqs
        if event["op"] == "registered":
            self._registrations = [*self._registrations[-9:], event["id"]]

    # ------------------------------------------------------------------ its output

    def _operations(self) -> bytes:
        """Some operations as one message."""
        random = self._random
        found = [self._operation() for _ in range(random.choice([1, 1, 3, 30]))]
        if random.random() < 0.01:
            found.append(random.choice([*GARBAGE, random.randbytes(200)]))
        self.operations_sent += len(found)
        return b"\n".join(found)

    def _operation(self) -> bytes:
        random = self._random
        op = random.choice([*OPERATIONS, "subscribe", "subscribe", "receive", "ack"])
        members = self._members(op)
        if random.random() < 0.03:
            members[random.choice([*members, "x"])] = random.choice(WRONG)
        if random.random() < 0.2:
            members["ref"] = str(random.randrange(1000))
        return json.dumps({"op": op, **members}).encode()

    def _members(self, op: str) -> dict[str, Any]:
        random = self._random
        receipt = random.choice(self._receipts) if self._receipts and random.random() < 0.97 else "x"
        id = {"id": random.choice(IDS)}
        if op == "subscribe":
            return id | self._source() | self._some_of(self._of_subscription())
        if op == "receive":
            seqs = random.choices(self._seqs, k=random.choice([1, 1, 20, 1000]))
            return {"queue": self._queue(), "seqs": seqs} | self._some_of(
                {"lease_s": self._number(), "exact": True}
            )
        if op in ("ack", "nack", "extend"):
            more = {"ack": {}, "nack": {"delay_s": self._number(), "dead": True}}
            return {"receipt": receipt} | self._some_of(more.get(op, {"extend_s": self._number()}))
        if op == "answer":
            return {"call": receipt} | self._some_of({"body": "x", "body_base64": "eA==", "parts": [{}]})
        if op == "register":
            return {"service": random.choice(SERVICES)} | self._some_of(
                {
                    "machine": random.choice(NAMES),
                    "type": "t",
                    "events": ["e"],
                    "origin": {"urls": ["ws://h"]},
                }
            )
        if op == "deregister":
            return {"id": random.choice(self._registrations)}
        if op == "ping":
            return {}
        if op == "login":
            return {"login": random.choice(NAMES), "passcode": "x"}
        return id | {"credit": {"credit": self._number()}, "pending": {"after": self._number()}}.get(op, {})

    def _of_subscription(self) -> dict[str, Any]:
        random = self._random
        return {
            "mode": random.choice(["deliver", "notify", "notify", "x"]),
            "credit": random.choice([1, 100, self._number()]),
            "selector": random.choice(SELECTORS),
            "lease_s": self._number(),
            "durable": random.choice(["d", "e", "\u00fc"]),
            "from": random.choice(["first", "last", "seq:0", "seq:99", "time:0", "x"]),
            "after": random.choice([*self._seqs, "x", self._number()]),
        }

    def _source(self) -> dict[str, str]:
        if self._random.random() < 0.6:
            return {"queue": self._queue()}
        return {"topic": self._random.choice([*TOPICS, *FILTERS]).removeprefix("/topic/")}

    def _queue(self) -> str:
        usual = QUEUES if self._random.random() < 0.97 else ODD
        return self._random.choice(usual).removeprefix("/queue/")

    def _number(self) -> Any:
        text = self._random.choice(NUMBERS)
        return int(text) if text.lstrip("-").isdecimal() else text

    def _some_of(self, members: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in members.items() if self._random.random() < 0.3}


def _addresses(event: dict[str, Any]) -> Iterator[str]:
    """The destinations whose messages an event is about."""
    for message in (event, *event.get("items", ())):
        if event["op"] in ("message", "received") and "destination" in message:
            yield message["destination"]
    if event["op"] in ("arrived", "pending"):
        yield f"/queue/{event['queue']}"
