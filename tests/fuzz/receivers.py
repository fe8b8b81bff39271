"""Callbacks of one user, and the receiver that they push to, which answers what no receiver should."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from random import Random

import httpx

from tests.callback.webhooks.receiver import Behavior, Received, answer, babble, receiver, reset
from tests.fuzz.broker_watch import credentials
from tests.fuzz.rights import CANARY
from tests.support.broker_process import BrokerProcess
from tests.support.hostile_answers import ANSWERS

#: what the callbacks of each user are of
SOURCES = ({"queue": "open.a"}, {"topic": "open.>"}, {"queue": "dora.a"}, {"queue": "secret.queue"})
SPEC = {"timeout_s": 5, "retry_s": 0.05, "max_retry_s": 0.2, "max_in_flight": 20}
#: answers that a receiver may give
PLAIN: list[Behavior] = [
    answer(204),
    answer(200, b"x" * 100_000),
    answer(410),
    answer(500, b"\0<b>" * 9_999),
]


class ReceiverFuzz:
    """`may_get` is whether a message of a destination may be pushed to a callback of the user."""

    def __init__(
        self,
        broker: BrokerProcess,
        user: str,
        password: str,
        random: Random,
        may_get: Callable[[str], bool],
    ) -> None:
        self._url = f"{broker.url}/api/v1"
        self._credentials = credentials(user, password)
        self._user = user
        self._random = random
        self._may_get = may_get
        self.broken: list[str] = []
        self.pushes = 0

    async def run(self) -> None:
        """Have callbacks, and have them push again whatever has come of it, for ever."""
        async with (
            receiver() as there,
            httpx.AsyncClient(base_url=self._url, headers=self._credentials, timeout=60) as rest,
        ):
            there.behavior, there.on_options = self._take, self._agree
            while not self.broken:
                number = self._random.randrange(len(SOURCES))
                spec = {**SPEC, **SOURCES[number], "url": there.url}
                spec |= {"mode": self._random.choice(["deliver", "deliver", "notify"])}
                with contextlib.suppress(httpx.TransportError):  # the watch shows whether the broker is there
                    await self._act(rest, f"{self._user}-{number}", spec)
                there.received.clear()
                there.all.clear()
                await asyncio.sleep(self._random.choice([0.05, 0.2, 0.5]))

    async def _act(self, rest: httpx.AsyncClient, name: str, spec: dict[str, object]) -> None:
        if self._random.random() < 0.1:
            await rest.delete(f"/callbacks/{name}", headers={"if-match": "*"})
        reply = await rest.post(f"/callbacks/{name}/push")
        if reply.status_code == 404:
            reply = await rest.put(f"/callbacks/{name}", json=spec)
        if reply.status_code >= 500 and reply.status_code != 503:
            self.broken.append(f"{self._user}: {name}: {reply.status_code} {reply.text[:2000]}")

    async def _agree(self, request: Received, writer: asyncio.StreamWriter) -> None:
        agrees = answer(200, webhook_allowed_origin="*")
        await (agrees if self._random.random() < 0.8 else self._hostile)(request, writer)

    async def _take(self, request: Received, writer: asyncio.StreamWriter) -> None:
        self.pushes += 1
        headers = request.headers
        kind = "queue" if "mom-queue" in headers else "topic"
        address = f"/{kind}/{headers.get(f'mom-{kind}')}"
        if not self._may_get(address) or CANARY.encode() in request.body:
            self.broken.append(f"{self._user} was pushed a message of {address}: {request.body[:1000]!r}")
        behavior = self._random.choice([*PLAIN, babble, reset, _hang, *[self._hostile] * 5])
        await behavior(request, writer)

    async def _hostile(self, _: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(ANSWERS[self._random.choice([*ANSWERS])])
        await writer.drain()
        writer.close()


async def _hang(_: Received, writer: asyncio.StreamWriter) -> None:
    """Answer nothing for as long as it is waited for."""
    await asyncio.sleep(6.0)
    writer.close()
