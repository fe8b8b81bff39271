"""Rights, limits and users that change while fifty clients are at work with a real broker."""

from __future__ import annotations

import asyncio
import base64
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, NamedTuple

import httpx
import pytest

import mom_client
from mom_client import Refused
from tests.support.broker_process import BrokerProcess
from tests.support.chance import rounds
from tests.support.patience import patient

USERS = [f"u{number}" for number in range(5)]
PASSWORD = "correct horse battery"
#: sends of one client that have no answer yet
WINDOW = 4
#: sends of each client between two changes
ATTEMPTS = len(rounds(8, 20))


class Attempt(NamedTuple):
    """One send: when it began and was answered, and whether it was accepted."""

    began: float
    ended: float
    accepted: bool


class Change(NamedTuple):
    """A change that was asked for and confirmed: whose right to send it was, and whether they have it now."""

    asked: float
    confirmed: float
    users: tuple[str, ...]
    may: bool


class Producer:
    """A client that sends without rest. `send` raises Refused."""

    def __init__(self, user: str, send: Callable[[str, str], Awaitable[object]], window: int) -> None:
        self.user = user
        self.attempts: list[Attempt] = []
        self._send = send
        self._window = window
        self._numbers = itertools.count()

    async def work(self, stop: asyncio.Event) -> None:
        await asyncio.gather(*(self._loop(stop) for _ in range(self._window)))

    async def _loop(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            began = time.monotonic()
            try:
                await self._send(f"load.{self.user}", f"{next(self._numbers)}")
                accepted = True
            except Refused as refused:
                if refused.code != "not-allowed":
                    raise
                accepted = False
            self.attempts.append(Attempt(began, time.monotonic(), accepted))


class Consumer:
    """A client that takes what comes for its user, and asks again when its subscription was ended."""

    def __init__(self, user: str, mom: mom_client.Client) -> None:
        self.user = user
        self.mom = mom
        self.refusals = 0

    async def work(self) -> None:
        address = f"/queue/load.{self.user}"
        while True:
            try:
                async with self.mom.subscribe(address, ack="client-individual") as messages:
                    async for message in messages:
                        await message.ack()
            except Refused as refused:
                if refused.code != "not-allowed":
                    raise
                self.refusals += 1
                await asyncio.sleep(0.05)


class Load:
    """All clients at once."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker
        self.producers: list[Producer] = []
        self.consumers: list[Consumer] = []
        self.clients: list[mom_client.Client] = []
        self.changes: list[Change] = []

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """PUT creates a new resource; PATCH and DELETE need one that exists, of any version."""
        headers = headers or {"if_none_match" if method == "PUT" else "if_match": "*"}
        request = partial(self.broker.request, method, f"/api/v1{path}", None, json_body=body, **headers)
        reply = await asyncio.to_thread(request)
        assert reply.status < 400, reply.body
        return reply.json() if reply.body else None

    async def change(self, method: str, path: str, body: Any, *users: str, may: bool) -> None:
        """Ask for a change, after which these users may send, or not."""
        asked = time.monotonic()
        await self.ask(method, path, body)
        self.changes.append(Change(asked, time.monotonic(), users, may))

    async def go_on(self) -> None:
        """Wait until each producer has tried so many times more."""
        wanted = [len(producer.attempts) + ATTEMPTS for producer in self.producers]
        async with asyncio.timeout(patient(60)):
            while any(
                len(producer.attempts) < most for producer, most in zip(self.producers, wanted, strict=True)
            ):
                await asyncio.sleep(0.01)

    def may_have_been(self, user: str, attempt: Attempt) -> set[bool]:
        """The answers that are right for an attempt."""
        state, answers = True, set[bool]()
        for change in [change for change in self.changes if user in change.users]:
            if attempt.ended < change.asked:
                break
            if attempt.began <= change.confirmed:  # it was asked for meanwhile
                answers.add(state)
            else:
                answers.clear()
            state = change.may
        return answers | {state}


@pytest.fixture
async def load(broker: BrokerProcess) -> AsyncIterator[Load]:
    """Fifty clients of five users that may use `load.…` because of their group."""
    load = Load(broker)
    await load.ask("PUT", "/groups/workers", {})
    for user in USERS:
        await load.ask(
            "PUT", f"/users/{user}", {"groups": ["workers"], "password": PASSWORD}, if_none_match="*"
        )
    rule = {"conditions": r"/event/queue =~ 'load\..*'", "groups": ["workers"], "position": 10}
    await load.ask("PUT", "/rules/workers", rule)
    async with AsyncExitStack() as stack:

        async def client(user: str, url: str) -> mom_client.Client:
            made = mom_client.connect(url, login=user, passcode=PASSWORD, reconnect=False)
            load.clients.append(await stack.enter_async_context(made))
            return made

        tcp = f"stomp://127.0.0.1:{broker.stomp_port}"
        websocket = f"ws://127.0.0.1:{broker.port}/ws"
        for user in USERS:
            for url in (*[tcp] * 5, *[websocket] * 2):
                mom = await client(user, url)
                load.producers.append(Producer(user, _by_stomp(mom), WINDOW))
            rest = await stack.enter_async_context(httpx.AsyncClient(base_url=broker.url, trust_env=False))
            load.producers.append(Producer(user, _by_rest(rest, user), 1))
            load.consumers += [Consumer(user, await client(user, url)) for url in (tcp, websocket)]
        yield load


def _by_stomp(mom: mom_client.Client) -> Callable[[str, str], Awaitable[object]]:
    return lambda queue, body: mom.send(f"/queue/{queue}", body)


def _by_rest(rest: httpx.AsyncClient, user: str) -> Callable[[str, str], Awaitable[object]]:
    credentials = base64.b64encode(f"{user}:{PASSWORD}".encode()).decode()

    async def send(queue: str, body: str) -> None:
        reply = await rest.post(
            f"/api/v1/queues/{queue}/messages",
            content=body,
            headers={"authorization": f"Basic {credentials}", "content-type": "text/plain"},
        )
        if reply.status_code != 201:
            problem = reply.json()
            raise Refused(problem["type"].rpartition("/")[2], problem["detail"], problem)

    return send


def runs(attempts: list[Attempt]) -> list[bool]:
    """The answers in the order of asking, repetitions left out."""
    return [answer for answer, _ in itertools.groupby(attempt.accepted for attempt in sorted(attempts))]


async def test_no_client_is_disturbed_by_a_change_and_each_has_the_rights_of_its_time(load: Load) -> None:
    assert len(load.producers) + len(load.consumers) == 50
    stop = asyncio.Event()
    consuming = [asyncio.create_task(consumer.work()) for consumer in load.consumers]
    producing = [asyncio.create_task(producer.work(stop)) for producer in load.producers]
    sessions = {client.server["session"] for client in load.clients}
    try:
        await load.go_on()
        deny = {"effect": "deny", "conditions": "/event/method == POST", "users": ["u0", "u1"], "position": 1}
        await load.change("PUT", "/rules/hold", deny, "u0", "u1", may=False)
        await load.go_on()
        await load.change("PATCH", "/users/u2", {"groups": []}, "u2", may=False)
        await load.go_on()
        await load.ask("PUT", "/queues/load.u4", {"max_messages": 100_000})
        settings = {"settings": {"credit": 50, "full_wait": 20, "max_messages": 1_000_000}}
        await load.ask("PUT", "/brokers/mom", settings)
        await load.ask("PUT", "/users/new", {"groups": [], "password": PASSWORD})
        await load.ask("DELETE", "/users/new")
        await load.go_on()
        await load.change("DELETE", "/rules/hold", None, "u0", "u1", may=True)
        await load.change("PATCH", "/users/u2", {"groups": ["workers"]}, "u2", may=True)
        await load.go_on()
    finally:
        stop.set()
    await asyncio.gather(*producing)  # a lost connection ends one of them
    for task in consuming:
        assert not task.done()
        task.cancel()

    for producer in load.producers:
        wrong = [
            attempt
            for attempt in producer.attempts
            if attempt.accepted not in load.may_have_been(producer.user, attempt)
        ]
        assert not wrong, (producer.user, wrong[:3], load.changes)
        throttled = producer.user in ("u0", "u1", "u2")
        assert runs(producer.attempts) == ([True, False, True] if throttled else [True]), producer.user
    for consumer in load.consumers:
        assert bool(consumer.refusals) == (consumer.user == "u2")

    assert all(client.connected for client in load.clients)
    page = await load.ask("GET", "/connections?limit=500")
    assert {row["id"] for row in page["items"]} == sessions, "the very same connections"
    for user in USERS:
        accepted = sum(
            attempt.accepted
            for producer in load.producers
            for attempt in producer.attempts
            if producer.user == user
        )
        facts = await load.ask("GET", f"/queues/load.{user}")
        assert facts["published"] == accepted, user
    # Within 1 s where the machine has nothing else to do.
    assert max(change.confirmed - change.asked for change in load.changes) < 10
