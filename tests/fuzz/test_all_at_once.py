"""All fuzzers at once against one broker, by four users of different rights: random STOMP, JSON over
WebSocket, requests of REST, and receivers of webhooks that answer what no receiver should; and operators who
do what operators do.

It goes on for `FUZZ_SECONDS` (3; 600 in `make fuzz`, hours in `make soak`), by chance from `STORM_SEED` on,
shown in the run's head. The broker stays up, meets no fault of its own, is never held up and keeps its memory
bounded (`broker_watch`). No client reads, receives or changes what no rule ever granted it. Meanwhile a
ledger is kept: each confirmed message of it is received, once unless it is marked.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest

from tests.fuzz import rights
from tests.fuzz.broker_watch import SECONDS, SEED, Watch, admin
from tests.fuzz.json_client import JsonFuzz
from tests.fuzz.ledger import Ledger
from tests.fuzz.operators import Operator
from tests.fuzz.receivers import ReceiverFuzz
from tests.fuzz.rest_client import RestFuzz, operations
from tests.fuzz.rights import GETS, PASSWORD, check_secret, may_get
from tests.fuzz.stomp_client import StompFuzz
from tests.support.broker_process import BrokerProcess, StartBroker
from tests.support.patience import patient

pytestmark = [pytest.mark.fuzz, pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(0)]

OPTIONS = "--max-store-bytes", str(512 * 1024 * 1024), "--webhook-allow", "127.0.0.1"


async def test_nothing_that_comes_stops_or_stalls_the_broker_or_goes_beyond_rights(
    start_broker: StartBroker,
) -> None:
    broker = start_broker(*OPTIONS, environment={"MOM_FULL_WAIT": "1"})
    async with admin(broker) as rest:
        await rights.set_up(rest)
        document = (await rest.get("/openapi.json")).json()
        fuzz = Fuzz(broker, document)
        await fuzz.run()
        fuzz.check()
        await check_secret(rest)
    assert broker.terminate(60) == 0


class Fuzz:
    """All that is sent to one broker at once. `document` is its OpenAPI document."""

    def __init__(self, broker: BrokerProcess, document: dict[str, Any]) -> None:
        chance = Random(SEED)

        def random() -> Random:
            return Random(chance.random())

        known = operations(document)
        assert len(known) > 80
        self._watch, self._ledger = Watch(broker), Ledger(broker)
        self._operators = [Operator(broker, random()) for _ in range(3)]
        by_user = [(broker, user, PASSWORD, random()) for user in GETS]
        self._stomp = [StompFuzz(*of, may_get(of[1])) for of in by_user]
        self._json = [JsonFuzz(*of, may_get(of[1])) for of in by_user]
        self._receivers = [ReceiverFuzz(*of, may_get(of[1])) for of in by_user]
        administrator = broker, broker.user, broker.password, random()
        self._rest = [RestFuzz(*of, known) for of in (administrator, *by_user)]
        self._ended: list[BaseException] = []

    async def run(self) -> None:
        """Send until the time is over, or a law is broken; then until the ledger is even."""
        sending = asyncio.create_task(self._ledger.produce())
        actions: list[Coroutine[Any, Any, None]] = [self._watch.look(), self._ledger.consume()]
        actions += [one.run() for one in self._all]
        running = [sending, *map(asyncio.create_task, actions)]
        await asyncio.wait(running, timeout=SECONDS, return_when=asyncio.FIRST_COMPLETED)
        await self._until(lambda: self._idle == [])
        self._ledger.stop.set()
        await self._until(lambda: sending.done() and not self._missing)
        self._ended = [error for task in running if task.done() and (error := task.exception())]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def check(self) -> None:
        """Assert that no law was broken, and that all have done something."""
        print(f"{self._counts()}; {self._watch.worst}")
        everything = self._watch, self._ledger, *self._all
        assert [found for one in everything for found in one.broken] == []
        assert self._missing == set()
        assert self._ended == []
        assert self._idle == [], "all have done something"

    async def _until(self, condition: Callable[[], bool]) -> None:
        """Wait until it is true, a law is broken, or it takes too long, which `check` reports."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patient(120)):
                while not (condition() or self._watch.broken):
                    await asyncio.sleep(0.1)

    @property
    def _all(self) -> list[StompFuzz | JsonFuzz | RestFuzz | ReceiverFuzz | Operator]:
        return [*self._stomp, *self._json, *self._rest, *self._receivers, *self._operators]

    @property
    def _idle(self) -> list[str]:
        """Those that have done nothing yet, or nothing that was answered."""
        done = {
            "ledger": len(self._ledger.confirmed),
            "operator": min(one.actions for one in self._operators),
            "STOMP": min(one.frames_got for one in self._stomp[:2]),
            "JSON": min(one.events_got for one in self._json),
            "REST": sum(one.answers[b"200"] for one in self._rest),
            "receivers": sum(one.pushes for one in self._receivers),
        }
        return [name for name, count in done.items() if not count]

    @property
    def _missing(self) -> set[int]:
        return self._ledger.confirmed - self._ledger.received

    def _counts(self) -> str:
        answers = sum((one.answers for one in self._rest), Counter())
        return (
            f"{sum(one.frames_sent for one in self._stomp)} frames, "
            f"{sum(one.frames_got for one in self._stomp)} deliveries, "
            f"{sum(one.operations_sent for one in self._json)} operations, "
            f"{sum(one.events_got for one in self._json)} events, "
            f"{sum(one.pushes for one in self._receivers)} pushes, "
            f"answers {dict(answers)}, "
            f"{sum(one.actions for one in self._operators)} actions, {len(self._ledger.confirmed)} confirmed"
        )
