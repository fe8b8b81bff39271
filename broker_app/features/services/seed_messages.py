"""Seed messages: those that are addressed to a profile, of which each service that matches gets a copy.

A seed waits in a queue of its own until it has its last copy, expires, or is removed. Copies of a run and
the notes of who has got one are published in one batch of the journal, so a crash neither forgets a
copy nor repeats it.

Nothing is looked at while nothing changes. A service that registers is compared with the seeds that its
properties can match, and a seed with such services (`property_index`). A copy that was refused is tried again
by itself, and one that its sender may not send when the policy has changed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol

from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core import header_block
from broker_app.core.destination import QUEUE, Destination
from broker_app.core.durability.record_reader import Reader
from broker_app.core.inspection import views
from broker_app.core.inspection.pending_watch import PendingWatch
from broker_app.core.message import Envelope, Message
from broker_app.core.position import BEGINNING
from broker_app.core.publishing.bulk_producer import address_of
from broker_app.core.selectors import compiler
from broker_app.core.selectors.selector import Selector
from broker_app.engine import Engine
from broker_app.engine.client import EngineClient
from broker_app.features.callbacks.arrival_feed import ArrivalFeed
from broker_app.features.services import profiles
from broker_app.features.services.property_index import Facts, PairIndex, Pairs, ServiceIndex, pairs_needed
from broker_app.features.services.registry import DEREGISTERED, Service, ServiceRegistry
from broker_app.features.services.seed_shares import SeedShares
from broker_app.net.policy.principal import Principal
from broker_app.reflex.chain import Outcome

log = logging.getLogger(__name__)

#: under which copies are published exactly once
_PRODUCER: Final = "$seeds"
#: copies of one batch
_RUN: Final = 50
#: seconds between looks for seeds that have ended, and attempts to make copies that were refused
CHECK_S: Final = 5.0
#: seconds of one step over seeds and services; then other tasks run
_SLICE_S: Final = 0.001
_SEED, _SERVICE = "seed", "service"

#: the outcomes of reflexes about messages of a user, by index, each with the envelope that it has now
Filter = Callable[[Sequence[tuple[Envelope, bytes]], str], Awaitable[Mapping[int, tuple[Outcome, Envelope]]]]
#: the messages to publish for each service: its copy, and further ones
_Copies = dict[str, list[tuple[Envelope, bytes]]]
_NOTHING: Final = c.Need(0, 0, 0)
#: conditions compare properties of services, and this with those of messages
_NO_MESSAGE: Final = Message(Envelope(f"/{QUEUE}/"), b"", 0, 0, False)


class Rights(Protocol):
    """The rights of senders."""

    @property
    def policy(self) -> object:
        """The policy that decides; another object after each change."""

    def may_send(self, sender: Principal, destination: Destination) -> bool:
        """Return whether a sender may send to a service's queue now."""


async def _no_filter(
    rows: Sequence[tuple[Envelope, bytes]], user: str
) -> dict[int, tuple[Outcome, Envelope]]:
    return {}


@dataclass(slots=True)
class Seed:
    """One seed: its position, its bytes, the properties that a service needs, when it expires (milliseconds
    since 1970, 0 for never), and the services that have got a copy. `notes` are the positions of the notes of
    that. For services in `refused` a reflex has refused it; they are asked again after a restart. It is
    `denied` if its sender may not send to a service that matches."""

    position: int
    id: str
    terms: profiles.SeedTerms
    selector: Selector
    persistent: bool
    size: int = 0
    pairs: Pairs | None = None
    expires_ms: int = 0
    served: set[str] = field(default_factory=set)
    notes: list[int] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)
    denied: bool = False

    @property
    def has_all_copies(self) -> bool:
        """True if no further copy is made."""
        return len(self.served) >= self.terms.max_copies

    def is_settled_for(self, service: str) -> bool:
        """Return whether a service has got a copy, or a reflex has refused it one."""
        return service in self.served or service in self.refused


class _Pace:
    """Interrupts a long walk over seeds and services, so that other tasks run."""

    def __init__(self) -> None:
        self._until = 0.0

    async def give_way(self) -> None:
        """Let other tasks run, if the last turn has used up its time."""
        if time.monotonic() >= self._until:
            await asyncio.sleep(0)
            self._until = time.monotonic() + _SLICE_S


class SeedMessages:
    """Makes the copies. `start` once the engine has recovered."""

    def __init__(
        self,
        engine: Engine,
        registry: ServiceRegistry,
        rights: Rights,
        shares: SeedShares,
        filter: Filter = _no_filter,
    ) -> None:
        self._engine = engine
        self._registry = registry
        self._rights = rights
        #: how many seeds each user has
        self.shares = shares
        self._filter = filter
        self._requests = EngineClient(engine, _PRODUCER)
        self._ids = engine.broker.turn.ids
        self._seeds: dict[int, Seed] = {}
        self._seed_index: PairIndex[int] = PairIndex()
        self._services = ServiceIndex()
        #: by service: the seeds whose copy was refused, by position; that of one service is tried at a time
        self._blocked: dict[str, dict[int, Seed]] = {}
        #: the policy by which seeds were denied
        self._policy = rights.policy
        self._checked_s = time.monotonic()
        self._changed: dict[str, Service] = {}
        self._woken = asyncio.Event()
        self._pace = _Pace()
        #: the notes that were published since it was read; only this service publishes any
        taps = engine.broker.store.taps
        self._noted = PendingWatch(taps, profiles.COPIES.address, self._ids, 2 * _RUN, _nothing)
        for service in registry.all():
            self._services.put(service)
        registry.listeners.add(self._on_service)

    # ------------------------------------------------------------------ for operators

    def all(self) -> Iterator[Seed]:
        """The seeds that wait, the oldest first."""
        return iter(self._seeds.values())

    def find(self, id: str) -> Seed | None:
        return next((seed for seed in self._seeds.values() if seed.id == id), None)

    async def remove(self, seed: Seed) -> None:
        """Make no further copies of a seed."""
        await self._end(seed)

    # ------------------------------------------------------------------ running

    def engine_ended(self, error: BaseException) -> None:
        """Fail what waits for an answer of the engine."""
        self._requests.engine_ended(error)

    async def run(self) -> None:
        """Make copies, of new seeds and for new services, until the engine has ended."""
        feed = ArrivalFeed(
            *(
                self._engine.broker,
                self._engine.records,
                self._requests.inspect_heads,
                profiles.SEEDS.address,
            ),
            wake=self._woken.set,
        )
        self._noted.open()
        try:
            await self._load_all(feed)
            while True:
                await self._wait()
                await self._take_new(feed)
                await self._serve()
                await self._check()
        except Refused:
            if self._engine.ended is None:
                raise
        finally:
            feed.close()
            self._noted.close()

    async def _wait(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(CHECK_S):
                await self._woken.wait()
        self._woken.clear()

    async def _check(self) -> None:
        """If it is time, forget the seeds that have ended, and try again what was refused or denied."""
        now = time.monotonic()
        if now < self._checked_s + CHECK_S:
            return
        self._checked_s = now
        await self._drop_ended()
        await self._retry_blocked()
        policy = self._rights.policy
        if policy is not self._policy:
            self._policy = policy
            for seed in [seed for seed in self._seeds.values() if seed.denied]:
                seed.denied = False
                await self._copy(seed, self._services.matching(seed.pairs))

    def _on_service(self, event: str, service: Service) -> None:
        if event == DEREGISTERED:
            self._services.discard(service)
            self._changed.pop(service.id, None)
            return
        self._services.put(service)
        if self._seeds:
            self._changed[service.id] = service
            self._woken.set()

    # ------------------------------------------------------------------ seeds

    async def _load_all(self, feed: ArrivalFeed) -> None:
        """Find the seeds of former processes, and who has got a copy."""
        after = BEGINNING
        while True:
            page = await feed.pending(after)
            await self._add(page.seqs)
            if not page.more:
                break
            after = feed.position(page.seq)
        for position, message in await self._waiting_in(profiles.COPIES):
            noted = header_block.headers(message.envelope.block)
            seed = self._seeds.get(int(noted[_SEED]))
            if seed is not None:
                seed.served.add(noted[_SERVICE])
                seed.notes.append(position)
            else:
                await self._delete(profiles.COPIES, [position])
        for seed in [seed for seed in self._seeds.values() if seed.has_all_copies]:
            await self._end(seed)

    async def _take_new(self, feed: ArrivalFeed) -> None:
        self.shares.begin_reading()
        found = await feed.take()
        while found.seqs:
            await self._add(found.seqs)
            if not found.more:
                break
            found = await feed.pending(feed.position(found.seqs[-1]))
        self.shares.end_reading()

    async def _add(self, seqs: list[int]) -> None:
        for seq in seqs:
            message = None if seq in self._seeds else await self._message(profiles.SEEDS, seq)
            seed = None if message is None else self._enter(seq, message)
            if seed is None:
                continue
            await self._copy(seed, self._services.matching(seed.pairs))
            if not seed.persistent:  # it is for those that are there
                await self._end(seed)

    def _enter(self, seq: int, message: Message) -> Seed | None:
        """Begin a seed that is stored; None if it is none."""
        envelope = message.envelope
        try:
            terms = profiles.terms_of(envelope.block)
            selector = compiler.compile_stored(terms.criteria)
        except (KeyError, ValueError, Refused) as error:
            log.warning("message %d of %s is no seed: %r", seq, profiles.SEEDS.address, error)
            return None
        seed = Seed(
            seq,
            self._ids.of(message).decode(),
            terms,
            selector,
            envelope.persistent,
            len(message.body) + envelope.overhead_bytes,
            pairs_needed(selector.anchors),
            message.expires_ms,
        )
        self._seeds[seq] = seed
        self._seed_index.add(seq, seed.pairs)
        self.shares.waits(terms.sender.user, seed.size)
        return seed

    async def _message(self, source: Destination, seq: int) -> Message | None:
        """A message that waits in a queue of this service, with its body, read in its turn; None if it is
        gone. One at a time is kept beyond the turn: a reflex may take long to decide about its copies, and
        others read meanwhile."""
        find, read = partial(self._find_waiting, source, seq), partial(self._read, source)
        async with self._requests.read_in_turn(find, _stored, read) as message:
            return message

    def _find_waiting(self, source: Destination, seq: int) -> dict[int, Message | None]:
        queue = self._engine.broker.destinations.queues.get(source.address)
        return {} if queue is None else self._engine.broker.store.waiting(queue, {seq})

    def _read(self, source: Destination, waiting: dict[int, Message | None], _: int) -> Message | None:
        for seq, message in waiting.items():
            return message or Reader(source.address).message(self._engine.records((seq,))[0], seq)
        return None

    async def _waiting_in(self, source: Destination) -> list[tuple[int, Message]]:
        """The messages that wait in a queue of this service."""

        def positions() -> list[int]:
            queue = self._engine.broker.destinations.queues.get(source.address)
            found = [] if queue is None else views.waiting_after(queue, 0, 1 << 30)
            return [one if isinstance(one, int) else one.position for one in found]

        found = []
        for seq in await self._requests.inspect(positions):
            message = await self._message(source, seq)
            if message is not None:
                found.append((seq, message))
        return found

    # ------------------------------------------------------------------ copies

    async def _serve(self) -> None:
        """Make copies for services that registered or changed."""
        changed, self._changed = list(self._changed.values()), {}
        for start in range(0, len(changed), _RUN):
            wanted: dict[int, list[Service]] = {}
            for service in changed[start : start + _RUN]:
                for position in self._seed_index.of(Facts.of(service.registration).pairs):
                    wanted.setdefault(position, []).append(service)
                await self._pace.give_way()
            for position, services in wanted.items():
                if position in self._seeds:
                    await self._copy(self._seeds[position], services)

    async def _retry_blocked(self) -> None:
        """Try again to make copies that were refused; of each service until one is refused again, which is
        the last one of it next time."""
        blocked, self._blocked = self._blocked, {}
        for name, seeds in blocked.items():
            while seeds and name not in self._blocked:
                position = next(iter(seeds))
                seed = seeds.pop(position)
                if position in self._seeds:
                    await self._copy(seed, self._registry.named(name))
            if seeds:
                self._blocked[name] = seeds | self._blocked.get(name, {})

    async def _copy(self, seed: Seed, services: list[Service]) -> None:
        """Make a copy for each of the services that matches and has none."""
        names = await self._wanting(seed, services)
        for start in range(0, len(names), _RUN):
            message = await self._message(profiles.SEEDS, seed.position)
            if message is None:
                return
            copies = await self._accepted(seed, message, names[start : start + _RUN])
            for name in await self._publish(seed, message, copies):
                seed.served.add(name)
        if seed.has_all_copies:
            await self._end(seed)

    async def _wanting(self, seed: Seed, services: list[Service]) -> list[str]:
        """The names of services that match and have no copy, no more than may have one."""
        most = seed.terms.max_copies - len(seed.served)
        wanted: dict[str, None] = {}
        for service in services:
            await self._pace.give_way()
            if len(wanted) >= most:
                break
            name = service.registration.name
            if seed.is_settled_for(name) or not service.active or not self._matches(seed, service):
                continue
            if self._rights.may_send(seed.terms.sender, Destination(QUEUE, name)):
                wanted[name] = None
            else:
                seed.denied = True
        return list(wanted)

    def _matches(self, seed: Seed, service: Service) -> bool:
        properties = Facts.of(service.registration)._asdict()
        return seed.selector.accepts(properties, _NO_MESSAGE, self._ids)

    async def _accepted(self, seed: Seed, message: Message, names: list[str]) -> _Copies:
        """The copies that reflexes accept, by service, each with the messages that they publish with it."""
        copies: _Copies = {
            name: [(profiles.copy(message.envelope, name, seed.id, message.expires_ms), message.body)]
            for name in names
        }
        rows = [row for (row,) in copies.values()]
        for index, (outcome, envelope) in (await self._filter(rows, seed.terms.sender.user)).items():
            name, reason = names[index], outcome.reason
            if outcome.accepted:
                further = [(one.envelope, one.body) for one in outcome.further]
                copies[name] = [(envelope, message.body), *further]
                continue
            log.info("reflex %s refused a copy of %s for %s: %s", outcome.reflex, seed.id, name, reason)
            seed.refused.add(name)
            del copies[name]
        return copies

    async def _publish(self, seed: Seed, message: Message, copies: _Copies) -> list[str]:
        """Publish copies, and note who has got one; returns the names of those. One that cannot be published
        now is tried again later."""
        if not copies:
            return []
        try:
            seed.notes += await self._publish_together(seed, message, copies)
            return list(copies)
        except Refused as refused:
            if len(copies) == 1:
                (name,) = copies
                self._blocked.setdefault(name, {})[seed.position] = seed
                log.info("a copy of %s for %s has to wait: %s", seed.id, name, refused.detail)
                return []
        published = []
        for name, rows in copies.items():
            published += await self._publish(seed, message, {name: rows})
        return published

    async def _publish_together(self, seed: Seed, message: Message, copies: _Copies) -> list[int]:
        """Publish all copies or none; returns the positions of the notes."""
        rows: list[tuple[Envelope, bytes]] = []
        needs: dict[str, c.Need] = {}
        for name, messages in copies.items():
            note = f"{_SEED}:{seed.position}\n{_SERVICE}:{header_block.escape(name)}\n".encode()
            rows += messages
            rows.append((Envelope(profiles.COPIES.address, note, persistent=seed.persistent), b""))
            for envelope, body in messages:
                need = c.Need(1, len(body), len(body))
                needs[envelope.address] = needs.get(envelope.address, _NOTHING).plus(need)
        needs[profiles.COPIES.address] = c.Need(len(copies), 0, 0)
        batch = await self._requests.inspect(self._next_batch)
        command = c.PublishBulk(self._requests.peer, _PRODUCER, _PRODUCER, batch, rows, needs)
        return await self._requests.ask(command, lambda _: self._noted.take().seqs)

    def _next_batch(self) -> int:
        producer = self._engine.broker.bulk.producers.get(address_of(_PRODUCER))
        return 0 if producer is None else producer.next_batch

    # ------------------------------------------------------------------ ends

    async def _end(self, seed: Seed) -> None:
        """Remove a seed, then the notes of its copies."""
        if self._seeds.pop(seed.position, None) is not None:
            self._seed_index.discard(seed.position, seed.pairs)
            self.shares.ended(seed.terms.sender.user, seed.size)
        await self._delete(profiles.SEEDS, [seed.position])
        await self._delete(profiles.COPIES, seed.notes)

    async def _drop_ended(self) -> None:
        """Forget seeds that expired, or that an administrator removed from the queue."""
        queue = self._engine.broker.destinations.queues.get(profiles.SEEDS.address)
        if queue is not None and queue.depth == len(self._seeds):
            return
        waiting = {} if queue is None else self._engine.broker.store.waiting(queue, set(self._seeds))
        for seed in [seed for seed in self._seeds.values() if seed.position not in waiting]:
            await self._end(seed)

    async def _delete(self, source: Destination, positions: list[int]) -> None:
        if positions:
            chosen = tuple(c.Chosen(position) for position in positions)
            try:
                await self._requests.ask(c.Transfer(self._requests.peer, source.address, chosen), _nothing)
            except Refused as refused:
                if refused.code != "not-found":
                    raise


def _stored(waiting: dict[int, Message | None]) -> list[int]:
    """The positions of messages that are not in memory."""
    return [seq for seq, message in waiting.items() if message is None]


def _nothing(*answer: Any) -> None:
    return None
