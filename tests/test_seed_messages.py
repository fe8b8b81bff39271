"""Messages to profiles: who gets a copy, when, and what a crash leaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.broker import Broker
from broker_app.core.destination import QUEUE, Destination
from broker_app.core.header_block import headers
from broker_app.core.limits import Limits
from broker_app.core.message import Envelope
from broker_app.core.policy import DestinationPolicy, Policies
from broker_app.engine import Engine
from broker_app.engine.read_budget import NODE_BYTES
from broker_app.features.services import profiles, seed_messages
from broker_app.features.services.registry import Service, ServiceRegistry
from broker_app.features.services.seed_messages import Seed, SeedMessages
from broker_app.features.services.seed_shares import SeedShares
from broker_app.net.policy.principal import Principal
from broker_app.reflex.registration import Registration
from tests.support.listener import Listener
from tests.support.memory_journal import MemoryJournal, MemoryStorage
from tests.support.patience import patient

ANNA = Principal("anna")


class Rights:
    """All may send to all services that are not forbidden; `forbid` changes the policy."""

    def __init__(self) -> None:
        self.policy: frozenset[str] = frozenset()

    def forbid(self, *services: str) -> None:
        self.policy = frozenset(services)

    def may_send(self, sender: Principal, destination: Destination) -> bool:
        return destination.name not in self.policy


class Stage:
    """An engine, its services, and what makes the copies."""

    def __init__(self, storage: MemoryStorage | None = None, limits: Limits | None = None) -> None:
        self.storage = storage or MemoryStorage()
        self.journal = MemoryJournal(self.storage)
        self.engine = Engine(Broker(limits=limits or Limits()), self.journal)
        self.engine.recover()
        self.registry = ServiceRegistry()
        self.rights = Rights()
        self.seeds = SeedMessages(self.engine, self.registry, self.rights, SeedShares())
        self.client = Listener()

    async def register(self, name: str, **facts: object) -> None:
        await self.registry.register(Registration(name, **facts))  # type: ignore[arg-type]

    async def send(self, criteria: str, body: bytes = b"hello", block: bytes = b"", **facts: object) -> None:
        envelope = Envelope("/profile/", block, **facts)  # type: ignore[arg-type]
        stored = profiles.seed(envelope, criteria, ANNA)
        self.engine.submit(c.Publish(self.client.peer, [(stored, body, b"r")]))
        await self.engine.wait_idle()

    def bodies(self, service: str) -> list[bytes]:
        queue = self.engine.broker.destinations.queues.get(f"/queue/{service}")
        return [] if queue is None else [m.body for lane in queue.lanes for m in lane.in_memory()]

    def waiting(self, destination: Destination) -> int:
        queue = self.engine.broker.destinations.queues.get(destination.address)
        return 0 if queue is None else queue.depth

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(patient(10)):
            while not condition():
                await asyncio.sleep(0.001)


@asynccontextmanager
async def running(stage: Stage) -> AsyncIterator[Stage]:
    task = asyncio.create_task(stage.seeds.run())
    try:
        yield stage
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    async with running(Stage()) as one:
        yield one


async def test_each_service_that_matches_gets_a_copy_now_or_when_it_registers(stage: Stage) -> None:
    await stage.register("stock", type="shop")
    await stage.register("bank", type="bank")
    await stage.send("type = 'shop'", block=b"colour:red\n")
    await stage.until(lambda: stage.bodies("stock") == [b"hello"])
    await stage.register("shop2", type="shop", machine="h9")
    await stage.until(lambda: stage.bodies("shop2") == [b"hello"])
    assert stage.bodies("bank") == []
    queue = stage.engine.broker.destinations.queues["/queue/stock"]
    found = headers(next(queue.lanes[0].in_memory()).envelope.block)
    (seed,) = stage.seeds.all()
    assert found == {"colour": "red", "seed-id": seed.id}
    assert stage.waiting(profiles.SEEDS) == 1


async def test_a_seed_that_is_not_in_memory_waits_for_its_turn_to_be_read() -> None:
    async with running(Stage(limits=Limits(window=1))) as stage:
        await stage.register("stock")
        budget = stage.engine._read_budget
        async with budget.hold(NODE_BYTES):
            await stage.send("name = 'stock'", b"in memory")
            await stage.send("name = 'stock'", b"in the journal")
            await stage.until(lambda: bool(budget._waiting))
            assert stage.bodies("stock") == [b"in memory"]
        await stage.until(lambda: stage.waiting(Destination(QUEUE, "stock")) == 2)


async def test_a_seed_ends_with_its_last_copy(stage: Stage) -> None:
    await stage.send("name LIKE 's%'", block=b"max-copies:2\n")
    for name in ("s1", "x", "s2", "s3"):
        await stage.register(name)
    await stage.until(lambda: stage.bodies("s2") == [b"hello"] and not list(stage.seeds.all()))
    assert (stage.bodies("s1"), stage.bodies("s3"), stage.bodies("x")) == ([b"hello"], [], [])
    await stage.until(lambda: stage.waiting(profiles.SEEDS) == stage.waiting(profiles.COPIES) == 0)


async def test_programs_that_share_a_name_share_a_copy(stage: Stage) -> None:
    await stage.register("stock", machine="h1")
    await stage.register("stock", machine="h2")
    await stage.send("machine = 'h1' OR machine = 'h2'")
    await stage.until(lambda: stage.bodies("stock") == [b"hello"])
    await stage.register("stock", machine="h1")
    await stage.register("other", machine="h2")
    await stage.until(lambda: stage.bodies("other") == [b"hello"])
    assert stage.bodies("stock") == [b"hello"]


async def test_an_inactive_service_gets_its_copy_when_it_is_active_again(stage: Stage) -> None:
    await stage.register("stock")
    (service,) = stage.registry.named("stock")
    stage.registry.change(service, active=False)
    await stage.send("name = 'stock'")
    await stage.register("witness")
    await stage.send("name = 'witness'")
    await stage.until(lambda: stage.bodies("witness") == [b"hello"])
    assert stage.bodies("stock") == []
    stage.registry.change(service, active=True)
    await stage.until(lambda: stage.bodies("stock") == [b"hello"])


async def test_a_message_that_is_not_persistent_is_for_those_that_are_there(stage: Stage) -> None:
    await stage.register("stock")
    await stage.send("name = 'stock' OR name = 'late'", persistent=False)
    await stage.until(lambda: stage.bodies("stock") == [b"hello"])
    await stage.until(lambda: not list(stage.seeds.all()))
    await stage.register("late")
    await stage.send("name = 'stock'", b"2")
    await stage.until(lambda: stage.bodies("stock") == [b"hello", b"2"])
    assert stage.bodies("late") == []


async def test_the_sender_must_be_allowed_to_send_to_the_service(stage: Stage) -> None:
    stage.rights.forbid("secret")
    for name in ("secret", "open"):
        await stage.register(name)
    await stage.send("name <> ''")
    await stage.until(lambda: stage.bodies("open") == [b"hello"])
    assert stage.bodies("secret") == []


async def test_a_full_queue_gets_its_copy_when_it_has_room_and_holds_up_nobody(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker_app.features.services.seed_messages.CHECK_S", 0.01)
    full = DestinationPolicy(paused="producers")
    stage.engine.submit(c.Reconfigure(Policies(exact={"/queue/full": full})))
    for name in ("full", "open"):
        await stage.register(name)
    await stage.send("name <> ''")
    await stage.until(lambda: stage.bodies("open") == [b"hello"])
    assert stage.bodies("full") == []
    stage.engine.submit(c.Reconfigure(Policies()))
    await stage.until(lambda: stage.bodies("full") == [b"hello"])
    assert stage.bodies("open") == [b"hello"]


async def test_a_seed_that_expired_or_was_purged_makes_no_more_copies(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker_app.features.services.seed_messages.CHECK_S", 0.01)
    await stage.send("name = 'stock'", b"purged")
    await stage.until(lambda: len(list(stage.seeds.all())) == 1)
    stage.engine.submit(c.Purge(stage.client.peer, profiles.SEEDS.address))
    await stage.until(lambda: not list(stage.seeds.all()))
    await stage.register("stock")
    await stage.send("name = 'stock'", b"next")
    await stage.until(lambda: stage.bodies("stock") == [b"next"])


async def test_an_operator_removes_a_seed(stage: Stage) -> None:
    await stage.send("name = 'stock'")
    await stage.until(lambda: len(list(stage.seeds.all())) == 1)
    (seed,) = stage.seeds.all()
    assert stage.seeds.find(seed.id) is seed
    await stage.seeds.remove(seed)
    assert stage.waiting(profiles.SEEDS) == 0


async def test_after_a_crash_each_service_has_one_copy() -> None:
    storage = MemoryStorage()
    async with running(Stage(storage)) as stage:
        await stage.register("stock")
        await stage.send("name LIKE '%'", block=b"max-copies:3\n")
        await stage.until(lambda: stage.bodies("stock") == [b"hello"])
    stage.journal.close()  # the process is killed; what is stored stays
    async with running(Stage(storage)) as again:
        await again.until(lambda: len(list(again.seeds.all())) == 1)
        await again.register("stock")
        await again.register("bank")
        await again.until(lambda: again.bodies("bank") == [b"hello"])
        assert again.bodies("stock") == [b"hello"]
        await again.register("third")
        await again.until(lambda: again.waiting(profiles.SEEDS) == again.waiting(profiles.COPIES) == 0)


@pytest.mark.parametrize("value", ["0", "x", "10001", "-1"])
def test_the_number_of_copies_is_bounded(value: str) -> None:
    with pytest.raises(Refused, match="max-copies"):
        profiles.seed(Envelope("/profile/", f"max-copies:{value}\n".encode()), "name = 'a'", ANNA)


def test_a_profile_is_a_condition() -> None:
    assert profiles.criteria_of("/profile/type = 'shop'") == "type = 'shop'"
    assert profiles.criteria_of("/queue/a") is None
    with pytest.raises(Refused, match="selector"):
        profiles.criteria_of("/profile/type =")


async def test_no_copies_are_made_after_the_engine_has_ended() -> None:
    stage = Stage()
    made = asyncio.create_task(stage.seeds.run())
    await stage.send("name = 'stock'")
    await stage.until(lambda: bool(list(stage.seeds.all())))
    stage.journal.failure = OSError(28, "No space left on device")
    await stage.send("name = 'bank'")
    assert stage.engine.ended is not None
    stage.seeds.engine_ended(stage.engine.ended)
    await stage.register("stock")
    async with asyncio.timeout(patient(10)):
        await made


@pytest.mark.parametrize("criteria", ["type = 'bank'", "type = 'shop'"])
async def test_a_look_at_many_services_gives_way_to_other_tasks(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, criteria: str
) -> None:
    """Some services match and have their copies; others do not match."""
    monkeypatch.setattr(seed_messages, "_SLICE_S", 0.0)
    count = 50
    for number in range(count):
        await stage.register(f"s{number}", type="shop")
    await stage.send(criteria)
    await stage.register("witness")
    await stage.send("name = 'witness'")
    await stage.until(lambda: stage.bodies("witness") == [b"hello"])
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(take_turns())
    seed = next(iter(stage.seeds.all()))
    assert await stage.seeds._wanting(seed, list(stage.registry.all())) == []
    other.cancel()
    assert turns >= count


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Each comparison of a seed with a service: the condition and the name."""
    found: list[tuple[str, str]] = []
    compare = SeedMessages._matches

    def note(seeds: SeedMessages, seed: Seed, service: Service) -> bool:
        found.append((seed.terms.criteria, service.registration.name))
        return compare(seeds, seed, service)

    monkeypatch.setattr(SeedMessages, "_matches", note)
    return found


async def test_seeds_and_services_that_wait_are_not_compared_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, compared: list[tuple[str, str]]
) -> None:
    monkeypatch.setattr("broker_app.features.services.seed_messages.CHECK_S", 0.01)
    for number in range(20):
        await stage.register(f"s{number}", type="shop")
    for _ in range(3):
        await stage.send("type LIKE 'bank%'")
    await stage.until(lambda: len(compared) == 60)
    for left, seed in zip((2, 1), list(stage.seeds.all()), strict=False):
        # The end of a seed was noticed where all were compared again.
        removed = (c.Chosen(seed.position),)
        stage.engine.submit(c.Transfer(stage.client.peer, profiles.SEEDS.address, removed))
        await stage.until(lambda left=left: len(list(stage.seeds.all())) == left)  # type: ignore[misc]
    assert len(compared) == 60


async def test_a_registration_is_compared_with_the_seeds_that_its_properties_can_match(
    stage: Stage, compared: list[tuple[str, str]]
) -> None:
    for number in range(20):
        await stage.send(f"name = 's{number}' AND machine LIKE 'h%'")
    await stage.send("type IN ('shop', 'bank') OR type = 'hall'")
    await stage.until(lambda: len(list(stage.seeds.all())) == 21)
    await stage.register("s7", type="bank", machine="h1")
    await stage.until(lambda: len(stage.bodies("s7")) == 2)
    assert len(compared) == 2


async def test_a_seed_is_compared_with_the_services_that_can_match_it(
    stage: Stage, compared: list[tuple[str, str]]
) -> None:
    for number in range(20):
        await stage.register(f"s{number}", type="shop" if number % 10 else "bank")
    await stage.send("type = 'bank'")
    await stage.until(lambda: len(stage.bodies("s0") + stage.bodies("s10")) == 2)
    (service,) = stage.registry.named("s3")
    stage.registry.change(service, type="bank")
    await stage.until(lambda: len(stage.bodies("s3")) == 1)
    assert sorted(name for _, name in compared) == ["s0", "s10", "s3"]


async def test_of_copies_that_one_service_cannot_take_one_is_tried_at_a_time(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, compared: list[tuple[str, str]]
) -> None:
    full = DestinationPolicy(paused="producers")
    stage.engine.submit(c.Reconfigure(Policies(exact={"/queue/full": full})))
    await stage.register("full")
    for number in range(5):
        await stage.send("name = 'full'", str(number).encode())
    await stage.until(lambda: len(compared) >= 5)
    monkeypatch.setattr("broker_app.features.services.seed_messages.CHECK_S", 0.01)
    await stage.send("name = 'other'")
    await stage.until(lambda: len(compared) >= 8)
    assert stage.bodies("full") == []
    stage.engine.submit(c.Reconfigure(Policies()))
    await stage.until(lambda: sorted(stage.bodies("full")) == [b"0", b"1", b"2", b"3", b"4"])
