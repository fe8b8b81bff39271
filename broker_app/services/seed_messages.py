"""Seed messages: those that are addressed to a profile, of which each service that matches gets a copy.

A seed waits in a queue of its own until it has its last copy, expires, or is removed. Copies of a run and
the notes of who has got one are published in one batch of the journal, so a crash neither forgets a
copy nor repeats it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from broker_app.callback.arrival_feed import ArrivalFeed
from broker_app.core import commands as c
from broker_app.core import header_block, views
from broker_app.core.bulk_producer import address_of
from broker_app.core.destination import QUEUE, Destination
from broker_app.core.errors import Refused
from broker_app.core.message import Envelope, Message
from broker_app.core.pending_watch import PendingWatch
from broker_app.core.record_reader import Reader
from broker_app.core.selectors import compiler
from broker_app.core.selectors.selector import Selector
from broker_app.engine import Engine
from broker_app.engine.engine_requests import EngineRequests
from broker_app.net import profiles
from broker_app.net.service_registry import DEREGISTERED, Service, ServiceRegistry
from broker_app.reflex.chain import Outcome

log = logging.getLogger(__name__)

#: under which copies are published exactly once
_PRODUCER: Final = "$seeds"
#: copies of one batch
_RUN: Final = 50
#: seconds between looks for seeds that have ended, and attempts to make copies that were refused
CHECK_S: Final = 5.0
#: seconds of one step over seeds and services; then other tasks run
_SLICE_S: Final = 0.004
_SEED, _SERVICE = "seed", "service"

#: whether a user may send to a service's queue
MaySend = Callable[[str, Destination], bool]
#: the outcomes of reflexes about messages of a user, by index, each with the envelope that it has now
Filter = Callable[[Sequence[tuple[Envelope, bytes]], str], Awaitable[Mapping[int, tuple[Outcome, Envelope]]]]
#: the messages to publish for each service: its copy, and further ones
_Copies = dict[str, list[tuple[Envelope, bytes]]]
_NOTHING: Final = c.Need(0, 0, 0)


async def _no_filter(
    rows: Sequence[tuple[Envelope, bytes]], user: str
) -> dict[int, tuple[Outcome, Envelope]]:
    return {}


@dataclass(slots=True)
class Seed:
    """One seed: its position, when it expires (milliseconds since 1970, 0 for never), and the services that
    have got a copy. `notes` are the positions of the notes of that. For services in `refused` a reflex has
    refused it; they are asked again after a restart."""

    position: int
    id: str
    terms: profiles.SeedTerms
    selector: Selector
    persistent: bool
    expires_ms: int = 0
    served: set[str] = field(default_factory=set)
    notes: list[int] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)

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
        self, engine: Engine, registry: ServiceRegistry, may_send: MaySend, filter: Filter = _no_filter
    ) -> None:
        self._engine = engine
        self._registry = registry
        self._may_send = may_send
        self._filter = filter
        self._requests = EngineRequests(engine, _PRODUCER)
        self._ids = engine.broker.turn.ids
        self._seeds: dict[int, Seed] = {}
        self._changed: dict[str, Service] = {}
        self._woken = asyncio.Event()
        self._pace = _Pace()
        #: the notes that were published since it was read; only this service publishes any
        taps = engine.broker.store.taps
        self._noted = PendingWatch(taps, profiles.COPIES.address, self._ids, 2 * _RUN, _nothing)
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
            *(self._engine.broker, self._engine.records, self._requests.inspect, profiles.SEEDS.address),
            wake=self._woken.set,
        )
        self._noted.open()
        try:
            await self._load_all(feed)
            while True:
                await self._wait()
                await self._take_new(feed)
                await self._serve()
                await self._drop_ended()
        except Refused:
            if self._engine.ended is None:
                raise
        finally:
            feed.close()
            self._noted.close()

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(CHECK_S):
                await self._woken.wait()
        except TimeoutError:
            self._changed.update((service.id, service) for service in self._registry.all())
        self._woken.clear()

    def _on_service(self, event: str, service: Service) -> None:
        if event == DEREGISTERED:
            self._changed.pop(service.id, None)
        elif self._seeds:
            self._changed[service.id] = service
            self._woken.set()

    # ------------------------------------------------------------------ seeds

    async def _load_all(self, feed: ArrivalFeed) -> None:
        """Find the seeds of former processes, and who has got a copy."""
        after = 0
        while True:
            page = await feed.pending(after)
            await self._add(page.seqs)
            if not page.more:
                break
            after = page.seq
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
        found = await feed.take()
        while found.seqs:
            await self._add(found.seqs)
            if not found.more:
                return
            found = await feed.pending(found.seqs[-1])

    async def _add(self, seqs: list[int]) -> None:
        for seq in seqs:
            message = await self._message(seq)
            if message is None or seq in self._seeds:
                continue
            terms = profiles.terms_of(message.envelope.block)
            seed = Seed(
                seq,
                self._ids.of(message).decode(),
                terms,
                compiler.compile(terms.criteria),
                message.envelope.persistent,
                message.expires_ms,
            )
            self._seeds[seq] = seed
            await self._copy(seed, [service for service in self._registry.all() if service.active])
            if not seed.persistent:  # it is for those that are there
                await self._end(seed)

    async def _message(self, seq: int) -> Message | None:
        """A seed with its body; None if it is gone."""
        return await self._requests.inspect(lambda: self._read(profiles.SEEDS, seq))

    def _read(self, source: Destination, seq: int) -> Message | None:
        queue = self._engine.broker.destinations.queues.get(source.address)
        waiting = {} if queue is None else self._engine.broker.store.waiting(queue, {seq})
        if seq not in waiting:
            return None
        message = waiting[seq]
        return message or Reader(source.address).message(self._engine.records((seq,))[0], seq)

    async def _waiting_in(self, source: Destination) -> list[tuple[int, Message]]:
        """The messages that wait in a queue of this service."""

        def positions() -> list[int]:
            queue = self._engine.broker.destinations.queues.get(source.address)
            found = [] if queue is None else views.waiting_after(queue, 0, 1 << 30)
            return [one if isinstance(one, int) else one.position for one in found]

        found = []
        for seq in await self._requests.inspect(positions):
            message = await self._requests.inspect(lambda seq=seq: self._read(source, seq))  # type: ignore[misc]
            if message is not None:
                found.append((seq, message))
        return found

    # ------------------------------------------------------------------ copies

    async def _serve(self) -> None:
        """Make copies for services that registered or changed."""
        changed, self._changed = list(self._changed.values()), {}
        active = [service for service in changed if service.active]
        if not active:
            return
        for seed in list(self._seeds.values()):
            await self._copy(seed, active)

    async def _copy(self, seed: Seed, services: list[Service]) -> None:
        """Make a copy for each of the services that matches and has none."""
        names = await self._wanting(seed, services)
        for start in range(0, len(names), _RUN):
            message = await self._message(seed.position)
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
            if not seed.is_settled_for(name) and service.active and self._matches(seed, service):
                wanted[name] = None
        return list(wanted)

    def _matches(self, seed: Seed, service: Service) -> bool:
        registration = service.registration
        mailbox = Destination(QUEUE, registration.name)
        properties = {
            "name": registration.name,
            "user": registration.user,
            "machine": registration.machine,
            "type": registration.type,
            "events": ",".join(registration.events),
        }
        message = Message(Envelope(mailbox.address), b"", 0, 0, False)
        return seed.selector.accepts(properties, message, self._ids) and self._may_send(
            seed.terms.sender, mailbox
        )

    async def _accepted(self, seed: Seed, message: Message, names: list[str]) -> _Copies:
        """The copies that reflexes accept, by service, each with the messages that they publish with it."""
        copies: _Copies = {
            name: [(profiles.copy(message.envelope, name, seed.id, message.expires_ms), message.body)]
            for name in names
        }
        rows = [row for (row,) in copies.values()]
        for index, (outcome, envelope) in (await self._filter(rows, seed.terms.sender)).items():
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
                log.info("a copy of %s for %s has to wait: %s", seed.id, *copies, refused.detail)
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
        self._seeds.pop(seed.position, None)
        await self._delete(profiles.SEEDS, [seed.position])
        await self._delete(profiles.COPIES, seed.notes)

    async def _drop_ended(self) -> None:
        """Forget seeds that expired, or that an administrator removed from the queue."""
        queue = self._engine.broker.destinations.queues.get(profiles.SEEDS.address)
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


def _nothing(*answer: Any) -> None:
    return None
