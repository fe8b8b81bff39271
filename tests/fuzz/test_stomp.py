"""Random STOMP of four users with different rights, and operators who do what operators do, against a real
broker for `FUZZ_SECONDS` (3; hours in `make soak`), by chance from `STORM_SEED` on, shown in the run's head.

The broker stays up, meets no fault of its own, is never held up and keeps its memory bounded (`watched`).
No client receives a message that no rule ever granted it. Meanwhile a ledger is kept: each confirmed
message of it is received, once unless it is marked.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from random import Random
from urllib.parse import unquote

import httpx
import pytest

import mom_client
from broker_app.core.policy import LIMIT_BEHAVIORS
from tests.fuzz.broker_watch import SECONDS, SEED, Watch, admin
from tests.fuzz.stomp_client import OPEN, PRIVATE, QUEUES, TOPICS, StompFuzz
from tests.support.broker_process import BrokerProcess, StartBroker
from tests.support.patience import patient

pytestmark = [pytest.mark.fuzz, pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(SECONDS + 300)]

PASSWORD = "pw-of-a-test-9"
LEDGER = "ledger.a"
RULES = {
    "keeper": {"conditions": "/event/queue == ledger.a", "users": ["keeper"]},
    "dora-alone": {"conditions": r"/event/queue =~ dora\..* || /event/topic =~ dora\..*", "users": ["dora"]},
    "open-to-two": {
        "conditions": r"/event/queue =~ open\..* || /event/topic =~ open\..*",
        "users": ["bob", "dora"],
    },
    "open-to-read": {
        "conditions": r"(/event/queue =~ open\..* || /event/topic =~ open\..*) && /event/method == GET",
        "users": ["carl"],
    },
}
#: what an operator gives and takes again
TAKEN = {"conditions": "/event/queue == open.a || /event/topic == open.x", "effect": "deny", "position": 1}
#: what may ever reach each user, by the beginning of its name; temporary destinations are one's own
GETS = {"bob": (OPEN, "t-"), "carl": (OPEN, "t-"), "dora": (OPEN, PRIVATE, "t-"), "eve": ("t-",)}
#: names of durable and shared subscriptions, which those see who may look at their topics
SUBSCRIPTIONS = frozenset("desü")
#: system topics of one destination, whose name follows; and those of which all users see their part
ABOUT = ("$mom.stats.", "$mom.consumer.", "$mom.dead.")
SHARED = tuple(
    f"$mom.{one}" for one in ("stats", "node", "destinations", "failover", "conn.", "dest.", "job.")
)
USERS = (*GETS, "keeper")


def may_get(user: str) -> Callable[[str], bool]:
    def may(destination: str) -> bool:
        name = destination.split("/", 2)[-1]
        for topic in ABOUT:
            if name.startswith(topic):
                about = unquote(name.removeprefix(topic))
                return about in SUBSCRIPTIONS or about.startswith(GETS[user])
        return name.startswith((*GETS[user], *SHARED))

    return may


async def test_no_frames_and_no_actions_of_operators_stop_the_broker(start_broker: StartBroker) -> None:
    random = Random(SEED)
    broker = start_broker("--max-store-bytes", str(512 * 1024 * 1024))
    async with admin(broker) as rest:
        await set_up(rest)
    watch, ledger = Watch(broker), Ledger(broker)
    fuzzers = [
        StompFuzz(broker, user, PASSWORD, Random(random.random()), may_get(user))
        for user in GETS
        for _ in range(2)
    ]
    operators = [Operator(broker, Random(random.random())) for _ in range(3)]
    sending = asyncio.create_task(ledger.produce())
    running = [
        sending,
        *(
            asyncio.create_task(action)
            for action in (
                watch.look(),
                ledger.consume(),
                *(each.run() for each in operators),
                *(each.run() for each in fuzzers),
            )
        ),
    ]
    await asyncio.wait(running, timeout=SECONDS, return_when=asyncio.FIRST_COMPLETED)
    with contextlib.suppress(TimeoutError):  # then one is missing, which is reported below
        async with asyncio.timeout(patient(60)):
            while not (all(operator.actions for operator in operators) or watch.broken):
                await asyncio.sleep(0.1)
    ledger.stop.set()
    with contextlib.suppress(TimeoutError):  # then something is missing, which is reported below
        async with asyncio.timeout(patient(120)):
            while not ((sending.done() and ledger.confirmed <= ledger.received) or watch.broken):
                await asyncio.sleep(0.1)
    ended = [task.exception() for task in running if task.done() and not task.cancelled()]
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    broken = [watch.broken, ledger.broken]
    broken += [operator.broken for operator in operators] + [fuzzer.broken for fuzzer in fuzzers]
    assert [found for found in broken if found] == []
    assert ledger.confirmed - ledger.received == set()
    assert [error for error in ended if error is not None] == []
    assert broker.terminate(60) == 0
    frames, deliveries = sum(f.frames_sent for f in fuzzers), sum(f.frames_got for f in fuzzers)
    actions, confirmed = sum(operator.actions for operator in operators), len(ledger.confirmed)
    print(
        f"{frames} frames, {deliveries} deliveries, {actions} actions, {confirmed} confirmed; {watch.worst}"
    )
    assert ledger.confirmed
    assert all(operator.actions for operator in operators)
    assert all(fuzzer.frames_sent for fuzzer in fuzzers)


async def set_up(rest: httpx.AsyncClient) -> None:
    for user in USERS:
        made = await rest.put(f"/users/{user}", json={"password": PASSWORD}, headers={"if-none-match": "*"})
        assert made.status_code == 201, made.text
    for position, (name, said) in enumerate(RULES.items(), 10):
        document = {**said, "position": position}
        made = await rest.put(f"/rules/{name}", json=document, headers={"if-none-match": "*"})
        assert made.status_code == 201, made.text


class Operator:
    """Deletes, purges, pauses, sets limits, ends connections, moves dead letters, gives and takes rights."""

    def __init__(self, broker: BrokerProcess, random: Random) -> None:
        self._broker = broker
        self._random = random
        self.broken: list[str] = []
        self.actions = 0

    async def run(self) -> None:
        async with admin(self._broker) as rest:
            while not self.broken:
                with contextlib.suppress(httpx.TransportError):  # the watch shows whether the broker is there
                    await self._act(rest)
                await asyncio.sleep(self._random.choice([0.01, 0.05, 0.2]))

    async def _act(self, rest: httpx.AsyncClient) -> None:
        random = self._random
        queue = random.choice(QUEUES).removeprefix("/queue/")
        topic = random.choice(TOPICS).removeprefix("/topic/")
        settings = {
            random.choice(["max_messages", "max_bytes", "max_consumers", "max_attempts"]): random.choice(
                [1, 50]
            ),
            "paused": random.choice(["none", "none", "none", "producers", "consumers", "all"]),
            "limit_behavior": random.choice(list(LIMIT_BEHAVIORS)),
        }
        job = {"op": random.choice(["move", "purge", "retry"]), "source": queue, "target": "open.c"}
        action: list[tuple[str, str, object]] = [
            ("DELETE", f"/queues/{queue}?force=true", None),
            ("DELETE", f"/queues/{queue}/messages?all=true", None),
            ("PUT", f"/queues/{queue}", settings),
            ("PATCH", f"/queues/{queue}", {"paused": random.choice(["none", "all"])}),
            ("PUT", f"/topics/{topic}", {"retention_bytes": random.randrange(1, 10_000)}),
            ("DELETE", f"/topics/{topic}", None),
            ("PUT", "/rules/taken", TAKEN),
            ("DELETE", "/rules/taken", None),
            ("POST", "/jobs", job),
            ("GET", f"/queues/{queue}/messages?q=a", None),
            ("DELETE", f"/subscriptions/{random.choice(['d', 'e'])}", None),
            ("GET", "/stats", None),
        ]
        method, path, body = random.choice(action)
        # What is there already is replaced whatever its version; PUT makes what is not there.
        version = {"if-match": "*"} if method in ("DELETE", "PATCH") else {}
        reply = await rest.request(method, path, json=body, headers=version)
        self.actions += 1
        if reply.status_code >= 500 and reply.status_code != 503:
            self.broken.append(f"{method} {path}: {reply.status_code} {reply.text[:2000]}")
        if random.random() < 0.1:
            await self._end_a_connection(rest)

    async def _end_a_connection(self, rest: httpx.AsyncClient) -> None:
        items = (await rest.get("/connections?limit=50")).json()["items"]
        ids = [item["id"] for item in items if item["user"] not in ("keeper", "admin")]
        if ids:
            await rest.delete(f"/connections/{self._random.choice(ids)}")


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
